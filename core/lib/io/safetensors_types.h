#pragma once
// The element types of safetensors files that forge reads and writes, by the format's names.
#include <cstdint>
#include <string_view>

#include "core/lib/io/tensor_file.h"

namespace forge {

struct SafetensorsType {
  std::string_view name;
  DType dtype;
};

// Types in the order of the reference implementation's Dtype enum. A file's tensors are sorted by
// it, downwards, so that wide types come first and stay aligned.
constexpr SafetensorsType kSafetensorsTypes[] = {
    {"BOOL", DType::boolean},    {"U8", DType::u8},           {"I8", DType::i8},
    {"F8_E5M2", DType::f8_e5m2}, {"F8_E4M3", DType::f8_e4m3}, {"F8_E8M0", DType::f8_e8m0},
    {"I16", DType::i16},         {"F16", DType::f16},         {"BF16", DType::bf16},
    {"I32", DType::i32},         {"F32", DType::f32},         {"F64", DType::f64},
    {"I64", DType::i64},
};

}  // namespace forge
