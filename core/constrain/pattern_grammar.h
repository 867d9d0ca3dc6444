#pragma once
// A regular expression as the grammar of JSON strings in which it is found. Read are literals, ., classes, \d \w \s and their
// opposites, groups, |, *, +, ?, {m,n}, ^ at the beginning and $ at the end; classes by name, look-around, references and
// whatever else there is are refused. \d, \w and \s write characters of ASCII; lazy quantifiers are as greedy ones.
#include <string>

#include "core/constrain/json_grammar.h"

namespace forge {

// What stands between the quotes. Throws Error(usage) with what is not read; the caller says where.
Symbol pattern_rule(JsonRules& rules, const std::string& pattern);

}  // namespace forge
