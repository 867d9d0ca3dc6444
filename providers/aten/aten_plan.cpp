#include "providers/aten/aten_plan.h"

#include <algorithm>

#include "core/plan/memory/product_scratch.h"
#include "kernels/activation/activation_op.h"
#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_op.h"
#include "kernels/delta_rule/delta_rule_op.h"
#include "kernels/delta_rule/delta_rule_tiles.h"
#include "kernels/dora/dora_op.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/experts/expert_linear_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/latent/heads_op.h"
#include "kernels/layer_norm/layer_norm_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lm_head/head_op.h"
#include "kernels/lora/lora_op.h"
#include "kernels/offload/offload_op.h"
#include "kernels/optimizer/update_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/short_conv/short_conv_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {

std::string aten_attention_reason(const Attributes& a, bool sinks, const StepSizes& sizes) {
  if (sizes.aten) return "the job asks for it";
  if (a.position_distance > 0) return "no kernel adds a bias by distance to the scores";
  if (a.alibi) return "no kernel adds ALiBi's bias to the scores";
  if (a.sight != Sight::causal) return "no kernel attends without a causal mask or to a source";
  if (!sizes.gpu) return "";
  // The problem covers sequences of every length: a window hides something of some.
  const AttentionProblem problem{.capability = sizes.capability,
                                 .type = sizes.compute_bytes == 4 ? Element::f32 : Element::f16,
                                 .head_dim = a.head_dim,
                                 .heads = a.heads,
                                 .longest = a.window + 1,
                                 .window = a.window,
                                 .softcap = static_cast<float>(a.softcap),
                                 .sinks = sinks};
  const AttentionChoice choice = choose_attention(problem, /*backward=*/true);
  return choice.kernel == AttentionKernel::none ? choice.reason : "";
}

namespace {

// True for the ops between the embedding and the head, which both ATen and kernels can compute.
bool in_either(OpKind kind) {
  constexpr OpKind kElsewhere[] = {&ops::head,  &ops::evaluate, &ops::store,         &ops::stored,
                                   &ops::load,  &ops::loaded,   &ops::gradient_norm, &ops::update};
  return std::find(std::begin(kElsewhere), std::end(kElsewhere), kind) == std::end(kElsewhere);
}

// ---- memory ----

int64_t bytes_of_value(const Graph& graph, ValueId id, const StepSizes& sizes, int64_t element = 0) {
  const Buffer& buffer = graph.buffer_of(id);
  return sizes.rows(buffer.rows) * graph.value(id).width * (element > 0 ? element : sizes.element(buffer.type));
}

// LibTorch's attention on a CPU works on blocks of keys and of queries, the latter by length.
constexpr int64_t kKeyBlock = 512;
int64_t query_block(int64_t length) {
  return std::min<int64_t>(length, length >= 768 ? 256 : length >= 192 ? 64 : 32);
}

// Bytes of masks, of sums of rows and of a bias's buckets.
constexpr int64_t kSmallBytes = 65536;

// Bytes of a group's attention. Products need the rows of several texts apart, by head.
struct GroupBytes {
  int64_t queries = 0, keys = 0;  // rows of one operand where they are copied; 0 for texts by themselves
  int64_t out = 0;                // rows of a result
  int64_t pairs = 0;              // of all heads
  int64_t masks = 0;              // what a query sees, and what it does not
  int64_t element = 4;

