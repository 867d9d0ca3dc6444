#pragma once
// Comparison of the alternatives of a oneOf, which is an anyOf if they exclude each other.
#include "core/lib/io/json.h"

namespace forge {

// True if no value can be valid for both schemas, as far as their texts show it: they have other
// types, other constants, or other constants of a member that both require. References are looked
// up in `root`.
bool visibly_disjoint(const Json& first, const Json& second, const Json& root);

}  // namespace forge
