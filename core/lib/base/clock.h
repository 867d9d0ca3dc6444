#pragma once
// Elapsed time, independent of the system clock's setting.
#include <chrono>

namespace forge {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace forge
