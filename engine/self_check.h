#pragma once
// A little arithmetic on a device, which shows that its driver, LibTorch's kernels and forge's own
// run there.
#include <c10/core/Device.h>

#include <functional>
#include <string>

namespace forge {

// Returns "ok", or what `work` threw, in one line and without LibTorch's stack frames.
std::string outcome_of(const std::function<void()>& work);

// Multiplies two matrices by LibTorch and normalises rows by forge's own kernel, both with known
// results. Throws Error(environment) where one differs, and whatever the device throws.
void check_device(const std::string& name);

}  // namespace forge
