// JSON Schema's own test suite (draft 2020-12) against the validator and the grammars. The suite is
// not part of this repository:
//
//   FORGE_JSON_SCHEMA_SUITE=JSON-Schema-Test-Suite/tests/draft2020-12 constrain_test "[suite]"
//
// A schema is refused, with a keyword that it has, or read. If it is read, the validator must agree
// with the suite on every value, and the grammar must hold no invalid one. Valid values that the
// grammar does not hold (the order of members, blanks, properties without a name: schema_grammar.h)
// are counted.
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <random>
#include <set>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/schema/json_schema.h"
#include "core/lib/schema/schema_grammar.h"
#include "core/lib/text/grammar/matcher.h"
#include "tests/constrain/grammar_texts.h"
#include "tests/test.h"

using namespace forge;

namespace {

struct Count {
  int schemas = 0, validated = 0, written = 0;  // of the suite; read by the validator; made a grammar
  int valid = 0, held = 0, invalid = 0;         // values of those that made a grammar
};

// Returns why a schema was refused; empty if it was read.
template <class Read>
std::string refusal(Read read) {
  try {
    read();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// True if a refusal names the part of the schema that caused it.
bool names_its_cause(const std::string& said, const Json& schema) {
  if (!schema.is_object()) return said.find("false") != std::string::npos;
  const Json flat = schema.flatten();
  for (const auto& item : flat.items())
    for (const std::string& word : split(item.key(), '/'))
      if (!word.empty() && said.find(word) != std::string::npos) return true;
  return false;
}

void check_group(const Json& group, Count& count) {
  const Json& schema = group.at("schema");
  ++count.schemas;
  std::optional<JsonSchema> validator;
  if (const std::string said = refusal([&] { validator.emplace(schema, "schema"); }); !said.empty()) {
    INFO(said);
    CHECK(names_its_cause(said, schema));
    return;
  }
  ++count.validated;
  for (const Json& test : group.at("tests")) {
    INFO(dump_json(test));
    CHECK(validator->problem(test.at("data")).empty() == test.at("valid").get<bool>());
  }
  std::optional<Matcher> matcher;
  if (const std::string said = refusal([&] { matcher.emplace(schema_grammar(schema, "schema"), every_byte()); }); !said.empty()) {
    INFO(said);
    CHECK((names_its_cause(said, schema) || said.find("is valid under false") != std::string::npos));
    return;
  }
  ++count.written;
  for (const Json& test : group.at("tests")) {
    INFO(dump_json(test));
    const bool holds = accepts(*matcher, dump_json(test.at("data")));
    const bool valid = test.at("valid").get<bool>();
    (valid ? count.valid : count.invalid) += 1;
    count.held += valid && holds;
    CHECK((valid || !holds));
  }
  std::mt19937 random(7);
  for (int i = 0; i < 30; ++i) {
    const std::string text = draw(*matcher, random, 60 + matcher->shortest(matcher->start()));
    INFO(text);
    CHECK(validator->problem(parse_json(text, "drawn", ErrorKind::data)).empty());
  }
}

}  // namespace

TEST_CASE("JSON Schema's own test suite", "[.suite]") {
  const char* folder = std::getenv("FORGE_JSON_SCHEMA_SUITE");
  if (!folder) FAIL("FORGE_JSON_SCHEMA_SUITE must name the suite's folder draft2020-12");
  std::set<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".json") files.insert(file.path().string());
  REQUIRE(files.size() > 10);
  Count all;
  std::cout << "| file | schemas | validated | constrained | valid values held by the grammar |\n|---|---|---|---|---|\n";
  for (const std::string& file : files) {
    Count count;
    for (const Json& group : parse_json(read_file(file, 1 << 24, ErrorKind::data), file, ErrorKind::data)) {
      INFO(file << ": " << group.at("description").get<std::string>() << "\n" << dump_json(group.at("schema")));
      check_group(group, count);
    }
    std::cout << "| " << std::filesystem::path(file).stem().string() << " | " << count.schemas << " | " << count.validated << " | " << count.written
              << " | " << count.held << " of " << count.valid << " |\n";
    all.schemas += count.schemas, all.validated += count.validated, all.written += count.written;
    all.valid += count.valid, all.held += count.held, all.invalid += count.invalid;
  }
  std::cout << "| all | " << all.schemas << " | " << all.validated << " | " << all.written << " | " << all.held << " of " << all.valid << " |\n"
            << "none of " << all.invalid << " invalid values may be in a grammar\n";
  CHECK(all.written > 0);
}
