#include "providers/reference/reference_plan.h"

#include <algorithm>

#include "core/job/names.h"
#include "core/lib/base/text.h"
#include "core/model/families/step.h"
#include "kernels/lm_head/lm_head_scratch.h"
#include "providers/reference/rehearsed_ops.h"
#include "providers/reference/segments.h"

namespace forge {
namespace {

// Allowance for small tensors and LibTorch's own buffers, by measurement: over the cells of
// bench/memory/run.py the lines above are short by at most 52 KiB for models with 35 MB and more,
// and by 32 KiB for smaller ones.
constexpr double kUnrehearsedShare = 0.0075;
constexpr int64_t kUnrehearsedBytes = 32768;

// A step of reference.cpp, with the work around the layers as in core/train/network.cpp and
// kernels/.
class Step {
 public:
  Step(const ActivationShape& shape, Ledger& ledger)
      : shape_(shape),
        ledger_(ledger),
        list_(shape.lists->forward()),
        segments_(segments_of(list_, shape.recompute)),
        lowest_(lowest_segment(list_, segments_)),
        ops_(shape, list_, ledger) {}

  void train() {
    Held batch = batch_tensors();
    std::vector<Kept> kept(segments_.size());
    Held hidden;
    for (size_t i = 0; i < segments_.size(); ++i) {
      if (segments_[i].first()) hidden = embedded(segments_[i], hidden, Use::saved);
      const bool keeps = i >= lowest_ && segments_[i].kept;
      Held output = run(i, hidden, Use::saved, keeps ? &kept[i].nodes : nullptr);
      if (i >= lowest_ && (keeps || segments_[i].first() || i == lowest_ || segments_[i - 1].keeps_output)) kept[i].input = hidden;
      if (keeps) kept[i].output = output;
      hidden = output;
    }
    hidden.reset();
    Held grad = head_backward();
    for (size_t i = segments_.size(); i-- > lowest_;) {
      compute_again(kept, i);
      grad = ops_.pull(std::move(kept[i].nodes), segments_[i].input, segments_[i].output, grad);
      kept[i] = {};
      if (!segments_[i].first()) continue;
      if (learns(list_.ops[0]) && element_of(segments_[i].input) < 4)
        ledger_.hold(Use::layer, 4 * rows_of(segments_[i]) * shape_.spec.hidden_size);
      if (i > 0) grad = ops_.take_source_gradient();
    }
  }

  void evaluate() {
    Held batch = batch_tensors();
    Held hidden;
    for (size_t i = 0; i < segments_.size(); ++i) {
      if (segments_[i].first()) hidden = embedded(segments_[i], hidden, Use::layer);
      hidden = run(i, hidden, Use::layer, nullptr);
    }
    Held rows = picked();
    Held normed = final_norm(nullptr);
    Held scratch = logits(false);
    multiply_head({chunk(), shape_.spec.hidden_size, outputs()});
  }

  const Graph& list() const { return list_; }

 private:
  struct Kept {
    Held input, output;
    std::vector<SavedOp> nodes;
  };

  int64_t element() const { return bytes_of(shape_.precision); }
  bool narrow() const { return element() < 4; }
  int64_t chunk() const { return std::min(kHeadChunk, shape_.supervised_tokens); }
  int64_t element_of(ValueId value) const { return list_.buffer_of(value).type == ValueType::fp32 ? 4 : element(); }
  // Holds the stream's rows of supervised positions.
  Held picked() {
    return ledger_.hold(Use::head, element_of(final_norm_op().in[0]) * shape_.supervised_tokens * shape_.spec.hidden_size);
  }
  int64_t rows_of(const Segment& segment) const {
    return list_.buffer_of(segment.input).rows == Rows::source ? shape_.source_tokens : shape_.micro_batch_tokens;
  }
  // Holds the input of an encoder or a decoder. The decoder also reads the encoder's result,
  // `before`.
  Held embedded(const Segment& first, const Held& before, Use use) {
    if (before)
      for (const Segment& segment : segments_)
        if (segment.source != kNoValue) ops_.read_source(segment.source, before);
    return ledger_.hold(use, element_of(first.input) * rows_of(first) * shape_.spec.hidden_size);
  }
  int64_t outputs() const { return list_.module(list_.ops.back()).out; }  // of the head
  // Holds the logits of a chunk. LibTorch's gradient of an entropy takes two more matrices in fp32,
  // the kernel's none.
  Held logits(bool entropy) {
    const HeadRowCounts rows = head_rows(chunk(), narrow(), false, shape_.cuda);
    return ledger_.hold(Use::head, outputs() * (4 * rows.wide + (shape_.cuda && entropy ? 8 : 0) * rows.product + element() * rows.product));
  }
  // Rehearses a product of the head. Tiles allocate nothing.
  void multiply_head(const Product& product) {
    if (!shape_.bf16_tiles) ops_.multiply(product);
  }
  bool learns(const Op& op) const { return list_.module(op).trained; }

