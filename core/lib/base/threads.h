#pragma once
// Splits work over the cores where there is no OpenMP: the program's own long loops.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace forge {

// Calls work(begin, end) over [0, count) in one contiguous range a core; ranges are multiples of
// `grain`. The results must not depend on the number of ranges. The first exception is thrown again
// after all threads have ended.
template <class Work>
void for_each_range(int64_t count, int64_t grain, const Work& work) {
  const int64_t grains = (count + grain - 1) / grain;
  const int64_t parts = std::min<int64_t>(grains, std::max(1u, std::thread::hardware_concurrency()));
  if (parts <= 1) {
    if (count > 0) work(int64_t{0}, count);
    return;
  }
  std::vector<std::exception_ptr> faults(static_cast<size_t>(parts));
  std::vector<std::thread> threads;
  for (int64_t part = 0; part < parts; ++part)
    threads.emplace_back([&, part] {
      try {
        work(grains * part / parts * grain, std::min(count, grains * (part + 1) / parts * grain));
      } catch (...) {
        faults[static_cast<size_t>(part)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& fault : faults)
    if (fault) std::rethrow_exception(fault);
}

}  // namespace forge
