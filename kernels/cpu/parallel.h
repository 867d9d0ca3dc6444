#pragma once
// Splits work over the OpenMP threads of the process. The results of a range do not depend on the
// number of threads.
#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace forge {

// Calls work(begin, end) over [0, count), one contiguous range for each thread. Ranges are
// multiples of `grain`.
template <class Work>
void parallel_ranges(int64_t count, int64_t grain, Work work) {
  int64_t grains = (count + grain - 1) / grain;
  int threads = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), grains));
  if (threads <= 1 || omp_in_parallel()) {
    if (count > 0) work(int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    int64_t index = omp_get_thread_num(), total = omp_get_num_threads();
    int64_t begin = grains * index / total * grain,
            end = std::min(count, grains * (index + 1) / total * grain);
    if (begin < end) work(begin, end);
  }
}

// Calls loop(args, begin, end) over [0, count): for the loops that FORGE_PICK returns.
template <class Args>
void parallel_loop(const Args& args, int64_t count, int64_t grain, void (*loop)(const Args&, int64_t begin, int64_t end)) {
  parallel_ranges(count, grain, [&](int64_t begin, int64_t end) { loop(args, begin, end); });
}

// Number of threads that parallel_tasks may use: workspaces have one part for each.
inline int64_t task_threads() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

// Calls work(task, thread) for every task. A free thread takes `together` tasks at a time. For
// tasks of unequal size.
template <class Work>
void parallel_tasks(int64_t count, Work work, int64_t together = 1) {
  int threads = static_cast<int>(std::min<int64_t>(task_threads(), (count + together - 1) / together));
  if (threads <= 1) {
    for (int64_t task = 0; task < count; ++task) work(task, int64_t{0});
    return;
  }
#pragma omp parallel for schedule(dynamic, together) num_threads(threads)
  for (int64_t task = 0; task < count; ++task) work(task, static_cast<int64_t>(omp_get_thread_num()));
}

// Returns the number of consecutive tasks, each reading `bytes`, that a thread takes at a time if
// memory bandwidth is the limit. Starting a piece is slow (one row of x by q4_0 took a quarter
// longer in pieces of 24 KiB), and every thread should get a piece.
inline int64_t tasks_in_a_piece(int64_t count, int64_t bytes) {
  constexpr int64_t kPiece = 96 << 10;
  const int64_t share = (count + task_threads() - 1) / task_threads();
  return std::clamp<int64_t>(kPiece / std::max<int64_t>(1, bytes), 1, std::max<int64_t>(1, share));
}

// Tasks that start after all tasks of the phase before.
template <class Work>
struct TaskPhase {
  int64_t count;
  Work work;  // work(task, thread), taken by a free thread
};
template <class Work>
TaskPhase(int64_t, Work) -> TaskPhase<Work>;

// Runs one phase after the other. The threads start once: between phases they only meet at a
// barrier.
template <class... Work>
void parallel_phases(TaskPhase<Work>... phases) {
  const auto threads = static_cast<int>(std::min(task_threads(), std::max({phases.count...})));
  const auto alone = [](const auto& phase) {
    for (int64_t task = 0; task < phase.count; ++task) phase.work(task, int64_t{0});
  };
  if (threads <= 1) return (alone(phases), ...);
  const auto shared = [](const auto& phase) {
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < phase.count; ++task) phase.work(task, static_cast<int64_t>(omp_get_thread_num()));
  };
#pragma omp parallel num_threads(threads)
  (shared(phases), ...);
}

// True if a new result of that many bytes should bypass the caches: it would have left them before
// it is read. A result that fits in a cache should stay there for its reader.
inline bool goes_to_memory(const void* begin, int64_t stride_bytes, int64_t bytes) {
  constexpr int64_t kLarge = int64_t{24} << 20;
  return bytes >= kLarge && reinterpret_cast<uintptr_t>(begin) % 64 == 0 && stride_bytes % 64 == 0;
}

}  // namespace forge
