#pragma once
// The samples of a run (core/run/samples.h), answered by the model that is trained. They are worth seconds, never a run: without the memory
// for them there are none.
#include <string>

#include "core/data/dataset.h"
#include "core/train/session.h"
#include "core/train/step.h"

namespace forge {

// Before the first step: writes samples.json of the run folder.
void answer_samples(const Session& session, const DataSet& data, const std::string& run_folder, const StopFlag& stop);

// After the last one: the report's list, empty where there is nothing to compare with.
Json answer_samples_again(const Session& session, const std::string& run_folder, const StopFlag& stop);

}  // namespace forge
