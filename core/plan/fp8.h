#pragma once
// Where a frozen base may be held and multiplied in fp8 (kernels/fp8).
#include <string>
#include <vector>

#include "core/base/key_error.h"
#include "core/config/job.h"
#include "core/families/model_spec.h"
#include "core/plan/device.h"

namespace forge {

// Why a device has no such products; "" where it has.
std::string fp8_device_fault(bool cuda, int64_t capability);
// Of a job with model.quantization: fp8.
std::vector<KeyFault> fp8_faults(const Job& job, const ModelSpec& model, const Device& device);

}  // namespace forge
