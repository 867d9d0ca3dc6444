#pragma once
// The points that forge bench measures, and the tables made from the numbers.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/lib/io/json.h"

namespace forge {

// Shares of ops in the time of a point's steps.
struct OpShares {
  struct Op {
    std::string name;
    double seconds = 0, operations = 0;  // of products of matrices
    double bytes = 0;                    // on a GPU: that its launches must at least move
  };
  std::vector<Op> ops;
  double seconds = 0;
  int64_t tokens = 0;
  bool on_device = false;  // timed by events on the GPU, in steps of their own without graphs; else by the host's clock
  double best_product_rate = 0;  // operations a second of the quickest product alone

  // Returns the share of the time that the products would take at best_product_rate.
  double roofline_share() const;
};

struct BenchPoint {
  std::string name;
  std::vector<std::string> sets;  // KEY=VALUE, on top of the user's
};

struct BenchResult {
  BenchPoint point;
  // Settings of the plan.
  std::string provider, precision, activation_checkpointing;
  int64_t max_length = 0, micro_batch_tokens = 0, predicted_peak_bytes = 0;
  // Measurements after the warm-up step.
  std::vector<double> rates;  // tokens per second of each step
  int64_t measured_peak_bytes = 0;
  std::optional<OpShares> shares;  // where asked for
  std::string refused;  // why nothing was measured; empty otherwise

  double tokens_per_second() const;  // the median; 0 if nothing was measured
  // Returns the distance between the quartiles, over the median: how noisy the machine is.
  double spread() const;
};

// Returns a point of one micro-batch a step, or as many as a row of `max_length` takes.
BenchPoint batch_point(int64_t max_length, int64_t micro_batch_tokens);
// Returns the index of the smallest micro-batch within 3 % of the fastest, among results of one
// length in ascending order. At least one must have been measured.
size_t knee(const std::vector<BenchResult>& results);
// True if the last two results, each with twice the micro-batch, gained less than 3 % together:
// more will not help.
bool past_knee(const std::vector<BenchResult>& results);

// Returns the points from the plainest settings to the job's own, with one optimisation more per
// rung.
std::vector<BenchPoint> ladder();

std::string sweep_table(const std::vector<BenchResult>& results);
std::string shares_table(const OpShares& shares);
std::string ladder_table(const std::vector<BenchResult>& results);
Json to_json(const BenchResult& result);

}  // namespace forge
