#pragma once
// Converts between forge's element types, in files and in kernels, and LibTorch's.
#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "core/job/job.h"
#include "core/lib/io/tensor_file.h"
#include "kernels/common/element.h"

namespace forge {

c10::ScalarType scalar_type(Precision precision);
DType dtype_of(c10::ScalarType type);
Element element_of(c10::ScalarType type);
// Returns the raw bytes of a contiguous CPU tensor.
std::string_view tensor_bytes(const at::Tensor& tensor);
// Returns a host tensor on `device`, converted to `type`. The copy to a GPU goes through pinned
// memory, so the host does not wait for it.
at::Tensor to_device(const at::Tensor& host, c10::ScalarType type, c10::Device device);
// Returns a host vector as a tensor on `device`, converted to `type`.
at::Tensor to_device(const std::vector<int32_t>& values, c10::ScalarType type, c10::Device device);
at::Tensor to_device(const std::vector<float>& values, c10::Device device);

}  // namespace forge
