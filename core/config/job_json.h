#pragma once
// A resolved job as JSON and back, exactly: plan.json holds one.
#include "core/config/job.h"
#include "core/io/json.h"

namespace forge {

// Every key in the order of the tables; null where optional keys are not set, "auto" where the plan has not
// decided.
Json to_json(const Job& job);
// The job that to_json wrote. Throws JobErrors whose places are `name` when it is not one.
Job job_from_json(const Json& value, const std::string& name);
// One key's value ("adapter.rank"), for tables of values and comparisons. Throws Error(internal) for an
// unknown key.
Json value_of(const Job& job, const std::string& dotted_key);
Json json_of(const std::map<std::string, Scalar>& scalars);

struct Field;
// The value of one table entry in the struct that its table describes.
Json value_of(const Field& field, const void* object);

}  // namespace forge
