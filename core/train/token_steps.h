#pragma once
// Steps over the rows of data.train, epoch after epoch. The samples of a run (core/run/samples.h)
// are answered before the first and after the last; they never end a run: without the memory for
// them there are none.
#include "core/train/step_source.h"

namespace forge {

// Data sets of a run.
struct RunData {
  DataSet train, eval;
  bool has_eval = false;
};

// All arguments must outlive the source.
std::unique_ptr<StepSource> token_steps(Session& session, const RunData& data, const std::string& run_folder, const StopFlag& stop);

}  // namespace forge
