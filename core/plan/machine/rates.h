#pragma once
// Rates of this machine, op by op, as `forge bench JOB --kernels` measured them; and the time of an
// op of a list by these rates.
//
//   std::optional<Rates> rates = read_rates(path, machine, &warning);
//   double seconds = rates->seconds(work, Precision::bf16).value_or(…);
//
// An op is one or more pieces of work, each of a kind, with a shape that its rate depends on and an
// amount: operations if the processor multiplies, else bytes. Between measured shapes the rate is
// interpolated.
//
// A step takes the sum of its ops' times. No formula of caches or threads is fitted to the
// measurements.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/lib/io/json.h"
#include "core/plan/machine/device.h"

namespace forge {

struct Graph;
struct Op;
struct StepSizes;

struct Work {
  std::string kind;               // "linear", "adapter", "attention", "norm" …
  std::array<double, 3> shape{};  // product: rows, in, out; adapter: rows, in + out, rank; attention: rows, length, head_dim; else bytes
  double amount = 0;              // operations, or bytes
};

// Returns the work of an op. `mean_length` is Σ length² / Σ length over the sequences, in tokens. A
// product over modules that are adjacent in memory is one piece.
std::vector<Work> work_of(const Graph& graph, const Op& op, const StepSizes& sizes, double mean_length);
// Returns the work of a micro-batch beside its list: its tensors.
Work batch_work(const StepSizes& sizes);

// The machine that rates belong to; a file of another machine is not used.
struct Machine {
  std::string processor, instructions;
  int64_t threads = 0;

  bool operator==(const Machine&) const = default;
};
Machine machine_of(const Device& device, int64_t threads);

struct RatePoint {
  Precision precision = Precision::fp32;
  Work work;
  double seconds = 0;
};

struct Rates {
  Machine machine;
  std::string date;  // "2026-11-22"
  std::vector<RatePoint> points;

  // Returns the time of the work; nothing if no such work was measured in that precision.
  std::optional<double> seconds(const Work& work, Precision precision) const;
  // Returns fp32's seconds over bf16's, of all products that were measured in both; nothing if none
  // was.
  std::optional<double> bf16_gain() const;
};

// Returns the path of the rates, beside the token caches of a job's output_dir.
std::string rates_path(const std::string& output_dir);
Json to_json(const Rates& rates);
// Reads the rates; returns nothing without a file. A file that is damaged, of another version or of
// another machine is not used, and `warning` says so.
std::optional<Rates> read_rates(const std::string& path, const Machine& machine, std::string* warning);

}  // namespace forge
