#pragma once
// Compares the time of one op with the machine's floor and with the ATen composition, alternating
// within one run: on a shared machine only ratios of adjacent measurements are meaningful.
#include <ATen/ATen.h>

#include <functional>
#include <string>

namespace forge::kernel_bench {

using Run = std::function<void()>;

// The work that limits an op: bytes at the rate of a large copy, or floating-point operations at
// the rate of a GEMM.
struct Work {
  double bytes = 0, operations = 0;
};

struct Entry {
  std::string name;
  Work work;
  at::ScalarType gemm_type = at::kFloat;  // of the GEMM that operations are measured against
  Run ours, composed;                     // composed: the same in ATen
  std::string composed_name = "ATen";
};

// Prints one line on stdout: milliseconds, rate, share of the floor, ratio to the composition.
void measure(const Entry& entry, int rounds);

// Runs every op's entries, filtered by a substring of the name.
void run_entries(const std::string& filter, int rounds);

// Returns a tensor's memory as T*, for argument structs.
inline void* pointer(const at::Tensor& tensor) { return tensor.data_ptr(); }

}  // namespace forge::kernel_bench
