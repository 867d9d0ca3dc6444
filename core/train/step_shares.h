#pragma once
// Shares of measured steps: the time of each op, and the number of operations of its products, for
// `forge bench --ops`.
//
//   StepShares shares(Precision::bf16, device);
//   network.watch([&](const StepSpan& span) { spans.push_back(span); });  // and after the step:
//   for (const StepSpan& span : spans) shares.add(span, device.seconds(span.begin, span.end));
//   emit(shares.event(step_seconds, best_product_rate(where, Precision::bf16)));
#include <map>
#include <string>

#include "core/job/job.h"
#include "core/lib/io/json.h"
#include "core/lib/tensor/device.h"
#include "core/graph/graph.h"
#include "core/model/step_watch.h"
#include "kernels/device/device.h"

namespace forge {

class StepShares {
 public:
  StepShares(Precision precision, const ComputeDevice& device);

  void add(const StepSpan& span, double seconds);
  // Returns the event `ops`: each op's seconds, the operations of its products and, on a GPU, the
  // bytes that its launches must at least move. It also has the rest of `seconds` that no op took.
  Json event(double seconds, double best_rate) const;

 private:
  struct Share {
    double seconds = 0, operations = 0, bytes = 0;
  };
  StepSizes sizes_;  // but for each op's rows
  std::map<std::string, Share> ops_;
};

// Returns operations a second (a multiplication and an addition are two) of the quickest of a few
// products of large matrices, each alone, by forge's own code and by LibTorch's.
double best_product_rate(c10::Device where, Precision precision);

}  // namespace forge
