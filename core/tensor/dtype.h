#pragma once
// Between forge's element types and LibTorch's.
#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "core/config/job.h"
#include "core/io/tensor_file.h"

namespace forge {

c10::ScalarType scalar_type(Precision precision);
DType dtype_of(c10::ScalarType type);
// The raw bytes of a contiguous CPU tensor.
std::string_view tensor_bytes(const at::Tensor& tensor);
// A tensor of the host on `device`, converted to `type`. To a GPU through pinned memory: the host does not wait for it.
at::Tensor to_device(const at::Tensor& host, c10::ScalarType type, c10::Device device);
// A host vector as a tensor on `device`, converted to `type`.
at::Tensor to_device(const std::vector<int32_t>& values, c10::ScalarType type, c10::Device device);
at::Tensor to_device(const std::vector<float>& values, c10::Device device);

}  // namespace forge
