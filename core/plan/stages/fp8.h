#pragma once
// Conditions under which a frozen base may be held and multiplied in fp8 (kernels/fp8).
//
// A scale a row can leave a product and a scale along its depth cannot: forward x has a scale a
// row, and for d x the scales of W are multiplied into d y before that is quantised. LibTorch's
// product adds to nothing, so no adapter and no stream is folded into one, and d x of q, k and v is
// three products and two additions. Policy objectives are refused, since drawing rounds weights
// alone and would be another policy; so are DoRA, experts and provider reference. fp8 is never
// chosen automatically. A CPU decodes the codes to bf16: that is the twin that proves the rest, not
// a way to be fast.
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/lib/base/key_error.h"
#include "core/model/families/model_spec.h"
#include "core/plan/machine/device.h"

namespace forge {

// Tokens of the fp8 gate. Before its first step a run compares the base's loss in fp8 with that of
// its file's weights (core/train/fp8_gate.h): whole batches, until these have so many tokens.
constexpr int64_t kFp8GateTokens = 16384;
inline bool has_fp8_gate(const Job& job) { return job.model.quantization == Quantization::fp8; }

// Returns why a device has no such products; "" if it has.
std::string fp8_device_fault(bool cuda, int64_t capability);
// Adds the faults of a job with model.quantization: fp8; none for other jobs.
void add_fp8_faults(const Job& job, const ModelSpec& model, const Device& device, std::vector<KeyFault>& faults);

}  // namespace forge
