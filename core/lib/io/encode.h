#pragma once
// Encodes float32 into the element types that forge writes: the inverse of decode_to_f32
// (tensor_file.h).
//
//   encode_from_f32(DType::bf16, values.data(), count, bytes.data());
#include <cstdint>

#include "core/lib/io/tensor_file.h"

namespace forge {

// Convert IEEE 754 single to half and to bfloat16, to the nearest and ties to even; values past the
// largest become infinite.
uint16_t half_of(float value);
uint16_t bf16_of(float value);

// Writes the two bytes of a value in half precision.
void put_half(float value, uint8_t* destination);

// Writes bytes_of(dtype, count) bytes of f32, f16, bf16, q8_0, q4_0, q5_0, q5_1, q4_k, q5_k or
// q6_k; `count` is a multiple of the type's block. Throws Error(internal) for another type.
void encode_from_f32(DType dtype, const float* values, int64_t count, void* destination);

}  // namespace forge