  // Holds ids and angles, and ids, positions and weights of supervised tokens.
  Held batch_tensors() {
    const int64_t angles = shape_.micro_batch_tokens * shape_.spec.angles();
    const int64_t ids = (shape_.micro_batch_tokens + shape_.source_tokens) * (shape_.spec.learned_positions && shape_.spec.reads_source() ? 16 : 8);
    return ledger_.hold(Use::batch, ids + angles * element() + 20 * shape_.supervised_tokens);
  }

  // Returns the norm after the gathering of supervised rows.
  const Op& final_norm_op() const {
    size_t i = segments_.back().end;
    while (list_.ops[i].kind != OpKind::gather) ++i;
    return list_.ops[i + 1];
  }

  Held run(size_t i, const Held& input, Use use, std::vector<SavedOp>* nodes) {
    const Segment& s = segments_[i];
    return ops_.run(s.begin, s.end, s.input, input, s.output, use, nodes);
  }
  void compute_again(std::vector<Kept>& kept, size_t i) {
    if (kept[i].output) return;
    if (!kept[i].input) {
      compute_again(kept, i - 1);
      kept[i].input = kept[i - 1].output;
    }
    kept[i].output = run(i, kept[i].input, Use::layer, &kept[i].nodes);
  }

  Held final_norm(SavedOp* node) {
    const Op& op = final_norm_op();
    return ops_.norm(Use::head, op.in[0], shape_.supervised_tokens, 1, learns(op), node);
  }

  // Rehearses core/train/network.cpp and kernels/lm_head.
  Held head_backward() {
    const int64_t rows = shape_.supervised_tokens, e = element(), hidden = shape_.spec.hidden_size;
    Held rows_held = picked();
    SavedOp node;
    Held normed = final_norm(&node), d_normed = ledger_.hold(Use::head, e * rows * hidden);
    {
      Held answers = ledger_.hold(Use::head, answer_line(shape_).bytes);
      Held logits_held = logits(shape_.needs_entropy);
      multiply_head({chunk(), hidden, outputs()});
      multiply_head({chunk(), outputs(), hidden});
      // In fp32 and on forge's tiles the head's gradient is added to its buffer directly; otherwise
      // it is a matrix of its own first.
      if (learns(list_.ops.back()) && narrow() && !shape_.bf16_tiles) {
        Held gradient = ledger_.hold(Use::head, e * outputs() * hidden);
        ops_.multiply({outputs(), chunk(), hidden, true});
      }
    }
    // The engine's own handle keeps d normed alive.
    Held d_rows = ops_.norm_backward(Use::head, final_norm_op().in[0], rows, learns(final_norm_op()), node, d_normed, false);
    return ledger_.hold(Use::layer, element_of(final_norm_op().in[0]) * shape_.micro_batch_tokens * hidden);
  }

