#pragma once
// Presents the matrices that a checkpoint holds in codes as plain matrices, under the model's
// names: bitsandbytes (bitsandbytes.h), GPTQ, AWQ and compressed-tensors (packed.h), fp8, int8 and
// mxfp4 (scaled.h). Values are those that the files' own libraries decode.
//
//   auto file = dequantised(open_safetensors(path), {.method = StoredMethod::bitsandbytes}, path);
#include <memory>
#include <string>

#include "core/lib/io/tensor_file.h"
#include "core/model/stored/stored_scheme.h"

namespace forge {

// Returns `file` itself if it has no such tensors. Throws Error(environment), beginning with
// `path`, for codes without scales, scales without codes, and shapes that do not fit: all faults at
// once.
std::unique_ptr<TensorFile> dequantised(std::unique_ptr<TensorFile> file,
                                        const StoredScheme& scheme = {},
                                        const std::string& path = "");

}  // namespace forge
