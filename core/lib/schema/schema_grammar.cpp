#include "core/lib/schema/schema_grammar.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/lib/base/text.h"
#include "core/lib/schema/json_grammar.h"
#include "core/lib/schema/json_schema.h"
#include "core/lib/schema/keywords.h"
#include "core/lib/schema/pattern_grammar.h"
#include "core/lib/schema/schema_disjoint.h"

namespace forge {
namespace {

constexpr int64_t kMostCounted = 4096;  // of minLength, maxItems and the like
constexpr int kMostMerges = 1000;
constexpr int kDeepestSchema = 64;  // schemas inside each other, references followed

bool has_any(const Json& schema, KeywordScope scope) {
  const auto items = schema.items();
  return std::any_of(items.begin(), items.end(),
                     [&](const auto& item) { return find_keyword(item.key())->scope == scope; });
}

class SchemaCompiler {
 public:
  SchemaCompiler(const JsonSchema& schema, std::string name)
      : checked_(schema), root_(schema.root()), name_(std::move(name)), rules_(grammar_) {}

  Grammar compile() {
    const Symbol whole = value(root_, "#", 0);
    grammar_.root = grammar_.add_rule({{whole}});
    std::array<bool, 256> all;
    all.fill(true);
    if (shortest_of_rules(grammar_, all)[static_cast<size_t>(grammar_.root)] >= kUnwritable)
      refuse("#", "no value of finite length is valid");
    return std::move(grammar_);
  }

 private:
  [[noreturn]] void refuse(const std::string& at, const std::string& what) const {
    throw Error(ErrorKind::usage, name_ + ": " + at + ": " + what);
  }

  Symbol any_value() {
    if (!any_) {
      const int rule = grammar_.add_rule({});
      any_ = Symbol::rule(rule);
      const Symbol item = *any_, text = text_of(rules_.repeat(rules_.any_character(), 0, {}));
      const Symbol member = rules_.one_of({{text, colon(), item}});
      grammar_.rules[static_cast<size_t>(rule)] = {
          {rules_.text("null")},
          {rules_.text("true")},
          {rules_.text("false")},
          {rules_.number()},
          {text},
          {Symbol::byte('['), list_of(item, 0, {}), Symbol::byte(']')},
          {Symbol::byte('{'), list_of(member, 0, {}), Symbol::byte('}')}};
    }
    return *any_;
  }
  Symbol colon() { return separator(':', colon_); }
  Symbol comma() { return separator(',', comma_); }
  Symbol separator(char c, std::optional<Symbol>& kept) {
    if (!kept) kept = rules_.one_of({{Symbol::byte(c)}, {Symbol::byte(c), Symbol::byte(' ')}});
    return *kept;
  }
  Symbol text_of(Symbol inside) { return rules_.one_of({{Symbol::byte('"'), inside, Symbol::byte('"')}}); }

  // Returns a rule for `least` to `most` items, with commas between them.
  Symbol list_of(Symbol item, int64_t least, std::optional<int64_t> most) {
    if (most && *most == 0) return rules_.one_of({{}});
    const Symbol next = rules_.one_of({{comma(), item}});
    const Symbol some =
        rules_.one_of({{item, rules_.repeat(next, std::max<int64_t>(least - 1, 0),
                                            most ? std::optional(*most - 1) : std::nullopt)}});
    return least == 0 ? rules_.maybe(some) : some;
  }

  Symbol value(const Json& schema, const std::string& at, int depth) {
    if (depth > kDeepestSchema) refuse(at, "is nested too deeply");
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) refuse(at, "nothing is valid under false");
      return any_value();
    }
    if (schema.contains("$ref")) return reference(schema, at, depth);
    if (schema.contains("enum") || schema.contains("const")) return listed(schema, at);
    for (const char* word : {"anyOf", "oneOf", "allOf"})
      if (schema.contains(word)) return combined(schema, word, at, depth);
    if (schema.contains("not")) refuse(at, "not is not supported where answers are constrained");
    Alternatives alternatives;
    for (const std::string& type : types_of(schema)) alternatives.push_back({typed(schema, type, at, depth)});
    if (alternatives.empty()) return any_value();
    return rules_.one_of(std::move(alternatives));
  }

