#pragma once
// A JSON Schema, or a list of texts, as the grammar of what a model may write. Every text of the grammar is JSON that is valid
// under the schema; not every valid text is in it: members come in the order of `properties`, one blank at most stands behind
// a comma or a colon, numbers have no exponent and at most 15 digits before the point and 15 behind it.
//
// Read are the keywords of core/reward/json_schema.h but for `not`, multipleOf, uniqueItems where it could be broken, and those
// whose combination a grammar cannot say (pattern beside a length, alternatives that contradict what stands beside them,
// oneOf of alternatives that are not visibly disjoint): each is refused by its place. Where a schema gives keywords of a type
// without naming it, values of that type are written. An object without additionalProperties is written with its properties
// alone.
#include <string>
#include <vector>

#include "core/io/json.h"
#include "core/text/grammar/grammar.h"

namespace forge {

// `name` is what messages call the schema. Throws Error(usage) "NAME: #/properties/a: not is not …".
Grammar schema_grammar(const Json& schema, const std::string& name);

// One of the texts, each not empty.
Grammar choice_grammar(const std::vector<std::string>& choices);

}  // namespace forge
