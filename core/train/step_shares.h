#pragma once
// Where the time of measured steps goes, op by op, and how many operations its products have: what `forge bench --ops` shows.
//
//   StepShares shares;
//   network.watch([&](const StepSpan& span) { shares.add(span); });
//   emit(shares.event(seconds, best_product_rate(Precision::bf16)));
#include <map>
#include <string>

#include "core/config/job.h"
#include "core/io/json.h"
#include "core/model/step_watch.h"

namespace forge {

class StepShares {
 public:
  explicit StepShares(Precision precision) : precision_(precision) {}

  void add(const StepSpan& span);
  void clear() { ops_.clear(); }
  // The event `ops`: each op's seconds and the operations of its products, and of `seconds` in all the rest that no op took.
  Json event(double seconds, double best_rate) const;

 private:
  struct Share {
    double seconds = 0, operations = 0;
  };
  Precision precision_;
  std::map<std::string, Share> ops_;
};

// Operations a second (a multiplication and an addition are two) of the quickest of a few products of large matrices, each alone, by forge's own
// code and by LibTorch's. CPU.
double best_product_rate(Precision precision);

}  // namespace forge
