#pragma once
// Conditions under which a frozen base may be held and multiplied in fp8 (kernels/fp8).
#include <string>
#include <vector>

#include "core/base/key_error.h"
#include "core/config/job.h"
#include "core/families/model_spec.h"
#include "core/plan/machine/device.h"

namespace forge {

// Tokens of the fp8 gate. Before its first step a run compares the base's loss in fp8 with that of
// its file's weights (core/train/fp8_gate.h): whole batches, until these have so many tokens.
constexpr int64_t kFp8GateTokens = 16384;
inline bool has_fp8_gate(const Job& job) { return job.model.quantization == Quantization::fp8; }

// Returns why a device has no such products; "" if it has.
std::string fp8_device_fault(bool cuda, int64_t capability);
// Returns the faults of a job with model.quantization: fp8; none for other jobs.
std::vector<KeyFault> fp8_faults(const Job& job, const ModelSpec& model, const Device& device);

}  // namespace forge
