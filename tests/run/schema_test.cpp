#include "core/base/file.h"
#include "core/run/event_fields.h"
#include "core/run/report.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string committed(const std::string& name) {
  return read_file(FORGE_SOURCE_DIR "/schemas/" + name, 1 << 20, ErrorKind::environment);
}

}  // namespace

// To renew: forge schema event > schemas/event.schema.json; forge schema report > schemas/report.schema.json
TEST_CASE("The committed schemas are those of the tables") {
  CHECK(committed("event.schema.json") == event_schema().dump(2) + "\n");
  CHECK(committed("report.schema.json") == report_schema().dump(2) + "\n");
}

TEST_CASE("A report holds every required field of its schema, and no other") {
  Json report = make_report(Json::object(), {}, {});
  Json schema = report_schema();
  for (const Json& name : schema["required"]) CHECK(report.contains(name.get<std::string>()));
  for (const auto& [name, value] : report.items()) {
    INFO(name);
    CHECK(schema["properties"].contains(name));
  }
}

TEST_CASE("Faulty events are named") {
  CHECK(event_faults({{"event", "eval"}, {"eval_loss", 1.5}}).empty());
  CHECK(event_faults({{"event", "eval"}}) == std::vector<std::string>{"eval: eval_loss is missing"});
  CHECK(event_faults({{"event", "eval"}, {"eval_loss", "1"}}) ==
        std::vector<std::string>{"eval: eval_loss is not a number or null"});
  CHECK(event_faults({{"event", "evil"}}) == std::vector<std::string>{"unknown event \"evil\""});
  CHECK(event_faults(Json::array()).size() == 1);
}
