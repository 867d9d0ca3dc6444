#include "providers/reference/reference_plan.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/config/names.h"
#include "providers/reference/rehearsal.h"

namespace forge {
namespace {

// A weight that is not held in the compute type is converted for the product it takes part in, one at a time.
int64_t conversion_scratch(const ActivationShape& shape) {
  const ModelSpec& s = shape.spec;
  const int64_t linear = s.hidden_size * std::max(s.intermediate_size, s.num_heads * s.head_dim);
  int64_t largest = shape.quantization != Quantization::none ? linear : 0;
  if (shape.storage != shape.precision)
    largest = std::max({largest, linear, s.hidden_size * s.vocab_size});
  return largest * bytes_of(shape.precision);
}

}  // namespace

std::vector<std::string> reference_faults(const ActivationShape&) { return {}; }

std::vector<MemoryLine> reference_activation_lines(const ActivationShape& shape) {
  const UseBytes peak = shape.training ? rehearse_training(shape) : rehearse_evaluation(shape);
  const std::string tokens = format_count(shape.micro_batch_tokens) + " tokens";
  std::vector<MemoryLine> lines;
  const auto add = [&](const char* name, int64_t bytes, std::string formula) {
    if (bytes > 0) lines.push_back({name, bytes, std::move(formula)});
  };
  add("saved activations", peak[Use::saved],
      tokens + ", checkpointing " + name_of(shape.checkpointing) + ", " + name_of(shape.precision) +
          ": what is kept for backward at the fullest moment");
  add("logits chunk", peak[Use::head],
      format_count(std::min(kHeadChunk, shape.supervised_tokens)) + " positions × " +
          format_count(shape.spec.vocab_size) + " logits, " + format_count(shape.supervised_tokens) +
          " supervised rows");
  add("layer workspace", peak[Use::layer], tokens + ": gradients and recomputed tensors of one layer");
  add("weight gradients", peak[Use::weight_grads], "of half a layer, before they are added up");
  // Small tensors and LibTorch's own buffers are not rehearsed. Measured under by at most 1.7 % (bf16's casts) and
  // 50 KiB over the cells of bench/memory/run.py.
  const int64_t rehearsed = total_bytes(lines);
  add("unrehearsed", rehearsed / 50 + 65536, "2 % of the above and 64 KiB: small tensors, LibTorch's own buffers");
  add("batch", peak[Use::batch], tokens + ": ids, angles, targets");
  add("weight conversion", conversion_scratch(shape),
      "the largest weight in " + name_of(shape.precision) + " while it is used");
  return lines;
}

}  // namespace forge
