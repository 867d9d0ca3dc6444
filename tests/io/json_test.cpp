#include <cmath>
#include <limits>

#include "core/lib/io/json.h"
#include "core/lib/io/python_json.h"

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
  CHECK_THAT(problem("[1e400]"), Catch::Contains("the number 1e400 does not fit 64 bits"));
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
  Json config = parse_python_json(text, "a.json", ErrorKind::data);
  CHECK(config["model_max_length"].get<double>() == 1e30);
}

TEST_CASE("numbers past 64 bits are written as Python wrote them") {
  const std::string text =
      R"({"model_max_length":1000000000000000019884624838656,"least":-18446744073709551616,"near":9007199254740993,)"
      R"("rate":1e+18,"half":0.5,"text":"wide:5","list":[36893488147419103232,[18446744073709551615]]})";
  CHECK(dump_python_json(parse_python_json(text, "a.json")) ==
        R"({"model_max_length":1000000000000000019884624838656,"least":-18446744073709551616,"near":9007199254740993,)"
        R"("rate":1e+18,"half":0.5,"text":"wide:5","list":[36893488147419103232,[18446744073709551615]]})");
  CHECK(dump_python_json(Json{{"a", 1e30}}, 2) == "{\n  \"a\": 1000000000000000019884624838656\n}");
}

TEST_CASE("numbers that are not finite are written as Python wrote them") {
  const std::string text = R"({"limit":[0.0,Infinity],"none":null,"low":-Infinity,"nan":NaN,"said":"null, NaN \"Infinity\"","last":null})";
  const Json config = parse_python_json(text, "a.json");
  CHECK(config["limit"][1].get<double>() == std::numeric_limits<double>::infinity());
  CHECK(config["none"].is_null());
  CHECK(std::isnan(config["nan"].get<double>()));
  CHECK(dump_python_json(config) == text);
}

TEST_CASE("a document nested too deeply is refused before it costs anything") {
  CHECK_THAT(problem(std::string(1'000'000, '[')), Catch::Contains("nested deeper than 64 levels"));
}
