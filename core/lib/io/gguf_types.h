#pragma once
// ggml's tensor types by number (ggml.h), and which of them forge reads.
#include <cstdint>
#include <optional>

#include "core/lib/io/tensor_file.h"

namespace forge {

struct GgmlType {
  uint32_t number;
  const char* name;
  std::optional<DType> dtype = {};  // nothing: forge does not read it
};

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", DType::f32},
    {1, "F16", DType::f16},
    {2, "Q4_0", DType::q4_0},
    {3, "Q4_1", DType::q4_1},
    {6, "Q5_0", DType::q5_0},
    {7, "Q5_1", DType::q5_1},
    {8, "Q8_0", DType::q8_0},
    {9, "Q8_1"},
    {10, "Q2_K"},
    {11, "Q3_K"},
    {12, "Q4_K", DType::q4_k},
    {13, "Q5_K", DType::q5_k},
    {14, "Q6_K", DType::q6_k},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8", DType::i8},
    {25, "I16", DType::i16},
    {26, "I32", DType::i32},
    {27, "I64", DType::i64},
    {28, "F64", DType::f64},
    {29, "IQ1_M"},
    {30, "BF16", DType::bf16},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4", DType::mxfp4},
    {40, "NVFP4"},
};

// Returns the type of that number; null for a number that ggml does not know.
inline const GgmlType* ggml_type(uint32_t number) {
  for (const GgmlType& type : kGgmlTypes)
    if (type.number == number) return &type;
  return nullptr;
}

}  // namespace forge
