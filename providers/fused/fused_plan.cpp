#include "providers/fused/fused_plan.h"

#include <algorithm>

#include "core/graph/op_record.h"
#include "core/job/names.h"
#include "core/lib/base/text.h"
#include "core/model/families/step.h"
#include "core/model/graph/fold_adapters.h"
#include "core/plan/memory/product_scratch.h"
#include "core/plan/stages/fp8.h"
#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_op.h"
#include "kernels/attention/attention_turns.h"
#include "kernels/attention/cached_attention_args.h"
#include "kernels/call/planned_call.h"
#include "kernels/device/gemm.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lm_head/head_op.h"
#include "kernels/lm_head/lm_head_scratch.h"
#include "kernels/lora/folded_args.h"
#include "kernels/lora/folded_limits.h"
#include "kernels/quantize/quantize_args.h"
#include "providers/aten/aten_plan.h"
#include "providers/fused/state_sizes.h"

namespace forge {
namespace {

Element element_of_bytes(int64_t bytes) { return bytes == 4 ? Element::f32 : Element::bf16; }

StepSizes sizes_of(const ActivationShape& shape, bool aten = false) {
  return {.tokens = shape.micro_batch_tokens,
          .targets = shape.supervised_tokens,
          .compute_bytes = bytes_of(shape.precision),
          .threads = shape.threads,
          .gpu = shape.cuda,
          .source = shape.source_tokens,
          .multiprocessors = shape.multiprocessors,
          .capability = shape.capability,
          .deterministic = shape.deterministic,
          .aten = aten};
}

// Bytes beside the arena: the micro-batch itself, and numbers for each supervised position.
int64_t batch_bytes(const ActivationShape& shape) {
  const int64_t angles = shape.micro_batch_tokens * shape.spec.angles();
  const int64_t narrow = shape.precision == Precision::fp32 ? 0 : bytes_of(shape.precision);
  // Keys of dropout and starts of sequences; also ids, angles and targets a second time, for
  // graphs.
  const int64_t tokens = shape.micro_batch_tokens + shape.source_tokens;
  const int64_t keys = shape.cuda ? 32 * tokens + 4 * angles + 16 * shape.supervised_tokens : 0;
  const int64_t slopes = shape.cuda && shape.spec.router_loss > 0 ? 4 * shape.spec.num_experts : 0;
  // Positions, and the slots and rows of texts that are padded together.
  const int64_t groups = shape.spec.reads_source() ? 8 * tokens * (shape.spec.learned_positions + 4) : 0;
  return slopes + groups + 8 * tokens + angles * (4 + narrow) + 20 * shape.supervised_tokens + keys;
}

// Returns the products that an op leaves to LibTorch. Modules whose weights are consecutive in
// memory are multiplied as one.
std::vector<Product> products_of(const Graph& graph, const Op& op, const StepSizes& sizes) {
  const int64_t chunk = std::min(kHeadChunk, sizes.targets);
  std::vector<Product> products;
  int64_t in = 0, outs = 0;
  for (size_t i = 0; i < op.modules.size(); ++i) {
    const ModuleUse& module = graph.module(op, i);
    if (module.fp8) continue;
    in = module.in, outs += module.out;
    if (op.kind == &ops::linear) products.push_back({sizes.tokens, in, module.out});
    if (op.kind == &ops::linear_input_gradient) products.push_back({sizes.tokens, module.out, in});
    if (op.kind == &ops::linear_weight_gradient && module.trained)
      products.push_back({module.out, sizes.tokens, in, true});
    const int64_t rows = sizes.tokens * op.attributes.route.per_token;  // one expert may get every row
    if (op.kind == &ops::expert_linear) products.push_back({rows, in, module.out});
    if (op.kind == &ops::expert_input_gradient) products.push_back({rows, module.out, in});
    if (op.kind == &ops::expert_weight_gradient && module.trained) products.push_back({module.out, rows, in, true});
    if (op.attributes.fused_head) continue;
    if (op.kind == &ops::head || op.kind == &ops::evaluate) products.push_back({chunk, in, module.out});
    if (op.kind == &ops::head) products.push_back({chunk, module.out, in});
    if (op.kind == &ops::head && module.trained) products.push_back({module.out, chunk, in, true});
  }
  if (op.kind == &ops::linear) products.push_back({sizes.tokens, in, outs});
  if (op.kind == &ops::linear_input_gradient) products.push_back({sizes.tokens, outs, in});
  return products;
}

// Bytes of the gradient of a trained head in 16 bits: a matrix of its own before it is added up,
// except on forge's tiles.
int64_t head_gradient_bytes(const ActivationShape& shape, const Graph& graph) {
  const int64_t element = bytes_of(shape.precision);
  if (element == 4 || shape.bf16_tiles) return 0;
  for (const Op& op : graph.ops)
    if (op.kind == &ops::head && !op.attributes.fused_head && graph.module(op).trained)
      return element * graph.module(op).in * graph.module(op).out;
  return 0;
}

// Bytes of a converted head, if it is not held in the compute type. It is apart from the buffer
// that linear layers share.
int64_t converted_head_bytes(const ActivationShape& shape, const Graph& graph) {
  if (shape.storage == shape.precision) return 0;
  for (const ModuleUse& module : graph.modules)
    if (module.kind == ModuleKind::head) return module.in * module.out * bytes_of(shape.precision);
  return 0;
}

// Bytes of folded adapters: a copy of A and B beside their weights, the zeros next to them, and the
// padding of rows.
int64_t folded_bytes(const ActivationShape& shape, const Graph& graph) {
  int64_t elements = 0, counters = 0;
  for (size_t i = 0; i < graph.forward_ops; ++i) {
    const Op& op = graph.ops[i];
    if (op.kind != &ops::linear || !op.attributes.folded) continue;
    const int64_t ranks = ranks_of(graph, op), outs = outs_of(graph, op), in = graph.module(op).in;
    elements += (outs + ranks) * (in + spare_columns(ranks)) - outs * in;
    counters = kFoldedCounterBytes;
  }
  return elements * bytes_of(shape.precision) + counters;
}

// Bytes that FusedModules holds for weights of another type: one weight in the compute type, or two
// if they are decoded ahead; the ones that serve as scales in E4M3; and the code books of blocks.
int64_t scratch_weight_bytes(const ActivationShape& shape, const Graph& graph) {
  int64_t ones = 0;
  for (const ModuleUse& module : graph.modules)
    if (module.fp8) ones = std::max(ones, 4 * module.in);
  return (decodes_ahead(graph, shape.cuda) ? 2 : 1) * conversion_bytes(shape, graph) + ones +
         (shape.quantization == Quantization::none ? 0 : kCodeBookBytes);
}

AttentionProblem gpu_attention(const ActivationShape& shape, const Attributes& of, int64_t window) {
  const ModelSpec& spec = shape.spec;
  return {
      .capability = shape.capability,
      .type = shape.precision == Precision::fp16 ? Element::f16 : element_of_bytes(bytes_of(shape.precision)),
      .head_dim = of.head_dim,
      .heads = of.heads,
      .sequences = shape.several_sequences || shape.spec.attention_chunk > 0 ? shape.micro_batch_tokens : 1,
      .tokens = shape.micro_batch_tokens,
      .longest = shape.longest_sequence,
      .window = window,
      .softcap = static_cast<float>(of.softcap),
      .sinks = spec.attention_sinks};
}

// Bytes of LibTorch's efficient attention beside the arena. Windows of long texts are counted like
// short texts, in which a window hides nothing.
int64_t attention_bytes(const ActivationShape& shape) {
  int64_t most = 0;
  for (const Op& op : shape.lists->forward().ops) {
    if (op.kind != &ops::attention) continue;
    const Attributes& a = op.attributes;
    const AttentionProblem problem = gpu_attention(shape, a, /*window=*/0);
    if (choose_attention(problem, /*backward=*/true).kernel != AttentionKernel::efficient) continue;
    const AttentionShape of{.type = problem.type,
                            .sequences = a.chunk > 0 ? INT64_MAX : shape.texts,
                            .heads = a.heads,
                            .kv_heads = a.kv_heads,
                            .head_dim = a.head_dim,
                            .tokens = shape.micro_batch_tokens,
                            .longest = a.chunk > 0 ? std::min(shape.longest_sequence, a.chunk) : shape.longest_sequence};
    most = std::max(most, efficient_attention_bytes(of, shape.capability));
  }
  return most;
}

// Returns the most bytes that LibTorch takes beside a product, less the head's gradient: both are
// beside the arena, at different times.
int64_t product_bytes(const ActivationShape& shape, const Graph& graph, const StepSizes& sizes) {
  if (shape.cuda) return gpu_product_workspace(shape);
  if (shape.precision == Precision::fp32) return 0;
  const int64_t gradient = head_gradient_bytes(shape, graph);
  ProductScratch scratch(shape.instructions, shape.threads);
  int64_t most = 0;
  for (const Op& op : graph.ops) {
    if (shape.bf16_tiles && aten_reason(graph, op, sizes).empty()) continue;
    for (const Product& product : products_of(graph, op, sizes)) {
      const bool beside_gradient = op.kind == &ops::head && product.transposed;
      most = std::max(most, scratch.bytes(product) - (beside_gradient ? 0 : gradient));
    }
  }
  return most;
}

// Returns the most bytes that LibTorch allocates for an op that it computes, on a CPU with its
// product's; less what the head's gradient and products take, which is free by then.
int64_t most_aten_bytes(const ActivationShape& shape, const Graph& graph, const StepSizes& sizes) {
  const bool no_scratch = shape.cuda || shape.precision == Precision::fp32;  // or one that is always held
  ProductScratch scratch(shape.instructions, shape.threads);
  int64_t most = 0;
  for (const Op& op : graph.ops) {
    if (aten_reason(graph, op, sizes).empty()) continue;
    int64_t product = 0;
    if (!no_scratch)
      for (const Product& of : products_of(graph, op, sizes)) product = std::max(product, scratch.bytes(of));
    most = std::max(most, aten_bytes(graph, op, sizes, shape) + product);
  }
  return std::max<int64_t>(0, most - head_gradient_bytes(shape, graph) - (no_scratch ? 0 : product_bytes(shape, graph, sizes)));
}

// Ways to run a list: by kernels and, for ops without one, ATen; by ATen alone in the same arena;
// or by ATen without an arena, where what an op takes is free before a fuller moment of another.
enum class Runs { kernels, aten, aten_without_arena };

// Returns what ATen takes for an op whose results stay where it made them; a result in the place of
// an operand is memory of its own.
int64_t beside_results(const Graph& graph, const Op& op, const StepSizes& sizes, const ActivationShape& shape) {
  int64_t bytes = aten_bytes(graph, op, sizes, shape);
  if (op.kind == &ops::attention) return bytes;  // made text by text, and joined
  for (ValueId out : op.out) {
    const auto in_its_place = [&](ValueId in) { return graph.value(in).buffer == graph.value(out).buffer; };
    const Buffer& buffer = graph.buffer_of(out);
    if (std::none_of(op.in.begin(), op.in.end(), in_its_place))
      bytes -= sizes.rows(buffer.rows) * graph.value(out).width * sizes.element(buffer.type);
  }
  return std::max<int64_t>(0, bytes);
}

std::vector<MemoryLine> list_lines(const ActivationShape& shape, Runs runs) {
  const bool aten = runs != Runs::kernels, in_arena = runs != Runs::aten_without_arena;
  const StepSizes sizes = sizes_of(shape, aten);
  const Graph& graph = shape.training ? shape.lists->training(shape) : shape.lists->evaluation(shape);
  Layout layout = lay_out(graph, sizes, [&](const Graph& list, const Op& op, const StepSizes& of) {
    return in_arena || aten_reason(list, op, of).empty() ? fused_workspace(list, op, of) : beside_results(list, op, of, shape);
  });
  if (!in_arena) layout.bytes = layout.kept_bytes + layout.working_bytes;
  const std::string tokens = format_count(shape.micro_batch_tokens) + " tokens" +
                             (shape.source_tokens > 0 ? " and " + format_count(shape.source_tokens) + " of sources" : "");
  std::vector<MemoryLine> lines;
  const auto add = [&](const char* name, int64_t bytes, std::string formula) {
    if (bytes > 0) lines.push_back({name, bytes, std::move(formula)});
  };
  add("saved activations", layout.kept_bytes,
      tokens + " in " + name_of(shape.precision) +
          ": what is kept for backward at the fullest moment; computed again: " + describe(shape.recompute) + (shape.kept_norms ? "; norms' results are kept" : ""));
  add("layer workspace", layout.bytes - layout.kept_bytes,
      tokens + (in_arena ? ": the rest of the arena, which is " + format_bytes(layout.bytes) : ": values and what LibTorch makes of them, at the fullest op"));
  add("adapters in the weights", folded_bytes(shape, graph), "A and B once more, where the products of their weights read them");
  for (MemoryLine& line : lines) line.held = true;
  add("head gradient", head_gradient_bytes(shape, graph), "before it is added up");
  // Attention's memory is free for another op.
  const int64_t attention = shape.cuda && !aten ? attention_bytes(shape) : 0;
  if (in_arena)
    add("ATen", most_aten_bytes(shape, graph, sizes) - attention,
        tokens + ": what LibTorch holds beside the arena for one op" + (attention > 0 ? ", beyond attention" : "") + (aten ? ", a bound" : ""));
  add("products", product_bytes(shape, graph, sizes),
      shape.cuda ? "workspaces of cuBLAS and cuBLASLt" : product_formula(shape.precision, shape.instructions, shape.threads));
  add("attention", attention, tokens + ": results and sums of LibTorch's efficient kernels");
  if (shape.cuda && shape.training && !asks_host(graph) && !asks_aten(graph, sizes))
    add("graphs", attention, "the same once more: what captured graphs write lies in a pool of their own");
  add("batch", batch_bytes(shape), tokens + ": ids, angles, targets");
  // A chunk of the head takes at most a dozen fp32 numbers a position until it is a loss; an
  // evaluation keeps log-probabilities.
  if (shape.fused_head)
    add("objective", shape.training ? 0 : 4 * shape.supervised_tokens, "4 B for each position");
  else
    add("objective", 48 * std::min(kHeadChunk, shape.supervised_tokens), "48 B for each position of a chunk of the head");
  if (const MemoryLine answers = answer_line(shape); answers.bytes > 0) lines.push_back(answers);
  add("weight conversion", scratch_weight_bytes(shape, graph) + converted_head_bytes(shape, graph),
      "the largest weight " + (shape.quantization == Quantization::fp8 ? "transposed for d x" : "in " + name_of(shape.precision)) + (decodes_ahead(graph, shape.cuda) ? " while it is used, and the next one" : " while it is used"));
  return lines;
}

// Returns the most bytes that attention over the cache takes in ATen: a text's keys and values, as
// they are read from the pages and repeated for the heads that share them, and its scores.
int64_t cached_rows_bytes(const ActivationShape& shape, int64_t longest) {
  const ModelSpec& spec = shape.spec;
  int64_t widest = 0;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    widest = std::max(widest, spec.head_width(layer) * (spec.kv_heads(layer) + spec.num_heads));
  return longest * (2 * widest * bytes_of(shape.precision) + 12 * spec.num_heads);
}

std::vector<MemoryLine> decoding_lines(const ActivationShape& shape, const DecodingShape& decoding, bool aten) {
  ActivationShape reading = shape;
  reading.training = reading.folded_adapters = reading.folded_residuals = reading.fused_head = false;
  reading.micro_batch_tokens = std::max(decoding.prompt_tokens, decoding.slots);
  reading.supervised_tokens = decoding.slots;
  reading.longest_sequence = decoding.longest_prompt;
  const StepSizes sizes = sizes_of(reading, aten);
  const Graph& graph = shape.lists->evaluation({});
  const bool cached_rows = aten || shape.cuda || shape.spec.alibi;
  const int64_t arena = lay_out(graph, sizes, fused_workspace).bytes;
  int64_t features = 0;
  for (int64_t layer = 0; layer < shape.spec.num_layers; ++layer)
    if (shape.spec.attends(layer) && !shape.spec.shares_kv(layer)) features += shape.spec.key_width(layer);
  const int64_t page = 2 * std::max<int64_t>(1, features) * kCachePage * bytes_of(shape.precision);
  // A group shares its prompt's full pages; each completion has its own last page and the pages
  // after it. The cache doubles when it is full, and holds old and new memory while it copies.
  const auto pages_of = [](int64_t tokens) { return (tokens + kCachePage - 1) / kCachePage; };
  const int64_t groups = (decoding.slots + decoding.group - 1) / decoding.group;
  const int64_t pages = groups * decoding.longest_prompt / kCachePage +
                        decoding.slots * pages_of(kCachePage - 1 + decoding.max_new_tokens);
  int64_t held = 8;
  while (held < pages) held *= 2;
  const int64_t cache = (held > 8 ? held + held / 2 : held) * page;
  const int64_t rows = decoding.slots * shape.spec.vocab_size * 4;
  const std::string tokens = format_count(sizes.tokens) + " tokens";
  std::vector<MemoryLine> lines{
          {"rollout: cache", cache,
           format_count(pages) + " pages of " + format_count(kCachePage) + " tokens, " + format_bytes(page) +
               " each: keys and values of " + format_count(decoding.slots) + " completions of at most " +
               format_count(decoding.max_new_tokens) + " tokens, in an allocation that doubles"},
          {"rollout: decoding", arena, tokens + " at once, forward only"},
          {"rollout: logits", (decoding.group > 1 || cached_rows ? 2 : 1) * rows, format_count(decoding.slots) + " rows in fp32"}};
  const auto add = [&](const char* name, int64_t bytes, std::string formula) {
    if (bytes > 0) lines.push_back({name, bytes, std::move(formula)});
  };
  const int64_t states = static_cast<int64_t>(shape.spec.delta_layers.size()) * state_sizes(shape.spec, bytes_of(shape.precision)).bytes();
  add("rollout: states", decoding.slots * states, format_count(decoding.slots) + " completions, " + format_bytes(states) +
          " each: of layers with a delta rule, the matrices in fp32 and the last columns of the convolution");
  const int64_t in_aten = most_aten_bytes(reading, graph, sizes),
                over_cache = cached_rows ? cached_rows_bytes(shape, decoding.longest_prompt + decoding.max_new_tokens) : 0;
  add("rollout: ATen", std::max(in_aten, over_cache), tokens + ": what LibTorch holds beside the arena for one op" + (aten ? ", a bound" : ""));
  if (aten && !shape.cuda) add("rollout: products", product_bytes(reading, graph, sizes), product_formula(shape.precision, shape.instructions, shape.threads));
  if (shape.cuda && !aten) add("rollout: attention", attention_bytes(reading), tokens + ": results of LibTorch's efficient kernels");
  if (shape.cuda) add("rollout: batch", batch_bytes(reading), tokens + ": ids, angles, targets");
  add("rollout: weight conversion", scratch_weight_bytes(reading, graph) + (cached_rows ? converted_head_bytes(reading, graph) : 0),
      "the decoder's own: the largest weight in " + name_of(shape.precision));
  return lines;
}

}  // namespace

bool asks_host(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.kind == &ops::route; });
}
int64_t fused_workspace(const Graph& graph, const Op& op, const StepSizes& sizes) {
  return aten_reason(graph, op, sizes).empty() ? planned_workspace(graph, op, sizes) : 0;
}
bool decodes_ahead(const Graph& graph, bool gpu) { return gpu && !asks_host(graph); }

