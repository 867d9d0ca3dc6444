// Grammars of schemas, checked by the validator that rewards use, which is independent of grammars.
#include "core/lib/schema/schema_grammar.h"

#include <random>

#include "core/lib/base/text.h"
#include "core/lib/schema/json_schema.h"
#include "core/lib/text/grammar/matcher.h"
#include "tests/constrain/grammar_texts.h"
#include "tests/test.h"

using namespace forge;

namespace {

Json json(const std::string& text) { return parse_json(text, "test", ErrorKind::data); }

const char* const kSchemas[] = {
    R"({})", R"(true)", R"({"type": "string"})", R"({"type": "string", "minLength": 2, "maxLength": 5})", R"({"type": "number"})",
    R"({"type": "integer"})", R"({"type": "integer", "minimum": -13, "maximum": 1205})", R"({"type": "integer", "exclusiveMinimum": 7, "maximum": 9})",
    R"({"type": "integer", "minimum": 98})", R"({"type": "integer", "maximum": -3})", R"({"type": "number", "minimum": 0, "maximum": 1})",
    R"({"type": "number", "exclusiveMinimum": 0.25, "exclusiveMaximum": 0.5})", R"({"type": "number", "minimum": -2.5, "maximum": -0.125})",
    R"({"type": "number", "minimum": 0.1, "maximum": 0.3})", R"({"type": "boolean"})", R"({"type": ["null", "integer", "array"]})",
    R"({"type": "number", "minimum": 1e-30, "maximum": 2})", R"({"type": "number", "minimum": -1e-30, "maximum": 1e-30})",
    R"({"enum": ["a \"b\"", 3, null, [1, {"x": "é"}], "ßß"]})", R"({"enum": ["long word", "w", 3], "type": "string", "maxLength": 1})", R"({"const": {"a": [1.5]}})",
    R"({"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 3}, "minItems": 2, "maxItems": 4})",
    R"({"type": "array", "items": {"type": "boolean"}})", R"({"type": "array", "maxItems": 0})", R"({"type": "array", "minItems": 1, "maxItems": 1, "uniqueItems": true})",
    R"({"type": "array", "prefixItems": [{"type": "null"}, {"const": 5}], "items": {"type": "string", "maxLength": 2}, "minItems": 1, "maxItems": 4})",
    R"({"type": "array", "prefixItems": [{"type": "null"}, {"const": 5}], "items": false})",
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "null"}}, "required": ["b"]})",
    R"({"type": "object", "properties": {"a": {"const": 1}, "b": false, "ab": {"const": 2}}, "additionalProperties": {"type": "integer", "minimum": 5}})",
    R"({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a", "z"], "additionalProperties": {"type": "boolean"}, "maxProperties": 3})",
    R"({"type": "object"})", R"({"type": "object", "additionalProperties": {"type": "null"}, "maxProperties": 2})", R"({"type": "object", "properties": {}, "additionalProperties": false})",
    R"({"properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z]{1,5}( [A-Z]\\.)?$"}}, "required": ["name"]})",
    R"({"type": "string", "pattern": "^\\d{4}-(0[1-9]|1[0-2])-[0-3]\\d$"})", R"({"type": "string", "pattern": "b+c?"})", R"({"type": "string", "pattern": "^[^\"a-y\\\\]+$"})",
    R"({"type": "string", "pattern": "^\\S+@\\w+\\.(com|org)$"})", R"({"type": "string", "pattern": "^(\"|\\\\|\\n|é|[α-ω]){2,3}$"})", R"({"type": "string", "pattern": "\\W\\D\\s."})",
    R"({"$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["v", "kids"], "additionalProperties": false}}, "$ref": "#/$defs/tree"})",
    R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 3}]})", R"({"type": "object", "properties": {"k": {"type": "integer"}}, "anyOf": [{"required": ["k"]}, {"maxProperties": 5}]})",
    R"({"oneOf": [{"type": "object", "properties": {"t": {"const": "a"}, "x": {"type": "integer"}}, "required": ["t"]}, {"type": "object", "properties": {"t": {"const": "b"}}, "required": ["t"]}]})",
    R"({"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}, {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}]})",
    R"({"type": "object", "description": "a person", "properties": {"tags": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 1}, "weird \"name\"\n": {"type": "number"}}, "required": ["tags", "weird \"name\"\n"]})",
};

}  // namespace

TEST_CASE("whatever a grammar writes is valid under its schema") {
  std::mt19937 random(5);
  for (const char* text : kSchemas) {
    INFO(text);
    const Json schema = json(text);
    const JsonSchema judge(schema, "schema");
    Matcher matcher(schema_grammar(schema, "schema"), every_byte());
    for (int i = 0; i < 150; ++i) {
      const std::string answer = draw(matcher, random, matcher.shortest(matcher.start()) + i / 2);
      INFO(answer);
      REQUIRE(judge.problem(json(answer)) == "");
      REQUIRE(accepts(matcher, answer));
    }
  }
}