  // Step by step: the scores, their softmax in fp32, and what is mixed by it.
  int64_t eager_forward(bool capped) const {
    const int64_t scores = element * pairs, held = queries + 2 * keys, softmax = (element < 4 ? 8 : 4) * pairs;
    return held + scores * (capped ? 2 : 1) + masks + std::max({queries + keys, scores, softmax, 4 * pairs + (element < 4 ? scores : 0) + keys + out});
  }
  // The softmax's result with both of its gradients, or the scores' gradients with those of queries
  // and keys.
  // Then the diagonals of a table's gradient, with as many zeros between them.
  int64_t eager_backward(bool capped, bool learns) const {
    const int64_t held = 2 * queries + 3 * keys + (out - queries) + (capped ? element * pairs : 0);
    const int64_t diagonals = learns ? (element < 4 ? 14 : 12) * pairs + 2 * out : 0;
    return held + masks + std::max({12 * pairs, 2 * element * pairs + 2 * (queries + keys), diagonals});
  }
  int64_t forward() const { return 3 * queries + 2 * keys + out; }
  int64_t backward() const { return 4 * queries + 2 * keys + 2 * out + 2 * std::max(keys, out); }
};

// Bytes that the threads of LibTorch's kernel take for their blocks and the products of them.
int64_t block_bytes(int64_t queries, int64_t seen, int64_t head_dim, const ActivationShape& shape, bool backward) {
  const int64_t rows = query_block(queries), keys = std::min(kKeyBlock, seen), element = bytes_of(shape.precision),
                narrow = element < 4 ? element : 0;
  ProductScratch scratch(shape.instructions, shape.threads);
  int64_t product = 0;
  if (narrow > 0 && !shape.cuda)
    product = backward ? scratch.bytes({keys, rows, head_dim, true}) : std::max(scratch.bytes({rows, head_dim, keys}), scratch.bytes({rows, keys, head_dim}));
  return shape.threads * ((backward ? rows * keys * 2 * (4 + narrow) + 4 * rows : rows * (4 * (keys + 2 + head_dim) + narrow * keys)) + product);
}

int64_t attention_bytes(const Graph& graph, const Op& op, const StepSizes& sizes, const ActivationShape& shape, const GroupSizes& groups) {
  const bool backward = op.kind == &ops::attention_backward;
  const Attributes& a = op.attributes;
  const int64_t row = a.heads * a.head_dim * sizes.compute_bytes;
  const bool of_answers = a.sight != Sight::whole, to_answers = a.sight == Sight::causal;
  const int64_t pairs = !of_answers ? groups.source_pairs : to_answers ? groups.answer_pairs : groups.cross_pairs;
  const auto longest = [&](bool answers) { return answers ? shape.longest_sequence : shape.longest_source; };
  const int64_t length = longest(of_answers), seen = longest(to_answers);
  GroupBytes bytes{.queries = (of_answers ? groups.answers : groups.sources) * row,
                   .keys = (to_answers ? groups.answers : groups.sources) * row,
                   .pairs = pairs * a.heads,
                   .masks = 2 * pairs,
                   .element = sizes.compute_bytes};
  bytes.out = std::max(bytes.queries, length * row);
  // Keys repeated for the heads of queries that share them.
  if (a.kv_heads < a.heads) bytes.keys = std::max(bytes.keys, seen * row);
  // Scores that are capped, or have a column of sinks, are a matrix more.
  const bool learns = any_module(graph, op, &ModuleUse::trained);
  const bool capped = a.softcap != 0 || (a.position_distance == 0 && !op.modules.empty());
  if (capped || a.alibi || !op.modules.empty()) return kSmallBytes + (backward ? bytes.eager_backward(capped, learns) : bytes.eager_forward(capped));
  return kSmallBytes + (backward ? bytes.backward() : bytes.forward()) + block_bytes(length, seen, a.head_dim, shape, backward);
}

// Bytes of the delta rule in ATen: what a chunk makes in fp32, for each head of v, which autograd
// keeps, and the states between a text's chunks; forward the results, which are joined.
int64_t delta_bytes(const Op& op, const StepSizes& sizes, int64_t longest) {
  const Attributes& a = op.attributes;
  const bool back = op.kind == &ops::delta_rule_backward || op.kind == &ops::state_space_backward;
  const int64_t rows = std::min(longest, kDeltaChunk), state = a.heads * a.key_dim * a.value_dim;
  const int64_t chunk = rows * a.heads * ((back ? 10 : 6) * rows + (back ? 8 : 4) * a.key_dim + (back ? 10 : 5) * a.value_dim);
  const int64_t states = back ? (longest + kDeltaChunk - 1) / kDeltaChunk + 5 : 3;
  const int64_t results = back ? 0 : 2 * sizes.tokens * a.heads * a.value_dim * sizes.compute_bytes;
  return kSmallBytes + 4 * (chunk + states * state) + results;
}

// Bytes of the short convolution in ATen: a text's rows, its sum, silu's result, a tap and what is
// added to it; the gradient of each tap has the text's size; forward the results, which are joined.
int64_t conv_bytes(const Graph& graph, const Op& op, const StepSizes& sizes, int64_t longest) {
  const bool back = op.kind == &ops::short_conv_backward;
  const int64_t row = bytes_of_value(graph, op.in.back(), {.tokens = 1, .compute_bytes = sizes.compute_bytes});
  return kSmallBytes + row * (longest * (back ? 8 : 5) + (back ? 0 : 2 * sizes.tokens));
}

bool of_delta_rule(OpKind kind) {
  return kind == &ops::delta_rule || kind == &ops::delta_rule_backward || kind == &ops::state_space || kind == &ops::state_space_backward;
}

// True for the ops of layers that keep states, which have no GPU kernels yet.
bool on_cpu_alone(OpKind kind) {
  constexpr OpKind kKinds[] = {&ops::delta_gates,  &ops::delta_gates_backward, &ops::delta_rule,
                               &ops::delta_rule_backward, &ops::step_gates, &ops::step_gates_backward, &ops::state_space, &ops::state_space_backward,
                               &ops::split_groups, &ops::split_groups_backward};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

}  // namespace

bool rescaled_experts(const Graph& graph, const Op& op) {
  const bool of_experts = op.kind == &ops::expert_linear || op.kind == &ops::expert_input_gradient ||
                          op.kind == &ops::expert_adapter_gradient;
  return of_experts && any_module(graph, op, &ModuleUse::dora);
}

std::string aten_reason(const Graph& graph, const Op& op, const StepSizes& sizes) {
  if (sizes.aten) return in_either(op.kind) ? "the job asks for it" : "";
  if (op.kind == &ops::attention || op.kind == &ops::attention_backward) return aten_attention_reason(op.attributes, !op.modules.empty(), sizes);
  if (sizes.gpu && on_cpu_alone(op.kind)) return std::string("no GPU kernel computes ") + name_of(op.kind);
  if ((op.kind == &ops::activation || op.kind == &ops::activation_backward) && op.attributes.activation == ActivationKind::relu)
    return "no kernel computes relu";
  if (sizes.gpu && op.attributes.head_weights) return "no GPU kernel norms heads by weights of their own";
  if (op.kind == &ops::unit_norm || op.kind == &ops::unit_norm_backward) return "no kernel norms heads without a weight";
  if (op.kind == &ops::scale_weights || op.kind == &ops::scale_weights_backward) return "no kernel scales the weights of experts";
  if ((op.kind == &ops::scale || op.kind == &ops::scale_backward) && !op.modules.empty()) return "no kernel multiplies by a number of the file";
  if (op.kind == &ops::weigh_rows || op.kind == &ops::weigh_rows_backward) return "no kernel weighs what goes into an expert";
  return rescaled_experts(graph, op) ? "no kernel rescales an expert's columns, as DoRA does" : "";
}

bool asks_aten(const Graph& graph, const StepSizes& sizes) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return !aten_reason(graph, op, sizes).empty(); });
}

