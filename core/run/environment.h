#pragma once
// The environment of a run, for its report: versions and machine.
#include <string>

#include "core/lib/io/json.h"
#include "core/plan/machine/device.h"

namespace forge {

// Returns versions and machine as one flat object: forge, compiler, torch, system, processor,
// cores, instruction_sets, memory_bytes; with a GPU also gpu, gpu_memory_bytes, driver.
Json environment_of(const Device& device, const std::string& torch_version);

}  // namespace forge
