#include "providers/fused/modules.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/model/dtype.h"
#include "kernels/lora/folded_args.h"
#include "kernels/quantize/quantize.h"

namespace forge {
namespace {

const void* data_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }
float* gradient_of(const Trainable* item) {
  return item && item->grad.defined() ? item->grad.data_ptr<float>() : nullptr;
}

OpModule read(const BoundModule& b, const float* books) {
  OpModule m{.d_weight = gradient_of(b.weight),
                .d_bias = gradient_of(b.bias),
                .d_a = gradient_of(b.lora_a),
                .d_b = gradient_of(b.lora_b),
                .d_magnitude = gradient_of(b.magnitude)};
  const at::Tensor& weight = b.linear ? b.linear->weight : *b.vector;
  if (weight.defined()) m.weight = weight.const_data_ptr(), m.held = element_of(weight.scalar_type()), m.rows = weight.size(0), m.stride = weight.stride(0);
  if (b.vector_bias) m.bias = data_of(*b.vector_bias);
  if (!b.linear) return m;
  const LinearSpec& linear = *b.linear;
  if (linear.quantized.defined()) {
    m.blocks = blocks_of(linear.quantized, books);
    m.fp8 = !linear.quantized.stored && linear.quantized.format == QuantizedFormat::fp8;
    m.stored_bytes = linear.quantized.stored ? linear.quantized.codes.numel() : 0;
    m.rows = linear.quantized.rows;
  }
  m.bias = data_of(linear.bias), m.a = data_of(linear.lora_a), m.b = data_of(linear.lora_b);
  m.magnitude = data_of(linear.magnitude);
  m.scale = static_cast<float>(linear.scale), m.dropout = linear.dropout, m.dropout_stream = linear.dropout_stream;
  return m;
}

}  // namespace

FusedModules::FusedModules(ComputeDevice& device, std::vector<BoundModule> bound, const std::vector<ModuleUse>& modules,
                           Element type, bool folded, bool ahead)
    : StepWeights(device, modules, type), bound_(std::move(bound)) {
  const auto in_blocks = [](const BoundModule& b) { return b.linear && b.linear->quantized.defined(); };
  if (std::any_of(bound_.begin(), bound_.end(), in_blocks)) {
    const std::vector<float> books = code_books();
    books_ = DeviceBlock(device, kCodeBookBytes, "code books");
    device.write(books_.as(), books.data(), books_.bytes());
  }
  if (folded && device.has<AdapterSums>()) {
    counters_ = DeviceBlock(device, kFoldedCounterBytes, "counters of blocks");
    device.clear(counters_.as(), counters_.bytes());
  }
  refresh();
  reserve(ahead);
}

void FusedModules::refresh() {
  modules_.clear();
  for (const BoundModule& b : bound_) modules_.push_back(read(b, books_.as<float>()));
}

}  // namespace forge
