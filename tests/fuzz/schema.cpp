// Fuzzes JSON Schemas: each is read for a reward, tried on values, and turned into the grammar of
// an answer.
#include "core/lib/schema/json_schema.h"
#include "core/lib/schema/schema_grammar.h"
#include "tests/fuzz/target.h"

using namespace forge;

namespace {

const Json& values() {
  static const Json all = Json::parse(
      R"([null, true, 0, -3, 2.5, 1e300, "", "2024-01-02", [], [1, 1], {}, {"name": "a", "age": 3, "tags": ["x"]}])");
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_or_refuse([&] {
    const Json schema = parse_json(text_of(data, size), "schema", ErrorKind::job);
    const JsonSchema reader(schema, "rewards[0].schema");
    for (const Json& value : values()) read_or_refuse([&] { reader.problem(value); });
    schema_grammar(schema, "schema");
  });
  return 0;
}
