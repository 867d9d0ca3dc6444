#pragma once
// A JSON Schema, or a list of texts, as the grammar of texts that a model may write. Every text of
// the grammar is JSON that is valid under the schema. Not every valid text is in it: members come
// in the order of `properties`, at most one blank follows a comma or a colon, numbers have no
// exponent and at most 15 digits before the point and 15 after it.
//
// It supports the keywords of core/lib/schema/json_schema.h except `not`, multipleOf, uniqueItems
// where it could be broken, and combinations that a grammar cannot express (pattern beside a
// length, alternatives that contradict the keywords beside them, oneOf of alternatives that are not
// visibly disjoint): each is refused with its place. Where a schema has keywords of a type without
// naming it, values of that type are written. An object without additionalProperties is written
// with its properties alone.
#include <string>
#include <vector>

#include "core/lib/io/json.h"
#include "core/lib/text/grammar/grammar.h"

namespace forge {

// Returns the grammar of a schema, which messages call `name`. Throws Error(usage) "NAME:
// #/properties/a: not is not …".
Grammar schema_grammar(const Json& schema, const std::string& name);

// Returns a grammar for one of the texts, each not empty.
Grammar choice_grammar(const std::vector<std::string>& choices);

}  // namespace forge
