#pragma once
// Time that has passed, whatever the system's clock is set to.
#include <chrono>

namespace forge {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace forge
