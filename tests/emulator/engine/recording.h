#pragma once
// The work that the emulated runtime was given, by name, since the process started: launches,
// products, copies; "the host" where it touches pinned memory, "the host waits" where it waits for
// work that it does not know to be done.
#include <string>
#include <vector>

namespace forge::emulator {

size_t works();
std::vector<std::string> works_from(size_t first);
// Returns works() at each ComputeDevice::mark(), in order.
const std::vector<size_t>& works_at_moments();

// The stream whose waits are dropped, by its number (1: compute, 2: weights, 3: copy), until it is
// 0 again: a fault that a test plants.
size_t& deaf_stream();

// True if every capture is refused.
bool& refuses_captures();

}  // namespace forge::emulator
