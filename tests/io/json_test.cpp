#include "core/io/json.h"

#include "tests/test.h"

using namespace forge;

namespace {
std::string problem(const std::string& text) {
  return error_of([&] { parse_json(text, "a.json", ErrorKind::data); });
}
}  // namespace

TEST_CASE("JSON keeps the order of keys and reads numbers exactly") {
  Json value = parse_json(R"({"b": 1, "a": [true, null, -3, 0.1, "é"], "c": {}})", "a", ErrorKind::data);
  CHECK(dump_json(value) == R"({"b":1,"a":[true,null,-3,0.1,"é"],"c":{}})");
  CHECK(value["a"].size() == 5);
}

TEST_CASE("JSON that nlohmann accepts silently is refused with its place") {
  CHECK(problem("{\"a\": 1,\n \"a\": 2}") == "a.json:2:4: the key \"a\" appears twice in one object");
  CHECK_THAT(problem("[18446744073709551616]"), Catch::Contains("does not fit 64 bits"));
  CHECK_THAT(problem("[1] [2]"), Catch::StartsWith("a.json:1:5: "));
  CHECK_THAT(problem("{\"a\": \xFF}"), Catch::StartsWith("a.json:1:7: not valid UTF-8"));
  CHECK_THAT(problem("{\"a\": nul}"), Catch::StartsWith("a.json:1:"));
  CHECK(problem("  ") == "a.json:1:1: empty, expected JSON");
  CHECK(problem(std::string("{}\n\0{", 5)) == "a.json:2:1: a NUL byte, expected text");
  CHECK_THAT(problem("[1, 2"), Catch::Contains("a.json:1:"));
}

TEST_CASE("the length that transformers writes into tokenizer_config.json is read") {
  std::string text = R"({"model_max_length": 1000000000000000019884624838656})";
  CHECK_THAT(problem(text), Catch::Contains("does not fit 64 bits"));
  Json config = parse_json(text, "a.json", ErrorKind::data, kTokenizerConfigLimits);
  CHECK(config["model_max_length"].get<double>() == 1e30);
}

TEST_CASE("a document nested too deeply is refused before it costs anything") {
  CHECK_THAT(problem(std::string(1'000'000, '[')), Catch::Contains("nested deeper than 64 levels"));
}
