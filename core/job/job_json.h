#pragma once
// Converts a resolved job to JSON and back, exactly. plan.json holds one.
#include "core/job/job.h"
#include "core/lib/io/json.h"

namespace forge {

// Returns every key in the order of the tables: null if an optional key is not set, "auto" if the
// plan has not decided.
Json to_json(const Job& job);
// Returns the job that to_json wrote. Throws JobErrors whose places are `name` if `value` is not
// one.
Job job_from_json(const Json& value, const std::string& name);
// Returns one key's value ("adapter.rank"), for tables of values and comparisons. Throws
// Error(internal) for an unknown key.
Json value_of(const Job& job, const std::string& dotted_key);
Json json_of(const std::map<std::string, Scalar>& scalars);
// Returns the part of a key's value that differs from its default: null for the default itself;
// items of a list of structs keep only the members that differ from theirs. So a later key at its
// default changes nothing. For a key without an entry, returns the value.
Json beside_default(const std::string& dotted_key, const Json& value);

struct Field;
// Returns the value of one table entry in the struct that its table describes.
Json value_of(const Field& field, const void* object);

}  // namespace forge
