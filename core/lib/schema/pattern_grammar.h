#pragma once
// A regular expression as the grammar of JSON strings that it matches. It supports literals, .,
// classes, \d \w \s and their opposites, groups, |, *, +, ?, {m,n}, ^ at the beginning and $ at the
// end. Classes by name, look-around, references and all other syntax are refused. \d, \w and \s
// write characters of ASCII; lazy quantifiers are treated like greedy ones.
#include <string>

#include "core/lib/schema/json_grammar.h"

namespace forge {

// Returns a rule for the text between the quotes. Throws Error(usage) that names unsupported
// syntax; the caller adds the place.
Symbol pattern_rule(JsonRules& rules, const std::string& pattern);

}  // namespace forge
