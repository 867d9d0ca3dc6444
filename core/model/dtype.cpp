#include "core/model/dtype.h"

#include <ATen/ATen.h>

#include "core/lib/base/error.h"

namespace forge {

c10::ScalarType scalar_type(Precision precision) {
  constexpr c10::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};  // by Precision
  return kTypes[static_cast<size_t>(precision)];
}

DType dtype_of(c10::ScalarType type) {
  switch (type) {
    case at::kDouble: return DType::f64;
    case at::kFloat: return DType::f32;
    case at::kHalf: return DType::f16;
    case at::kBFloat16: return DType::bf16;
    case at::kLong: return DType::i64;
    case at::kInt: return DType::i32;
    case at::kByte: return DType::u8;
    default: break;
  }
  FORGE_CHECK(false, "no file type for LibTorch's " << c10::toString(type));
}

Element element_of(c10::ScalarType type) {
  switch (type) {
    case at::kFloat: return Element::f32;
    case at::kBFloat16: return Element::bf16;
    case at::kHalf: return Element::f16;
    default: break;
  }
  FORGE_CHECK(false, "no kernel computes in " << type);
}

std::string_view tensor_bytes(const at::Tensor& tensor) {
  FORGE_CHECK(tensor.is_contiguous() && tensor.device().is_cpu(), "bytes of a tensor that is not plain memory");
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

at::Tensor to_device(const at::Tensor& host, c10::ScalarType type, c10::Device device) {
  // The conversion is on the host: a kernel for each small tensor of a batch costs more than it
  // computes.
  const at::Tensor converted = host.to(type);
  return device.is_cuda() ? converted.pin_memory().to(device, /*non_blocking=*/true) : converted;
}

at::Tensor to_device(const std::vector<int32_t>& values, c10::ScalarType type, c10::Device device) {
  return to_device(at::tensor(values, at::kInt), type, device);
}

at::Tensor to_device(const std::vector<float>& values, c10::Device device) {
  return to_device(at::tensor(values, at::kFloat), at::kFloat, device);
}

}  // namespace forge