  const ActivationShape& shape_;
  Ledger& ledger_;
  const Graph& list_;
  std::vector<Segment> segments_;
  size_t lowest_;
  RehearsedOps ops_;
};

}  // namespace

std::vector<std::string> reference_faults(const ActivationShape& shape) {
  if (shape.quantization == Quantization::fp8) return {"it has no products in fp8"};
  return {};
}

Choice<Attention> reference_attention(const ActivationShape& shape, const Attributes& of) {
  if (of.position_distance > 0) return {Attention::eager, "LibTorch's kernels give a bias of the scores no gradient"};
  if (shape.spec.attention_sinks) return {Attention::eager, "LibTorch's kernels have no sinks"};
  if (of.softcap != 0) return {Attention::eager, "LibTorch's kernels have no cap on the scores"};
  return {Attention::sdpa, "LibTorch's scaled_dot_product_attention, one sequence after the other"};
}

namespace {

std::vector<MemoryLine> activation_lines(const ActivationShape& shape, int64_t multiplying_threads) {
  Ledger ledger;
  Step step(shape, ledger);
  shape.training ? step.train() : step.evaluate();
  const UseBytes peak = ledger.peak();
  const std::string tokens = format_count(shape.micro_batch_tokens) + " tokens" +
                             (shape.source_tokens > 0 ? " and " + format_count(shape.source_tokens) + " of sources" : "");
  std::vector<MemoryLine> lines;
  const auto add = [&](const char* name, int64_t bytes, std::string formula) {
    if (bytes > 0) lines.push_back({name, bytes, std::move(formula)});
  };
  add("saved activations", peak[Use::saved],
      tokens + " in " + name_of(shape.precision) +
          ": what is kept for backward at the fullest moment; computed again: " + describe(shape.recompute));
  add("logits chunk", peak[Use::head],
      format_count(std::min(kHeadChunk, shape.supervised_tokens)) + " positions × " +
          format_count(step.list().module(step.list().ops.back()).out) + " logits, " + format_count(shape.supervised_tokens) +
          " supervised rows");
  add("layer workspace", peak[Use::layer], tokens + ": gradients and recomputed tensors of one layer");
  add("weight gradients", peak[Use::weight_grads], "of half a layer, before they are added up");
  add("products", peak[Use::products], product_formula(shape.precision, shape.instructions, shape.threads));
  const int64_t rehearsed = total_bytes(lines);
  if (shape.cuda)
    add("products", multiplying_threads * gpu_product_workspace(shape),
        "workspaces of cuBLAS and cuBLASLt, for each thread that multiplies");
  add("unrehearsed",
      static_cast<int64_t>(kUnrehearsedShare * static_cast<double>(rehearsed)) + kUnrehearsedBytes,
      format_number(100 * kUnrehearsedShare) + " % of the above and " + format_bytes(kUnrehearsedBytes) +
          ": small tensors, LibTorch's own buffers");
  add("batch", peak[Use::batch], tokens + ": ids, angles, targets");
  add("weight conversion", conversion_bytes(shape, step.list()),
      "the largest weight in " + name_of(shape.precision) + " while it is used");
  return lines;
}

constexpr int64_t kEngineThread = 1, kWithAutograd = 2;  // threads that multiply

}  // namespace

std::vector<MemoryLine> reference_activation_lines(const ActivationShape& shape) {
  return activation_lines(shape, shape.training ? kWithAutograd : kEngineThread);
}

std::vector<MemoryLine> reference_decoding_lines(const ActivationShape& shape, const DecodingShape& decoding) {
  return decoding_lines_of_threads(shape, decoding, kWithAutograd);
}

std::vector<MemoryLine> decoding_lines_of_threads(const ActivationShape& shape, const DecodingShape& decoding, int64_t threads) {
  ActivationShape reading = shape;
  reading.training = false;
  reading.micro_batch_tokens = std::max(decoding.prompt_tokens, decoding.slots);
  reading.supervised_tokens = decoding.slots;
  reading.longest_sequence = decoding.longest_prompt;
  std::vector<MemoryLine> lines = activation_lines(reading, threads);
  for (MemoryLine& line : lines) line.name = "rollout: " + line.name;
  // Rows double when they are full, and old and new memory is held while they are copied.
  const int64_t tokens = decoding.slots * 2 * (decoding.longest_prompt + decoding.max_new_tokens);
  const int64_t token = shape.spec.num_layers * 2 * shape.spec.num_kv_heads * shape.spec.head_dim * bytes_of(shape.precision);
  lines.push_back({"rollout: cache", tokens * token,
                   "keys and values of " + format_count(decoding.slots) + " completions with their prompts, in rows that double"});
  lines.push_back({"rollout: logits", 2 * decoding.slots * shape.spec.vocab_size * 4, format_count(decoding.slots) + " rows in fp32"});
  return lines;
}

}  // namespace forge
