#include "kernels/quantize/quantize.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "core/lib/base/ceil_div.h"
#include "core/lib/base/error.h"
#include "kernels/fp8/e4m3_rows.h"
#include "kernels/quantize/blocks.h"

namespace forge {
namespace {


// Values in a stretch, which share one scale of nested quantisation: 256 blocks, 16,384 values.
constexpr int64_t kStretch = kQuantizedBlock * kNestedBlock;
constexpr int64_t kStretchesPerTask = 4;

int64_t bytes_of_codes(QuantizedFormat format, int64_t count) {
  return format == QuantizedFormat::int8 ? count : ceil_div(count, 2);
}

void quantize_stretch(QuantizedFormat format, const float* values, int64_t count, uint8_t* codes,
                      float* absmax) {
  if (format == QuantizedFormat::int8) return quantize_8bit(values, count, kQuantizedBlock, codes, absmax);
  quantize_4bit(format == QuantizedFormat::nf4 ? nf4_book() : fp4_book(), values, count, kQuantizedBlock, codes, absmax);
}

void nest(QuantizedWeight& weight) {
  const int64_t blocks = weight.absmax.size(0);
  weight.absmax_mean = weight.absmax.mean().item<float>();
  at::Tensor centred = weight.absmax - weight.absmax_mean;
  weight.absmax = at::empty({blocks}, at::kByte);
  weight.absmax_scale = at::empty({ceil_div(blocks, kNestedBlock)}, at::kFloat);
  quantize_8bit(centred.const_data_ptr<float>(), blocks, kNestedBlock, weight.absmax.data_ptr<uint8_t>(),
                weight.absmax_scale.data_ptr<float>());
}

// True if a file's nested absmax is as forge's own.
bool nested_alike(const BookBlocks& blocks) {
  const EightBitBook& map = dynamic_book();
  return blocks.nested() && blocks.nested_block == kNestedBlock &&
         std::equal(map.begin(), map.end(), blocks.nested_map.begin(), blocks.nested_map.end());
}

at::Tensor copied(const void* memory, int64_t count, c10::ScalarType type) {
  const at::Tensor copy = at::empty({count}, type);
  std::memcpy(copy.data_ptr(), memory, copy.nbytes());
  return copy;
}

// Returns where a format's book begins among code_books().
size_t book_at(QuantizedFormat format) {
  if (format == QuantizedFormat::fp8) return 2 * nf4_book().size() + dynamic_book().size();
  return (format == QuantizedFormat::nf4 ? 0 : format == QuantizedFormat::fp4 ? 1 : 2) * nf4_book().size();
}

const std::vector<float>& host_books() {
  static const std::vector<float> books = code_books();
  return books;
}

at::Tensor book_tensor(QuantizedFormat format, bool bytes, c10::Device device) {
  const size_t entries = bytes ? dynamic_book().size() : nf4_book().size();
  return at::tensor(at::ArrayRef<float>(host_books().data() + book_at(format), entries), at::kFloat).to(device);
}

QuantizedWeight quantize_to_fp8(const at::Tensor& weight) {
  QuantizedWeight result{.format = QuantizedFormat::fp8, .rows = weight.size(0), .columns = weight.size(1)};
  result.codes = at::empty({weight.numel()}, at::kByte);
  result.absmax = at::empty({result.rows}, at::kFloat);
  const float* values = weight.const_data_ptr<float>();
  std::atomic<int64_t> vanished{0};
  at::parallel_for(0, result.rows, 16, [&](int64_t begin, int64_t end) {
    int64_t lost = 0;
    for (int64_t row = begin; row < end; ++row) {
      const float* x = values + row * result.columns;
      uint8_t* codes = result.codes.data_ptr<uint8_t>() + row * result.columns;
      result.absmax.data_ptr<float>()[row] = quantize_e4m3(x, result.columns, codes);
      for (int64_t j = 0; j < result.columns; ++j) lost += x[j] != 0 && (codes[j] & 0x7F) == 0;
    }
    vanished += lost;
  });
  result.vanished = vanished;
  return result;
}

at::Tensor decode_blocks(const at::Tensor& values, const at::Tensor& absmax, int64_t block) {
  at::Tensor each = absmax.repeat_interleave(block).narrow(0, 0, values.size(0));
  return values * each;
}

}  // namespace

QuantizedWeight quantize(const at::Tensor& weight, const QuantizeOptions& options) {
  FORGE_CHECK(weight.dim() == 2 && weight.scalar_type() == at::kFloat && weight.is_contiguous() &&
                  weight.is_cpu() && weight.numel() > 0,
              "quantize takes a contiguous fp32 matrix on a CPU");
  c10::NoGradGuard no_grad;
  if (options.format == QuantizedFormat::fp8) return quantize_to_fp8(weight);
  const int64_t count = weight.numel();
  QuantizedWeight result{.format = options.format, .rows = weight.size(0), .columns = weight.size(1)};
  result.codes = at::empty({bytes_of_codes(options.format, count)}, at::kByte);
  result.absmax = at::empty({ceil_div(count, kQuantizedBlock)}, at::kFloat);
  const float* values = weight.const_data_ptr<float>();
  uint8_t* codes = result.codes.data_ptr<uint8_t>();
  float* absmax = result.absmax.data_ptr<float>();
  at::parallel_for(0, ceil_div(count, kStretch), kStretchesPerTask, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kStretch, length = std::min(end * kStretch, count) - first;
    quantize_stretch(options.format, values + first, length, codes + bytes_of_codes(options.format, first),
                     absmax + begin * kNestedBlock);
  });
  if (options.nested) nest(result);
  return result;
}

