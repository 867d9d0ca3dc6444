#include "core/lib/schema/keywords.h"

#include <algorithm>

namespace forge {
namespace {

using F = KeywordForm;
using S = KeywordScope;

constexpr Keyword kKeywords[] = {
    {"type", F::types},
    {"enum", F::values},
    {"const", F::value},
    {"properties", F::members, S::object},
    {"required", F::names, S::object},
    {"additionalProperties", F::schema, S::object},
    {"items", F::schema, S::array},
    {"prefixItems", F::schemas, S::array},
    {"minItems", F::count, S::array},
    {"maxItems", F::count, S::array},
    {"uniqueItems", F::flag, S::array},
    {"minLength", F::count, S::text},
    {"maxLength", F::count, S::text},
    {"pattern", F::pattern, S::text},
    {"minimum", F::number, S::number},
    {"maximum", F::number, S::number},
    {"exclusiveMinimum", F::number, S::number},
    {"exclusiveMaximum", F::number, S::number},
    {"multipleOf", F::step, S::number},
    {"minProperties", F::count, S::object},
    {"maxProperties", F::count, S::object},
    {"anyOf", F::schemas},
    {"oneOf", F::schemas},
    {"allOf", F::schemas},
    {"not", F::schema},
    {"$ref", F::reference},
    {"$defs", F::members},
    {"definitions", F::members},
    {"$schema", F::dialect},
    {"$id", F::describes},
    {"$comment", F::describes},
    {"title", F::describes},
    {"description", F::describes},
    {"default", F::describes},
    {"examples", F::describes},
    {"deprecated", F::describes},
    {"readOnly", F::describes},
    {"writeOnly", F::describes},
};

}  // namespace

const Keyword* find_keyword(std::string_view name) {
  const auto* found = std::ranges::find(kKeywords, name, &Keyword::name);
  return found == std::end(kKeywords) ? nullptr : found;
}

bool only_describes(std::string_view name) {
  const Keyword* keyword = find_keyword(name);
  if (keyword == nullptr) return false;
  const bool holds_others = keyword->form == F::members && keyword->scope == S::any;
  return holds_others || keyword->form == F::describes || keyword->form == F::dialect;
}

std::vector<std::string> limiting_keywords() {
  std::vector<std::string> names;
  for (const Keyword& keyword : kKeywords)
    if (!only_describes(keyword.name) || keyword.name == "$defs") names.emplace_back(keyword.name);
  return names;
}

}  // namespace forge
