#pragma once
// The tables of job.yaml by section, each in a file below fields/. They have every key with its
// sentence, range, choices and the effect of another value on a run. Defaults are in job.h.
// job_fields.cpp puts the sections together.
#include <vector>

#include "core/job/field.h"

namespace forge {

std::vector<Field> model_fields();
std::vector<Field> adapter_fields();
std::vector<Field> objective_fields();
std::vector<Field> data_fields();
std::vector<Field> train_fields();
std::vector<Field> optimizer_fields();
std::vector<Field> schedule_fields();
std::vector<Field> checkpoint_fields();
std::vector<Field> eval_fields();
std::vector<Field> log_fields();
std::vector<Field> hardware_fields();
std::vector<Field> reward_fields();
std::vector<Field> reward_mix_fields();
std::vector<Field> rollout_fields();

}  // namespace forge