std::optional<QuantizedWeight> taken(const BookBlocks& blocks, int64_t rows, int64_t columns,
                                     const QuantizeOptions& options) {
  const QuantizedFormat format = blocks.nf4 ? QuantizedFormat::nf4 : QuantizedFormat::fp4;
  if (format != options.format || blocks.block != kQuantizedBlock) return {};
  QuantizedWeight weight{.format = format, .rows = rows, .columns = columns};
  weight.codes = copied(blocks.codes.data(), static_cast<int64_t>(blocks.codes.size()), at::kByte);
  if (options.nested && nested_alike(blocks)) {
    weight.absmax = copied(blocks.nested_codes.data(),
                           static_cast<int64_t>(blocks.nested_codes.size()), at::kByte);
    weight.absmax_scale = copied(blocks.nested_scale.data(),
                                 static_cast<int64_t>(blocks.nested_scale.size()), at::kFloat);
    weight.absmax_mean = blocks.nested_mean;
    return weight;
  }
  weight.absmax =
      copied(blocks.absmax.data(), static_cast<int64_t>(blocks.absmax.size()), at::kFloat);
  if (options.nested) nest(weight);
  return weight;
}

std::vector<float> code_books() {
  std::vector<float> books;
  for (const std::span<const float> book : std::initializer_list<std::span<const float>>{nf4_book(), fp4_book(), dynamic_book(), e4m3_book()})
    books.insert(books.end(), book.begin(), book.end());
  FORGE_CHECK(static_cast<int64_t>(books.size() * sizeof(float)) == kCodeBookBytes, books.size() << " numbers in code books");
  return books;
}

DequantizeBlocks blocks_of(const QuantizedWeight& weight, const float* books) {
  DequantizeBlocks args{.coding = weight.stored              ? *weight.stored
                                  : weight.in_bytes() ? BlockCoding::eight_bits : BlockCoding::four_bits,
                        .rows = weight.rows,
                        .columns = weight.columns,
                        .block = weight.block(),
                        .codes = weight.codes.const_data_ptr<uint8_t>(),
                        .absmax_mean = weight.absmax_mean};
  if (weight.stored) return args;
  if (books) args.book = books + book_at(weight.format), args.absmax_book = books + book_at(QuantizedFormat::int8);
  if (weight.nested()) {
    args.absmax_codes = weight.absmax.const_data_ptr<uint8_t>();
    args.absmax_scale = weight.absmax_scale.const_data_ptr<float>();
  } else {
    args.absmax = weight.absmax.const_data_ptr<float>();
  }
  return args;
}

at::Tensor dequantize(const QuantizedWeight& weight, c10::ScalarType type) {
  c10::NoGradGuard no_grad;
  if (!weight.codes.is_cpu()) return dequantize_composed(weight, type);
  at::Tensor out =
      // A CPU does not compute in fp16: values go through fp32.
      at::empty({weight.rows, weight.columns}, type == at::kBFloat16 ? at::kBFloat16 : at::kFloat);
  DequantizeBlocks args = blocks_of(weight, host_books().data());
  args.type = out.scalar_type() == at::kBFloat16 ? Element::bf16 : Element::f32;
  args.out = out.data_ptr(), args.out_stride = weight.columns;
  dequantize_blocks_cpu(args);
  return out.to(type);
}

at::Tensor dequantize_composed(const QuantizedWeight& weight, c10::ScalarType type) {
  c10::NoGradGuard no_grad;
  const c10::Device device = weight.codes.device();
  FORGE_CHECK(!weight.stored, "GGUF's own blocks on a GPU");
  at::Tensor absmax = weight.absmax;
  if (weight.nested()) {
    at::Tensor values = book_tensor(QuantizedFormat::int8, true, device).index_select(0, absmax.to(at::kInt));
    absmax = decode_blocks(values, weight.absmax_scale, kNestedBlock) + weight.absmax_mean;
  }
  at::Tensor codes = weight.codes;
  if (!weight.in_bytes()) codes = at::stack({at::bitwise_right_shift(codes, 4), at::bitwise_and(codes, 15)}, 1).flatten();
  const at::Tensor book = book_tensor(weight.format, weight.in_bytes(), device);
  at::Tensor values = book.index_select(0, codes.to(at::kInt)).narrow(0, 0, weight.rows * weight.columns);
  return decode_blocks(values, absmax, weight.block()).view({weight.rows, weight.columns}).to(type);
}

QuantizedWeight to_device(QuantizedWeight weight, c10::Device device) {
  weight.codes = weight.codes.to(device);
  if (weight.absmax.defined()) weight.absmax = weight.absmax.to(device);
  if (weight.nested()) weight.absmax_scale = weight.absmax_scale.to(device);
  return weight;
}

bool all_finite(const at::Tensor& weight) {
  const float* values = weight.const_data_ptr<float>();
  std::atomic<bool> finite{true};
  at::parallel_for(0, weight.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
    // x − x is zero for a finite x and not a number otherwise.
    float sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += values[i] - values[i];
    if (sum != 0) finite = false;
  });
  return finite;
}

}  // namespace forge
