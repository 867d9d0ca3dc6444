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

template <class Wanted>
std::vector<std::string> names_where(const Wanted& wanted) {
  std::vector<std::string> names;
  for (const Keyword& keyword : kKeywords)
    if (wanted(keyword)) names.emplace_back(keyword.name);
  return names;
}

}  // namespace

const Keyword* find_keyword(std::string_view name) {
  const auto found = std::find_if(std::begin(kKeywords), std::end(kKeywords), [&](const Keyword& k) { return k.name == name; });
  return found == std::end(kKeywords) ? nullptr : &*found;
}

bool only_describes(std::string_view name) {
  const Keyword* keyword = find_keyword(name);
  const bool holds_others = keyword != nullptr && keyword->form == F::members && keyword->scope == S::any;
  return holds_others || (keyword != nullptr && (keyword->form == F::describes || keyword->form == F::dialect));
}

std::vector<std::string> limiting_keywords() {
  return names_where([](const Keyword& keyword) { return !only_describes(keyword.name) || keyword.name == "$defs"; });
}

std::vector<std::string> keywords_of(KeywordScope scope) {
  return names_where([scope](const Keyword& keyword) { return keyword.scope == scope; });
}

}  // namespace forge
