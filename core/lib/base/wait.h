#pragma once
// Waits without std::condition_variable::wait, whose only version in GCC 12's headers needs
// libstdc++ 12 at run time. Packages of forge need libstdc++ 11, which RHEL 9 has;
// packaging/floors.py checks that.
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace forge {

// Returns when `ready` returns true. `ready` is called under the lock.
template <class Ready>
void wait_until_true(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Ready ready) {
  while (!changed.wait_for(lock, std::chrono::hours(1), ready)) {
  }
}

}  // namespace forge
