// Runs one op's cases on some backends and stops at the first fault. A planted fault must lead to
// one.
//
//   kernels_first_fault "rms_norm,swiglu" emulated/     0: no fault; 1: one, on stdout; 2: nothing was run
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "tests/kernels/cases.h"

using namespace forge::kernel_test;

namespace {

// True if a case gives the same bits in each run. Sums of LibTorch's own products may depend on the
// threads, and so may floats that are added atomically.
bool same_bits(const Case& c) { return c.ordered && !(c.op == "lora" && c.name.starts_with("linear ")); }

std::string fault_of(const Case& c, const std::vector<Backend>& backends, int64_t& runs) {
  Tensors expected;
  std::vector<unsigned char> first;
  for (const Backend& backend : backends) {
    if (!c.supported(backend)) continue;
    if (expected.empty()) expected = expected_outputs(c);
    ++runs;
    std::vector<unsigned char> bytes;
    if (auto faults = run_case(c, backend, expected, &bytes); !faults.empty())
      return backend.name() + ": " + faults[0];
    if (!same_bits(c)) continue;
    if (backend.name().starts_with("emulated/")) {
      if (first.empty()) first = bytes;
      if (bytes != first) return backend.name() + ": other bits than in another order";
    }
    if (!backend.name().starts_with("cpu/")) continue;
    const int threads = omp_get_max_threads();
    omp_set_num_threads(threads == 1 ? 3 : 1);
    const bool same = output_bytes(c, backend) == bytes;
    omp_set_num_threads(threads);
    if (!same) return backend.name() + ": other bits with another number of threads";
  }
  return "";
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  std::vector<Backend> backends = all_backends();
  std::erase_if(backends, [&](const Backend& b) { return !b.name().starts_with(words[2]); });
  int64_t runs = 0;
  for (const Case& c : cases_of(words[1])) {
    std::string fault;
    try {
      fault = fault_of(c, backends, runs);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    if (fault.empty()) continue;
    std::printf("%s %s: %s\n", c.op.c_str(), c.name.c_str(), fault.c_str());
    return 1;
  }
  return runs > 0 ? 0 : 2;
}
