#pragma once
// Answers the samples of a run (core/run/samples.h) with the model that is trained. They never end
// a run: without the memory for them there are none.
#include <string>

#include "core/data/dataset.h"
#include "core/train/session.h"
#include "core/train/step.h"

namespace forge {

// Writes samples.json of the run folder. Called before the first step.
void answer_samples(const Session& session, const DataSet& data, const std::string& run_folder, const StopFlag& stop);

// Returns the report's list, empty if there is nothing to compare with. Called after the last step.
Json answer_samples_again(const Session& session, const std::string& run_folder, const StopFlag& stop);

}  // namespace forge
