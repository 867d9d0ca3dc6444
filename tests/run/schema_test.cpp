#include "core/lib/base/file.h"
#include "core/run/event_fields.h"
#include "core/run/report.h"
#include "core/run/request_fields.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string committed(const std::string& name) {
  return read_file(FORGE_SOURCE_DIR "/" + name, 1 << 20, ErrorKind::environment);
}

}  // namespace

// The files are renewed with: forge schema event > schemas/event.schema.json; forge schema report >
// schemas/report.schema.json
TEST_CASE("The committed schemas are those of the tables") {
  CHECK(committed("schemas/event.schema.json") == event_schema().dump(2) + "\n");
  CHECK(committed("schemas/report.schema.json") == report_schema().dump(2) + "\n");
}

// The file is renewed with: forge schema event --docs > docs/engine-protocol.md
TEST_CASE("docs/engine-protocol.md is what the tables say") {
  CHECK(committed("docs/engine-protocol.md") == protocol_markdown());
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

TEST_CASE("A request holds the fields of its command, and no other") {
  CHECK(request_faults({{"command", "info"}}).empty());
  CHECK(request_faults({{"command", "rates"}, {"precisions", {"fp32"}}, {"threads", 2}, {"seconds", nullptr}})
            .empty());
  CHECK(request_faults({{"command", "rates"}, {"threads", "2"}, {"rows", 1}}) ==
        std::vector<std::string>{"rates: precisions is missing", "rates: threads is not a whole number",
                                 "rates: unknown field rows"});
  CHECK(request_faults({{"command", "fly"}}) == std::vector<std::string>{"unknown command \"fly\""});
  CHECK(request_faults(Json::array()).size() == 1);
}