TEST_CASE("a grammar holds what one would write, and nothing beside it") {
  struct Case {
    const char* schema;
    std::vector<std::string> in, out;
  };
  const Case cases[] = {
      {R"({"type": "integer", "minimum": 5, "maximum": 120})", {"5", "9", "10", "99", "100", "120"}, {"4", "121", "05", "1e1", "-7", "", "5.0"}},
      {R"({"type": "integer", "minimum": -20, "maximum": 3})", {"-20", "-9", "-1", "0", "3"}, {"-21", "4", "-0", "-00"}},
      {R"({"type": "number", "minimum": 0, "maximum": 1})", {"0", "1", "0.5", "0.999999", "1.0"}, {"1.1", "-0.1", "00.5", ".5", "1."}},
      {R"({"type": "number"})", {"0", "-1", "3.25", "-0.5"}, {"1e5", "01", "--1", "+1"}},
      {R"({"type": "string", "maxLength": 2})", {R"("")", R"("ab")", R"("é\n")", R"("\u00e9")"}, {R"("abc")", R"("\ud800")", "\"\n\"", "\"\xff\"", R"("\x")"}},
      {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}, "required": ["b"]})",
       {R"({"b":null})", R"({"a": 1, "b": null})", R"({"a":1,"b":null})"}, {R"({"a":1})", R"({"b":null,})", R"({"b":null,"a":1})", R"({"b":null,"c":1})", R"({ "b":null})"}},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})", {"[true]", "[true, false]"}, {"[]", "[true,]", "[true,true,true]"}},
      {R"({"type": "string", "pattern": "^a.c$"})", {R"("abc")", R"("a\"c")", R"("a€c")"}, {R"("ac")", R"("abcd")", R"("a\nc")"}},
      {R"({"type": "string", "pattern": "[0-9]{3}"})", {R"("x123y")", R"("123")"}, {R"("12")"}},
      {R"({"properties": {"x": {"type": "integer"}, "y": {"enum": [{"a": 1}, {"a": "s"}], "properties": {"a": {"$ref": "#/properties/x"}}}}})",
       {R"({"y":{"a":1}})", R"({"x":2,"y":{"a":1}})"}, {R"({"y":{"a":"s"}})"}},
      {R"({"type": "object", "properties": {"ab": {"const": 1}}, "additionalProperties": {"const": 2}})", {R"({"ab":1,"a":2,"abc":2,"b":2,"":2})"}, {R"({"ab":2})", R"({"a":1})", R"({"\u0061b":2})"}},
  };
  for (const Case& one : cases) {
    Matcher matcher(schema_grammar(json(one.schema), "schema"), every_byte());
    for (const std::string& text : one.in) {
      INFO(one.schema << " and " << text);
      CHECK(accepts(matcher, text));
    }
    for (const std::string& text : one.out) {
      INFO(one.schema << " and " << text);
      CHECK(!accepts(matcher, text));
    }
  }
}

TEST_CASE("what a grammar cannot say is refused by its place") {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"properties": {"a": {"not": {"type": "null"}}}})", "#/properties/a: not"},
      {R"({"type": "array", "items": {"multipleOf": 3}})", "#/items: multipleOf"},
      {R"({"type": "array", "minItems": 9223372036854775808})", "minItems is 9223372036854775808, at most 4,096"},
      {R"({"type": "string", "maxLength": 18446744073709551615})", "maxLength is 18446744073709551615, at most 4,096"},
      {R"({"allOf": [{"prefixItems": [{"minimum": 3}]}], "items": {"minimum": 5}})", "#/allOf: items together with the prefixItems"},
      {R"({"anyOf": [false, false]})", "no alternative of anyOf is left"},
      {R"({"type": "array", "uniqueItems": true})", "uniqueItems"},
      {R"({"type": "string", "pattern": "(?=a)b"})", "a group of another kind"},
      {R"({"type": "string", "pattern": "(a?)*"})", "may be empty"},
      {R"({"type": "string", "pattern": "^a|b"})", "an anchor next to |"},
      {R"({"type": "string", "pattern": "a\\b"})", "\\b"},
      {R"({"type": "string", "pattern": "a", "maxLength": 3})", "pattern together with"},
      {R"({"oneOf": [{"type": "integer"}, {"minimum": 3}]})", "not visibly disjoint"},
      {R"({"allOf": [{"type": "integer"}, {"type": "string"}]})", "type is given twice"},
      {R"({"type": []})", "type is not a type of JSON"},
      {R"({"$ref": "#"})", "reference to itself"},
      {R"({"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1}}, "$ref": "#/$defs/a"})", "no value of finite length"},
      {R"({"type": "integer", "minimum": 3.2, "maximum": 3.8})", "no whole number"},
      {R"({"minProperties": 2})", "minProperties"},
      {R"({"format": "date"})", "format is not read"},
      {R"({"type": "object", "required": ["a"], "additionalProperties": false})", "a is required"},
      {R"(false)", "nothing is valid"},
  };
  for (const auto& [schema, said] : cases) {
    INFO(schema);
    try {
      schema_grammar(json(schema), "schema.json");
      FAIL_CHECK("was read");
    } catch (const Error& error) {
      INFO(error.what());
      CHECK(error.kind() == ErrorKind::usage);
      CHECK(std::string(error.what()).find(said) != std::string::npos);
      CHECK(std::string(error.what()).find("schema.json: ") == 0);
    }
  }
}

TEST_CASE("a grammar is the same behind a pipe") {
  const Grammar grammar = schema_grammar(json(R"({"type": "array", "items": {"type": "integer", "minimum": 3, "maximum": 12}})"), "schema");
  Matcher matcher(grammar_from_json(parse_json(dump_json(to_json(grammar)), "test", ErrorKind::data)), every_byte());
  CHECK(accepts(matcher, "[3, 12]"));
  CHECK(!accepts(matcher, "[13]"));
  CHECK_THROWS_AS(grammar_from_json(json(R"({"root": 0, "rules": [[[7]]]})")), Error);
}