Choice<Attention> aten_attention(const ActivationShape& shape, const Attributes& of) {
  if (of.position_distance > 0) return {Attention::eager, "LibTorch's kernels give a bias of the scores no gradient"};
  if (of.alibi) return {Attention::eager, "LibTorch's kernels have no ALiBi"};
  if (shape.spec.attention_sinks) return {Attention::eager, "LibTorch's kernels have no sinks"};
  if (of.softcap != 0) return {Attention::eager, "LibTorch's kernels have no cap on the scores"};
  return {Attention::sdpa, "LibTorch's scaled_dot_product_attention, one group of texts after the other"};
}

Choice<Attention> fused_attention(const ActivationShape& shape, const Attributes& of) {
  if (!aten_attention_reason(of, shape.spec.attention_sinks, sizes_of(shape)).empty()) return aten_attention(shape, of);
  if (!shape.cuda) return {Attention::tiles, "forge's own, in cache: the score matrix is never held"};
  // The choice is that of the backward: if the forward's kernel differs, it is the faster one.
  const AttentionChoice choice = choose_attention(gpu_attention(shape, of, of.window), /*backward=*/true);
  const Attention kernel = choice.kernel == AttentionKernel::flash       ? Attention::flash
                           : choice.kernel == AttentionKernel::efficient ? Attention::efficient
                                                                         : Attention::own;
  return {kernel, choice.reason};
}

std::vector<std::string> fused_faults(const ActivationShape& shape) {
  if (const std::string fault = fp8_device_fault(shape.cuda, shape.capability); shape.quantization == Quantization::fp8 && !fault.empty())
    return {fault};
  return {};
}

std::vector<MemoryLine> fused_activation_lines(const ActivationShape& shape) { return list_lines(shape, Runs::kernels); }
std::vector<MemoryLine> aten_activation_lines(const ActivationShape& shape) { return list_lines(shape, Runs::aten); }
std::vector<MemoryLine> op_by_op_lines(const ActivationShape& shape) { return list_lines(shape, Runs::aten_without_arena); }
std::vector<MemoryLine> aten_decoding_lines(const ActivationShape& shape, const DecodingShape& decoding) { return decoding_lines(shape, decoding, true); }
std::vector<MemoryLine> fused_decoding_lines(const ActivationShape& shape, const DecodingShape& decoding) { return decoding_lines(shape, decoding, false); }

}  // namespace forge
