#include "core/lib/schema/json_schema.h"

#include "core/lib/base/text.h"
#include "tests/reward/samples.h"
#include "tests/test.h"

using namespace forge;

namespace {

JsonSchema schema_of(const std::string& text) {
  return JsonSchema(parse_json(text, "schema", ErrorKind::job), "rewards[0].schema");
}
std::string problem(const std::string& schema, const std::string& value) {
  return schema_of(schema).problem(parse_json(value, "value", ErrorKind::data));
}
std::string refusal(const std::string& schema) {
  return error_of([&] { schema_of(schema); });
}

}  // namespace

// The results of python's jsonschema 4.26 (draft 2020-12) for the same pairs:
// goldens/json_schema.json, made by make_goldens.py.
TEST_CASE("schemas and values judged as jsonschema judges them") {
  std::ifstream file(std::string(FORGE_SOURCE_DIR) + "/tests/reward/goldens/json_schema.json");
  const Json cases = Json::parse(file);
  CHECK(cases.size() > 60);
  for (const Json& one : cases) {
    INFO(one.dump());
    CHECK(JsonSchema(one["schema"], "k").problem(one["value"]).empty() == one["valid"].get<bool>());
  }
}

TEST_CASE("multiples are those of the numbers as they are written") {
  const auto is_multiple = [](const char* value, const char* of) {
    return problem(std::string(R"({"multipleOf": )") + of + "}", value).empty();
  };
  CHECK(is_multiple("9007199254740994", "2"));
  CHECK_FALSE(is_multiple("9007199254740993", "2"));
  CHECK_FALSE(is_multiple("1000000000.5", "1"));
  CHECK_FALSE(is_multiple("1e308", "0.123456789"));
  CHECK(is_multiple("1e308", "0.5"));
  CHECK(is_multiple("1000000000.1", "0.1"));
  CHECK(is_multiple("0.0075", "0.0001"));
  CHECK_FALSE(is_multiple("0.00751", "0.0001"));
  CHECK(is_multiple("-21", "7"));
  CHECK(is_multiple("0", "0.7"));
  CHECK(is_multiple("1.5e3", "500"));
  CHECK(is_multiple("12391239123", "1e-8"));
  CHECK(is_multiple("18446744073709551615", "5"));
  CHECK_FALSE(is_multiple("12", "1e2"));
}

TEST_CASE("the problem says where and what") {
  const std::string schema =
      R"({"type": "object", "required": ["a"], "properties": {"a": {"type": "array", "items": {"type": "integer"}}}})";
  CHECK(problem(schema, R"({"a": [1, 2]})") == "");
  CHECK(problem(schema, R"({"b": 1})") == "it has no a");
  CHECK(problem(schema, R"({"a": [1, "2"]})") == "/a/1 is string, expected integer");
}

