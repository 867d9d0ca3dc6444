#pragma once
// Where the time of measured steps goes, op by op, and how many operations its products have: what `forge bench --ops` shows.
//
//   StepShares shares(Precision::bf16, device);
//   network.watch([&](const StepSpan& span) { spans.push_back(span); });  // and behind the step:
//   for (const StepSpan& span : spans) shares.add(span, device.seconds(span.begin, span.end));
//   emit(shares.event(step_seconds, best_product_rate(where, Precision::bf16)));
#include <map>
#include <string>

#include "core/config/job.h"
#include "core/graph/graph.h"
#include "core/io/json.h"
#include "core/model/step_watch.h"
#include "core/tensor/device.h"
#include "kernels/device/device.h"

namespace forge {

class StepShares {
 public:
  StepShares(Precision precision, const ComputeDevice& device);

  void add(const StepSpan& span, double seconds);
  // The event `ops`: each op's seconds, the operations of its products and, on a GPU, the bytes that its launches must at least move; and of
  // `seconds` in all the rest that no op took.
  Json event(double seconds, double best_rate) const;

 private:
  struct Share {
    double seconds = 0, operations = 0, bytes = 0;
  };
  StepSizes sizes_;  // but for each op's rows
  std::map<std::string, Share> ops_;
};

// Operations a second (a multiplication and an addition are two) of the quickest of a few products of large matrices, each alone, by forge's own
// code and by LibTorch's.
double best_product_rate(c10::Device where, Precision precision);

}  // namespace forge
