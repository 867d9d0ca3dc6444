#pragma once
// What the emulated runtime was given to do, by name, since the process began: launches, products, copies; "the host" where it
// touches pinned memory, "the host waits" where it waits for what it does not know to be done.
#include <string>
#include <vector>

namespace forge::emulator {

size_t works();
std::vector<std::string> works_from(size_t first);

}  // namespace forge::emulator
