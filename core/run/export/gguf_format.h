#pragma once
// The types of GGUF that forge writes, and which type each tensor gets: llama.cpp's llama-quantize
// (src/llama-quant.cpp, llama_tensor_get_type).
#include <cstdint>
#include <string>
#include <string_view>

#include "core/lib/io/tensor_file.h"
#include "core/model/families/model_spec.h"

namespace forge {

struct GgufFormat {
  const char* name;  // "q4_k_m"
  DType dtype;       // of most matrices
  int64_t file_type; // general.file_type: llama_ftype
  bool mixed = false; // q4_k_m, q5_k_m: more bits where errors cost most
};

// Returns a format by its name. Throws Error(usage) that names all formats.
const GgufFormat& gguf_format(std::string_view name);

// Returns the type of one tensor, by its name in the file: vectors and norms stay f32, the head
// gets at least 6 bits, and rows that are not whole blocks get the nearest type of smaller blocks.
DType gguf_tensor_type(const GgufFormat& format, const TensorInfo& tensor, const ModelSpec& spec);

}  // namespace forge