int64_t aten_bytes(const Graph& graph, const Op& op, const StepSizes& sizes, const ActivationShape& shape) {
  if (op.kind == &ops::attention || op.kind == &ops::attention_backward) {
    // A decoder's texts are computed one after the other.
    const GroupSizes alone{.answer_pairs = shape.longest_sequence * shape.longest_sequence};
    return attention_bytes(graph, op, sizes, shape, shape.spec.reads_source() ? shape.groups : alone);
  }
  if (op.kind == &ops::short_conv || op.kind == &ops::short_conv_backward) return conv_bytes(graph, op, sizes, shape.longest_sequence);
  if (of_delta_rule(op.kind)) return delta_bytes(op, sizes, shape.longest_sequence);
  // The result under autograd, and the gradient.
  if (op.kind == &ops::activation || op.kind == &ops::activation_backward)
    return 2 * bytes_of_value(graph, op.in[0], sizes);
  AtenCopies copies = op.kind->copies;
  if (copies.wide > 0 && sizes.compute_bytes == 4) --copies.wide;  // nothing is converted
  if (op.kind == &ops::linear && !shape.training) copies.operands = 0;  // x without dropout
  int64_t values = 0, weights = 0;
  for (ValueId id : op.out) values += copies.results * bytes_of_value(graph, id, sizes);
  for (ValueId id : op.in) values += copies.operands * bytes_of_value(graph, id, sizes);
  if (!op.in.empty()) values += copies.wide * bytes_of_value(graph, op.in[0], sizes, 4);
  for (int32_t at : op.modules) {
    const ModuleUse& module = graph.modules[static_cast<size_t>(at)];
    // A gradient before it is added up, one after the other, or ‖W + B A‖.
    const int64_t gradient = module.trained && op.kind == &ops::linear_weight_gradient ? sizes.compute_bytes : 0;
    weights = std::max(weights, (module.dora ? 8 : gradient) * module.in * module.out);
  }
  return values + weights;
}

}  // namespace forge
