#pragma once
// The losses of direct preference optimisation, one row each.
#include "core/learn/objective/objective.h"

namespace forge {

struct DpoRow {
  DpoLoss loss;
  PairLoss (*pair)(const DpoConfig&, const SequenceSums& chosen, const SequenceSums& rejected);
  const char* formula;
};

// Returns the rows in the order of the enum.
const std::vector<DpoRow>& dpo_rows();
const DpoRow& dpo_row(DpoLoss loss);

// Functions that are numerically stable for large positive and negative x.
double logistic(double x);  // 1 / (1 + e^−x)
double softplus(double x);  // log(1 + e^x)

}  // namespace forge