  // Returns the types that a schema allows; without `type`, those whose keywords it has.
  static std::vector<std::string> types_of(const Json& schema) {
    if (schema.contains("type")) {
      std::vector<std::string> types = named_types(schema["type"]);
      // "number" includes "integer".
      if (std::count(types.begin(), types.end(), "number")) std::erase(types, "integer");
      return types;
    }
    std::vector<std::string> types;
    if (has_any(schema, KeywordScope::object)) types.emplace_back("object");
    if (has_any(schema, KeywordScope::array)) types.emplace_back("array");
    if (has_any(schema, KeywordScope::text)) types.emplace_back("string");
    if (has_any(schema, KeywordScope::number)) types.emplace_back("number");
    return types;
  }

  Symbol typed(const Json& schema, const std::string& type, const std::string& at, int depth) {
    if (type == "null") return rules_.text("null");
    if (type == "boolean") return rules_.one_of({{rules_.text("true")}, {rules_.text("false")}});
    if (type == "object") return object(schema, at, depth);
    if (type == "array") return array(schema, at, depth);
    if (type == "string") return text(schema, at);
    return number(schema, type == "integer", at);
  }

  Symbol reference(const Json& schema, const std::string& at, int depth) {
    for (const auto& item : schema.items())
      if (item.key() != "$ref" && !only_describes(item.key()))
        refuse(at, item.key() + " next to $ref is not supported where answers are constrained");
    const std::string target = schema["$ref"].get<std::string>();
    if (const auto found = references_.find(target); found != references_.end())
      return Symbol::rule(found->second);
    const int rule = grammar_.add_rule({});
    references_[target] = rule;
    if (refers_to_itself(target)) refuse(at, target + " is nothing but a reference to itself");
    const Symbol body = value(referenced(root_, target), target, depth + 1);
    grammar_.rules[static_cast<size_t>(rule)] = {{body}};
    return Symbol::rule(rule);
  }

  // True if a chain of references, directly or as alternatives, returns to `target` without writing
  // anything: it would never end.
  bool refers_to_itself(const std::string& target) const {
    std::set<std::string> seen;
    std::vector<const Json*> open{&referenced(root_, target)};
    while (!open.empty()) {
      const Json& schema = *open.back();
      open.pop_back();
      if (!schema.is_object()) continue;
      if (schema.contains("$ref")) {
        const std::string next = schema["$ref"].get<std::string>();
        if (next == target) return true;
        if (seen.insert(next).second) open.push_back(&referenced(root_, next));
      }
      for (const char* word : {"anyOf", "oneOf", "allOf"})
        if (schema.contains(word))
          for (const Json& one : schema[word]) open.push_back(&one);
    }
    return false;
  }

  // Returns a rule for the listed values that the rest of the schema allows.
  Symbol listed(const Json& schema, const std::string& at) {
    const Json values = schema.contains("const") ? Json::array({schema["const"]}) : schema["enum"];
    Alternatives alternatives;
    for (const Json& one : values)
      if (checked_.problem(one, schema).empty()) alternatives.push_back(symbols_of(dump_json(one)));
    if (alternatives.empty()) refuse(at, "none of the listed values is valid");
    return rules_.one_of(std::move(alternatives));
  }

