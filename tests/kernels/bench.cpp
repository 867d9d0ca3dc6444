#include "tests/kernels/bench.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <vector>

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace forge::kernel_bench {
namespace {

// Returns wall time, or the calling thread's processor time. On a shared machine, one thread
// (OMP_NUM_THREADS=1) with the latter clock is disturbed less.
double now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(const Run& run) {
  static const clockid_t clock =
      std::getenv("FORGE_BENCH_THREAD_TIME") ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  double begin = now(clock);
  run();
  return now(clock) - begin;
}

// Returns the shortest time: other processes on the machine only add time.
double best(const std::vector<double>& seconds) { return *std::min_element(seconds.begin(), seconds.end()); }

// Returns the bytes a second of a copy by all threads that moves as many bytes as the op: half of
// them read, half written. glibc's memcpy bypasses the caches from some megabytes on, so no line is
// read in order to be written. Ops are counted in the same way, by the bytes they must move.
double copy_rate(double moved) {
  static const at::Tensor from = at::zeros({1 << 26}), to = at::zeros({1 << 26});
  char *source = static_cast<char*>(from.data_ptr()), *target = static_cast<char*>(to.data_ptr());
  int64_t bytes = std::min<int64_t>(from.numel() * 4, static_cast<int64_t>(moved / 2));
  double seconds = seconds_of([&] {
    parallel_ranges(bytes, 4096, [&](int64_t begin, int64_t end) {
      std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

// Returns the operations a second of LibTorch's product on the head's shape, 1,024 × 16,384 × 576.
double gemm_rate(at::ScalarType type) {
  static const at::Tensor left = at::randn({1024, 576}), right = at::randn({16384, 576});
  static const at::Tensor left16 = left.to(at::kBFloat16), right16 = right.to(at::kBFloat16);
  static at::Tensor out = at::empty({1024, 16384}), out16 = at::empty({1024, 16384}, at::kBFloat16);
  bool wide = type == at::kFloat;
  double seconds =
      seconds_of([&] { wide ? at::mm_out(out, left, right.t()) : at::mm_out(out16, left16, right16.t()); });
  return 2.0 * 1024 * 16384 * 576 / seconds;
}

}  // namespace

void measure(const Entry& entry, int rounds) {
  bool compute = entry.work.operations > 0;
  std::vector<double> ours, composed, floors;
  entry.ours();
  if (entry.composed) entry.composed();
  for (int i = 0; i < rounds; ++i) {
    floors.push_back(compute ? gemm_rate(entry.gemm_type) : copy_rate(entry.work.bytes));
    ours.push_back(seconds_of(entry.ours));
    if (entry.composed) composed.push_back(seconds_of(entry.composed));
  }
  double time = best(ours), floor = *std::max_element(floors.begin(), floors.end());
  double rate = (compute ? entry.work.operations : entry.work.bytes) / time;
  std::printf("%-54s %9.3f ms %8.1f %s  %5.0f %% of %6.1f", entry.name.c_str(), time * 1e3, rate / 1e9,
              compute ? "GFLOP/s" : "GB/s   ", 100 * rate / floor, floor / 1e9);
  if (entry.composed)
    std::printf("  %6.2f x %s (%.3f ms)", best(composed) / time, entry.composed_name.c_str(),
                best(composed) * 1e3);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace forge::kernel_bench

// [FORGE_BENCH_THREAD_TIME=1 OMP_NUM_THREADS=1] kernels_bench [substring of a name] [rounds]
int main(int argc, char** argv) {
  using namespace forge;
  c10::NoGradGuard no_grad;
  std::string load;
  std::getline(std::ifstream("/proc/loadavg"), load);
  std::printf("%d threads, %s, load %s\n", at::get_num_threads(), name_of(cpu_level()), load.c_str());
  kernel_bench::run_entries(argc > 1 ? argv[1] : "", argc > 2 ? std::atoi(argv[2]) : 7);
  std::getline(std::ifstream("/proc/loadavg"), load);
  std::printf("load after %s\n", load.c_str());
}
