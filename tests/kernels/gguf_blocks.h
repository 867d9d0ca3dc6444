#pragma once
// Weights in GGUF's block types for the cases: random codes with scales that are neither tiny nor
// infinite, and their values by the decoder of files, which shares no code with the kernels.
#include <ATen/ATen.h>

#include "core/lib/io/tensor_file.h"
#include "kernels/quantize/by_16.h"
#include "tests/kernels/case.h"

namespace forge::kernel_test {

struct GgufType {
  BlockCoding coding;
  DType dtype;
  std::vector<int64_t> halves;  // where a block's half-precision numbers begin
};

inline const std::vector<GgufType>& gguf_types() {
  static const std::vector<GgufType> types{
      {BlockCoding::q8_0, DType::q8_0, {0}},    {BlockCoding::q4_0, DType::q4_0, {0}}, {BlockCoding::q4_1, DType::q4_1, {0, 2}},
      {BlockCoding::q5_0, DType::q5_0, {0}},    {BlockCoding::q5_1, DType::q5_1, {0, 2}}, {BlockCoding::q4_k, DType::q4_k, {0, 2}},
      {BlockCoding::q5_k, DType::q5_k, {0, 2}}, {BlockCoding::q6_k, DType::q6_k, {208}}};
  return types;
}

// Returns int64 [bytes], of which the halves are ± 2⁻⁷ to 2⁻⁴.
inline at::Tensor gguf_bytes(const GgufType& type, int64_t rows, int64_t columns, uint64_t seed) {
  const int64_t blocks = rows * columns / block_elements(type.dtype), bytes = block_bytes(type.dtype);
  at::Tensor all = uniform_values({blocks, bytes}, seed, 0, 256).to(at::kLong);
  for (const int64_t at : type.halves) {
    at::Tensor high = all.select(1, at + 1);
    high.copy_(high.remainder(16) + 32 + high.bitwise_and(128));
  }
  return all.flatten();
}

// Returns the bytes of gguf_bytes() with sixteen rows side by side.
inline at::Tensor laid_by_16(BlockCoding coding, const at::Tensor& bytes, int64_t rows, int64_t columns) {
  const at::Tensor stored = bytes.to(at::kByte).contiguous();
  at::Tensor laid = at::empty_like(stored);
  lay_by_16(coding, rows, columns, stored.const_data_ptr<uint8_t>(), laid.data_ptr<uint8_t>());
  return laid.to(at::kLong);
}

// Returns the values as float64 [rows, columns].
inline at::Tensor gguf_values(const GgufType& type, const at::Tensor& bytes, int64_t rows, int64_t columns) {
  const at::Tensor stored = bytes.to(at::kByte).contiguous();
  at::Tensor values = at::empty({rows, columns}, at::kFloat);
  decode_to_f32(type.dtype, stored.const_data_ptr(), rows * columns, values.data_ptr<float>());
  return values.to(at::kDouble);
}

}  // namespace forge::kernel_test
