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
// What a value of a key says that its default does not: null for the default itself; items of a list of structs keep
// the members that are not at theirs. So a key that came later, at its default, changes nothing. A key without an entry
// says its value.
Json beside_default(const std::string& dotted_key, const Json& value);

struct Field;
// The value of one table entry in the struct that its table describes.
Json value_of(const Field& field, const void* object);

}  // namespace forge