  // Returns the keywords of both schemas; refuses keywords that cannot simply be combined.
  Json merged(const Json& a, const Json& b, const std::string& at) const {
    if (a.is_boolean() && a.get<bool>()) return b;
    if (b.is_boolean() && b.get<bool>()) return a;
    if (++merges_ > kMostMerges) refuse(at, "references form a circle in schemas that are combined");
    if (!a.is_object() || !b.is_object()) refuse(at, "false among schemas that are combined");
    if (a.contains("$ref") && b.size() > 0) return merged(resolved(a, at), b, at);
    if (b.contains("$ref") && a.size() > 0) return merged(a, resolved(b, at), at);
    const auto closes = [](const Json& schema) { return schema.contains("additionalProperties"); };
    if ((closes(a) && b.contains("properties")) || (closes(b) && a.contains("properties")))
      refuse(at,
             "additionalProperties together with the properties of a schema combined with it is not supported");
    for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)})
      if (one->contains("prefixItems") && other->contains("items"))
        refuse(at, "items together with the prefixItems of a schema combined with it is not supported");
    Json sum = a;
    for (const auto& item : b.items()) {
      if (!sum.contains(item.key()) || sum[item.key()] == item.value()) {
        sum[item.key()] = item.value();
      } else if (item.key() == "required") {
        for (const Json& name : item.value())
          if (std::find(sum["required"].begin(), sum["required"].end(), name) == sum["required"].end())
            sum["required"].push_back(name);
      } else if (item.key() == "properties") {
        for (const auto& property : item.value().items()) {
          if (sum["properties"].contains(property.key()) &&
              sum["properties"][property.key()] != property.value())
            refuse(at, "the property " + property.key() + " is described twice");
          sum["properties"][property.key()] = property.value();
        }
      } else if (!only_describes(item.key())) {
        refuse(at, item.key() + " is given twice by schemas that are combined");
      }
    }
    return sum;
  }
  Json resolved(const Json& schema, const std::string& at) const {
    if (schema.size() > 1) refuse(at, "keywords next to $ref are not supported where answers are constrained");
    return referenced(root_, schema["$ref"]);
  }

  Symbol combined(const Json& schema, const std::string& word, const std::string& at, int depth) {
    Json beside = schema;
    beside.erase(word);
    for (const auto& item : schema.items())
      if (only_describes(item.key())) beside.erase(item.key());
    const Json& list = schema[word];
    if (word == "allOf") {
      Json sum = beside.empty() ? Json(true) : beside;
      for (const Json& one : list) sum = merged(sum, one, at + "/allOf");
      return value(sum, at + "/allOf", depth + 1);
    }
    if (word == "oneOf") require_disjoint(list, at + "/oneOf");
    Alternatives alternatives;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string here = at + "/" + word + "/" + std::to_string(i);
      if (list[i].is_boolean() && !list[i].get<bool>()) continue;
      alternatives.push_back({beside.empty() ? value(list[i], here, depth + 1)
                                             : value(merged(beside, list[i], here), here, depth + 1)});
    }
    if (alternatives.empty()) refuse(at, "no alternative of " + word + " is left");
    return rules_.one_of(std::move(alternatives));
  }

  // Refuses alternatives that are not pairwise disjoint.
  void require_disjoint(const Json& list, const std::string& at) const {
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        if (!visibly_disjoint(list[i], list[k], root_))
          refuse(at, "the alternatives " + std::to_string(k) + " and " + std::to_string(i) +
                         " are not visibly disjoint: write anyOf, or give each a constant of its own");
  }
  std::optional<int64_t> count(const Json& schema, const char* word, const std::string& at) const {
    if (!schema.contains(word)) return std::nullopt;
    const auto value = schema[word].get<uint64_t>();
    if (value > static_cast<uint64_t>(kMostCounted))
      refuse(at, std::string(word) + " is " + dump_json(schema[word]) + ", at most " +
                     format_count(kMostCounted) + " is supported where answers are constrained");
    return static_cast<int64_t>(value);
  }

  Symbol text(const Json& schema, const std::string& at) {
    const std::optional<int64_t> least = count(schema, "minLength", at),
                                 most = count(schema, "maxLength", at);
    if (most && *most < least.value_or(0)) refuse(at, "minLength is above maxLength");
    if (!schema.contains("pattern"))
      return text_of(rules_.repeat(rules_.any_character(), least.value_or(0), most));
    if (least || most)
      refuse(at,
             "pattern together with minLength or maxLength is not supported where answers are constrained: give the "
             "length in the pattern");
    try {
      return text_of(pattern_rule(rules_, schema["pattern"].get<std::string>()));
    } catch (const Error& error) {
      refuse(at, error.what());
    }
  }

  Symbol number(const Json& schema, bool whole, const std::string& at) {
    if (schema.contains("multipleOf") && !(whole && schema["multipleOf"] == 1))
      refuse(at, "multipleOf is not supported where answers are constrained");
    // Returns a bound in units of 10^-decimals; an excluded one is moved by one. A bound that is
    // too far to limit 15 digits is ignored.
    const auto bound = [&](const char* inclusive, const char* exclusive, bool upper, int decimals) {
      std::optional<int64_t> tightest;
      for (const char* word : {inclusive, exclusive}) {
        if (!schema.contains(word)) continue;
        const long double scaled =
            static_cast<long double>(schema[word].get<double>()) * std::pow(10.0L, decimals);
        // A decimal such as 0.1 differs a little from its double, so a value that is almost a whole
        // number counts as whole.
        constexpr long double kOfDouble = 1e-14L;  // relative: 1e-30 is not 0
        const long double nearest = std::round(scaled),
                          exact = std::abs(scaled - nearest) <= kOfDouble * std::abs(scaled) ? nearest : scaled;
        if (std::abs(exact) > 9e17L) {
          if ((exact > 0) == upper) continue;
          refuse(at, std::string(word) + " has more than 15 digits");
        }
        auto value = static_cast<int64_t>(upper ? std::floor(exact) : std::ceil(exact));
        if (word == exclusive && static_cast<long double>(value) == exact) value += upper ? -1 : 1;
        tightest = !tightest ? value : upper ? std::min(*tightest, value) : std::max(*tightest, value);
      }
      return tightest;
    };
    const bool free = !has_any(schema, KeywordScope::number);
    if (free && !whole) return rules_.number();
    Alternatives alternatives;
    constexpr int kMostDecimals = 6;
    for (int decimals = 0; decimals <= (whole ? 0 : kMostDecimals); ++decimals)
      if (const auto made = rules_.decimal(bound("minimum", "exclusiveMinimum", false, decimals),
                                           bound("maximum", "exclusiveMaximum", true, decimals), decimals))
        alternatives.push_back({*made});
    if (alternatives.empty())
      refuse(at, std::string("no ") + (whole ? "whole number" : "number of 6 decimals") +
                     " lies between the bounds");
    return rules_.one_of(std::move(alternatives));
  }

  Symbol array(const Json& schema, const std::string& at, int depth) {
    const int64_t least = count(schema, "minItems", at).value_or(0);
    std::optional<int64_t> most = count(schema, "maxItems", at);
    const Json prefix = schema.value("prefixItems", Json::array());
    const auto fixed = static_cast<int64_t>(prefix.size());
    if (schema.contains("items") && schema["items"] == false) most = std::min(most.value_or(fixed), fixed);
    if (most && *most < least) refuse(at, "minItems is above the number of items allowed");
    if (schema.value("uniqueItems", false) && (!most || *most > 1))
      refuse(at, "uniqueItems is not supported where answers are constrained");
    if (most && *most == 0) return rules_.text("[]");
    // The rule for the items that follow; it is built from the last item to the first.
    Symbol rest = rules_.one_of({{}});
    const int64_t some = std::min(fixed, most.value_or(fixed));
    if (!most || *most > some) {
      const Symbol item =
          schema.contains("items") ? value(schema["items"], at + "/items", depth + 1) : any_value();
      if (some == 0)
        return rules_.one_of({{Symbol::byte('['), list_of(item, least, most), Symbol::byte(']')}});
      rest = rules_.repeat(rules_.one_of({{comma(), item}}), std::max<int64_t>(least - some, 0),
                           most ? std::optional(*most - some) : std::nullopt);
    }
    for (int64_t i = some; i-- > 0;) {
      Symbols all;
      if (i > 0) all.push_back(comma());
      all.push_back(
          value(prefix[static_cast<size_t>(i)], at + "/prefixItems/" + std::to_string(i), depth + 1));
      all.push_back(rest);
      rest = least > i ? rules_.one_of({std::move(all)}) : rules_.one_of({std::move(all), {}});
    }
    return rules_.one_of({{Symbol::byte('['), rest, Symbol::byte(']')}});
  }

  Symbol object(const Json& schema, const std::string& at, int depth) {
    const Json properties = schema.value("properties", Json::object());
    std::set<std::string> required;
    for (const Json& name : schema.value("required", Json::array())) required.insert(name.get<std::string>());
    std::vector<std::pair<std::string, Symbol>> members;
    for (const auto& item : properties.items()) {
      if (item.value() == false) continue;  // must not be there
      members.emplace_back(item.key(), value(item.value(), at + "/properties/" + item.key(), depth + 1));
    }
    const Json extra = schema.value("additionalProperties", Json(properties.empty()));
    for (const std::string& name : required) {
      if (properties.contains(name) && properties[name] == false)
        refuse(at, name + " is required and forbidden");
      if (properties.contains(name)) continue;
      if (schema.contains("additionalProperties") && extra == false)
        refuse(at, name + " is required, but is not a property");
      members.emplace_back(name, schema.contains("additionalProperties")
                                     ? value(extra, at + "/additionalProperties", depth + 1)
                                     : any_value());
    }
    check_member_counts(schema, required.size(), members.size(), at);
    return members_of(members, required, extra, schema, at, depth);
  }

  void check_member_counts(const Json& schema, size_t required, size_t members, const std::string& at) const {
    const auto least = static_cast<size_t>(count(schema, "minProperties", at).value_or(0));
    if (least > required)
      refuse(
          at,
          "minProperties above the number of required properties is not supported where answers are constrained");
    if (!schema.contains("maxProperties")) return;
    const auto most = static_cast<size_t>(*count(schema, "maxProperties", at));
    if (most < members)
      refuse(at, "maxProperties below the number of properties is not supported where answers are constrained");
  }

  Symbol members_of(const std::vector<std::pair<std::string, Symbol>>& members,
                    const std::set<std::string>& required, const Json& extra, const Json& schema,
                    const std::string& at, int depth) {
    // Rules are built from the last member to the first: what follows when no member was written
    // yet, and when one was.
    Symbol first = rules_.one_of({{}}), later = first;
    if (extra != false) {
      std::vector<std::string> taken;
      for (const auto& [name, symbol] : members) taken.push_back(name);
      if (schema.contains("properties"))
        for (const auto& item : schema["properties"].items()) taken.push_back(item.key());
      const Symbol member = rules_.one_of(
          {{rules_.name_except(taken), colon(), value(extra, at + "/additionalProperties", depth + 1)}});
      std::optional<int64_t> most;
      if (schema.contains("maxProperties"))
        most = schema["maxProperties"].get<int64_t>() - static_cast<int64_t>(members.size());
      first = list_of(member, 0, most);
      later = rules_.repeat(rules_.one_of({{comma(), member}}), 0, most);
    }
    for (size_t i = members.size(); i-- > 0;) {
      const auto& [name, symbol] = members[i];
      Symbols whole = symbols_of(dump_json(Json(name)));
      whole.push_back(colon());
      whole.push_back(symbol);
      const Symbol member = rules_.one_of({std::move(whole)});
      const Symbol with_first = rules_.one_of({{member, later}}),
                   with_later = rules_.one_of({{comma(), member, later}});
      const bool must = required.contains(name);
      first = must ? with_first : rules_.one_of({{with_first}, {first}});
      later = must ? with_later : rules_.one_of({{with_later}, {later}});
    }
    return rules_.one_of({{Symbol::byte('{'), first, Symbol::byte('}')}});
  }

  const JsonSchema& checked_;
  const Json& root_;
  std::string name_;
  Grammar grammar_;
  JsonRules rules_;
  std::map<std::string, int> references_;
  std::optional<Symbol> any_, colon_, comma_;
  mutable int merges_ = 0;
};

}  // namespace

Grammar schema_grammar(const Json& schema, const std::string& name) {
  const auto read = [&] {  // every keyword is known and has the value that it should have
    try {
      return JsonSchema(schema, name);
    } catch (const Error& error) {
      std::vector<std::string> known = limiting_keywords();
      for (const char* word : {"not", "multipleOf", "uniqueItems"}) std::erase(known, word);  // each is refused here
      const bool lists = starts_with(error.hint(), "the keywords are");
      throw Error(ErrorKind::usage, std::string(error.what())).hint(lists ? "the keywords are " + join(known, ", ") : error.hint());
    }
  };
  const JsonSchema checked = read();
  return SchemaCompiler(checked, name).compile();
}

Grammar choice_grammar(const std::vector<std::string>& choices) {
  Grammar grammar;
  Alternatives alternatives;
  for (const std::string& choice : choices) {
    FORGE_CHECK(!choice.empty(), "a choice is empty");
    alternatives.push_back(symbols_of(choice));
  }
  grammar.root = grammar.add_rule(std::move(alternatives));
  return grammar;
}

}  // namespace forge