TEST_CASE("a keyword that would be ignored is refused") {
  CHECK(refusal(R"({"format": "date"})") == "rewards[0].schema: /format is not read by this version");
  CHECK(
      refusal(R"({"properties": {"a": {"maxlength": 3}}})") ==
      "rewards[0].schema: /properties/a/maxlength is not read by this version (did you mean \"maxLength\"?)");
  CHECK(refusal(R"({"$schema": "http://localhost/own.json", "minimum": 3})").find("/$schema") != std::string::npos);
  CHECK(refusal(R"({"$schema": "http://json-schema.org/draft-07/schema#"})") == "no error");
  CHECK(refusal(R"({"type": "text"})") == "rewards[0].schema: /type is not a type of JSON");
  CHECK(refusal(R"({"type": []})") == "rewards[0].schema: /type is not a type of JSON");
  CHECK(refusal(R"({"$ref": "other.json"})") == "rewards[0].schema: /$ref is not in the same file");
  CHECK(refusal(R"({"$ref": "#/$defs/a"})") == "rewards[0].schema: /$ref points to nothing: #/$defs/a");
  CHECK(starts_with(refusal(R"({"pattern": "("})"), "rewards[0].schema: \"(\" is not a regular expression"));
  CHECK(refusal("[]") == "rewards[0].schema: the schema is array, expected a schema");
}

TEST_CASE("schemas that never end are given up") {
  CHECK(starts_with(error_of([] { problem(R"({"$ref": "#"})", "1"); }),
                    "the JSON Schema needs too many steps"));
  const std::string wide =
      R"({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}})";
  CHECK(starts_with(error_of([&] { problem(wide, "1"); }), "the JSON Schema needs too many steps"));
  std::string values = "[0";
  for (int i = 1; i < 5000; ++i) values += "," + std::to_string(i);
  CHECK(starts_with(error_of([&] { problem(R"({"uniqueItems": true})", values + "]"); }),
                    "the JSON Schema needs"));
}

TEST_CASE("a reference into what is no schema is read as one") {
  const auto refused = [](const char* schema) {
    return error_of([&] { JsonSchema(Json::parse(schema), "rewards[0].schema"); });
  };
  CHECK_THAT(refused(R"({"examples": [{"type": 3}], "$ref": "#/examples/0"})"), Catch::Contains("#/examples/0/type is not a type of JSON"));
  CHECK_THAT(refused(R"({"default": {"minLength": "x"}, "items": {"$ref": "#/default"}})"), Catch::Contains("is not a count"));
  CHECK_THAT(refused(R"({"const": {"required": 1}, "not": {"$ref": "#/const"}})"), Catch::Contains("is not a list of names"));
  CHECK_THAT(refused(R"({"enum": [7], "$ref": "#/enum/0"})"), Catch::Contains("expected a schema"));
  CHECK_THAT(refused(R"({"default": {"$ref": "#/examples"}, "examples": {"pattern": 3}, "$ref": "#/default"})"), Catch::Contains("#/examples/pattern"));
  CHECK(JsonSchema(Json::parse(R"({"examples": [{"type": "null"}], "$ref": "#/examples/0"})"), "k").problem(nullptr).empty());
}

TEST_CASE("JSON is found whole, in the last fence, or last in the text") {
  TemporaryFolder folder;
  RewardConfig reward = reward_of(RewardType::json_schema);
  reward.find<JsonSchemaReward>()->schema = folder.write("schema.json", R"({"type": "object", "required": ["a"]})");
  const auto score = [&](JsonWhere where, const std::string& text) {
    reward.find<JsonSchemaReward>()->where = where;
    return *make_verifier(reward, "rewards[0]")(sample_of(text)).value;
  };
  CHECK(score(JsonWhere::whole, " {\"a\": 1}\n") == 1);
  CHECK(score(JsonWhere::whole, "so {\"a\": 1}") == 0);
  CHECK(score(JsonWhere::whole, "{\"a\": 1, \"a\": 2}") == 0);
  CHECK(score(JsonWhere::whole, "{\"a\": 123456789012345678901234567890}") == 1);
  CHECK(score(JsonWhere::fenced, "```json\n{\"b\": 1}\n```\n```\n{\"a\": 1}\n```\n") == 1);
  CHECK(score(JsonWhere::fenced, "```json\n{\"a\": 1}\n```\n```python\n{}\n```") == 1);
  CHECK(score(JsonWhere::fenced, "{\"a\": 1}") == 0);
  CHECK(score(JsonWhere::last, "first {\"b\": 1}, then {\"a\": \"}{\"} and [text] {") == 1);
  CHECK(score(JsonWhere::last, "none") == 0);
  reward.find<PartlyScored>()->partial = 0.5;
  CHECK(score(JsonWhere::whole, "{}") == 0.5);
  CHECK(score(JsonWhere::whole, "{") == 0);
  reward.find<JsonSchemaReward>()->where = JsonWhere::last;
  const Score hostile = make_verifier(reward, "rewards[0]")(sample_of(std::string(1 << 20, '[')));
  CHECK_FALSE(hostile.value);
  CHECK(hostile.reason == "finding the JSON in the completion takes too many steps");
  reward.find<JsonSchemaReward>()->schema = folder.path("missing.json");
  CHECK(starts_with(error_of([&] { make_verifier(reward, "rewards[0]"); }),
                    "rewards[0].schema: " + folder.path("missing.json")));
}
