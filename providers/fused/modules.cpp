#include "providers/fused/modules.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/model/element.h"
#include "kernels/fp8/e4m3_rows.h"
#include "kernels/quantize/blocks.h"
#include "kernels/quantize/quantize.h"
#include "providers/fused/fused_plan.h"

namespace forge {
namespace {

// The code books of nf4, fp4, the dynamic map of bytes and E4M3 are consecutive in the device's
// memory.
constexpr size_t kFourBits = 16;  // entries of a book

std::vector<float> all_books() {
  std::vector<float> books(nf4_book().begin(), nf4_book().end());
  books.insert(books.end(), fp4_book().begin(), fp4_book().end());
  books.insert(books.end(), dynamic_book().begin(), dynamic_book().end());
  books.insert(books.end(), e4m3_book().begin(), e4m3_book().end());
  return books;
}

const float* book_of(const float* books, QuantizedFormat format) {
  if (format == QuantizedFormat::fp8) return books + 2 * kFourBits + dynamic_book().size();
  return format == QuantizedFormat::nf4 ? books : books + (format == QuantizedFormat::fp4 ? 1 : 2) * kFourBits;
}

const void* data_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }
float* gradient_of(const Trainable* item) {
  return item && item->grad.defined() ? item->grad.data_ptr<float>() : nullptr;
}

FusedModule read(const BoundModule& b, const float* books) {
  FusedModule m{.d_weight = gradient_of(b.weight),
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
    m.blocks = blocks_of(linear.quantized);
    m.blocks.book = book_of(books, linear.quantized.format);
    m.blocks.absmax_book = books + 2 * kFourBits;
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
    : device_(device), bound_(std::move(bound)), uses_(modules), type_(type) {
  const auto in_blocks = [](const BoundModule& b) { return b.linear && b.linear->quantized.defined(); };
  if (std::any_of(bound_.begin(), bound_.end(), in_blocks)) {
    const std::vector<float> books = all_books();
    books_ = DeviceBlock(device, kCodeBookBytes, "code books");
    FORGE_CHECK(static_cast<int64_t>(books.size() * sizeof(float)) == kCodeBookBytes, books.size() << " numbers in code books");
    device.write(books_.as(), books.data(), books_.bytes());
  }
  if (folded && device.has<AdapterSums>()) {
    counters_ = DeviceBlock(device, kFoldedCounterBytes, "counters of blocks");
    device.clear(counters_.as(), counters_.bytes());
  }
  refresh();
  int64_t largest = 0, widest = 0;
  for (size_t i = 0; i < modules.size(); ++i) {
    if ((modules[i].kind == ModuleKind::linear || modules[i].kind == ModuleKind::experts) && converts(modules_[i]))
      largest = std::max(largest, modules[i].in * modules[i].out * (modules[i].fp8 ? 1 : bytes_of(type)));
    if (modules[i].fp8) widest = std::max(widest, modules[i].in);
  }
  if (widest > 0) {
    const std::vector<float> ones(static_cast<size_t>(widest), 1.0f);
    ones_ = DeviceBlock(device, 4 * widest, "weight conversion");
    device.write(ones_.as(), ones.data(), ones_.bytes());
  }
  converted_ = std::make_unique<WeightsAhead>(device, largest, ahead,
                                              [this](int32_t module, void* to, Stream stream) { convert(module, to, stream); });
}

void FusedModules::refresh() {
  modules_.clear();
  for (const BoundModule& b : bound_) modules_.push_back(read(b, books_.as<float>()));
}

const void* FusedModules::expert_in_compute_type(const FusedModule& module, int64_t expert, int64_t in,
                                                 int64_t out) {
  FORGE_CHECK(module.weight, "experts in one tensor that lies in blocks");
  const void* own = static_cast<const char*>(module.weight) + expert * in * out * bytes_of(module.held);
  if (!converts(module)) return own;
  return converted_->at_once(
      [&](void* to, Stream stream) { device_.run(ConvertElements{module.held, type_, in * out, own, to}, stream); });
}

namespace {

// Visits the modules whose weights an op reads, in its order.
template <class Visit>
void each_weight(const Graph& graph, const Op& op, Visit visit) {
  const bool products = op.kind == OpKind::linear || op.kind == OpKind::linear_input_gradient;
  if (!products && op.kind != OpKind::dora_ratio) return;
  for (size_t i = 0; i < op.modules.size(); ++i) {
    // It is multiplied in E4M3.
    if (op.kind == OpKind::linear && graph.module(op, i).fp8) continue;
    if (products || graph.module(op, i).rank > 0) visit(op.modules[i]);
  }
}

}  // namespace

void FusedModules::begin(const Graph& list, size_t first, size_t end) {
  auto [found, is_new] = orders_.try_emplace({&list, first});
  if (is_new)
    for (size_t i = first; i < end; ++i)
      each_weight(list, list.ops[i], [&](int32_t module) {
        if (converts((*this)[module])) found->second.push_back(module);
      });
  converted_->begin(found->second);
}

const void* FusedModules::in_compute_type(int32_t module) {
  const FusedModule& m = (*this)[module];
  return converts(m) ? converted_->next(module) : m.weight;
}

void FusedModules::convert(int32_t module, void* to, Stream stream) {
  const FusedModule& m = (*this)[module];
  const auto [in, out] = std::pair{uses_[static_cast<size_t>(module)].in, uses_[static_cast<size_t>(module)].out};
  if (uses_[static_cast<size_t>(module)].fp8)
    return device_.run(TransposeBytes{.rows = out, .columns = in, .x = m.blocks.codes, .y = static_cast<uint8_t*>(to)}, stream);
  if (m.weight) {
    FORGE_CHECK(m.stride == in, "a weight with gaps between its rows is converted");
    return device_.run(ConvertElements{m.held, type_, in * out, m.weight, to}, stream);
  }
  DequantizeBlocks blocks = m.blocks;
  blocks.type = type_, blocks.out = to, blocks.out_stride = in;
  device_.run(blocks, stream);
}

}  // namespace forge
