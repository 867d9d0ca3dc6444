// forge schema: prints the JSON Schemas of what forge reads and writes, and their manuals.
#include "cli/command.h"
#include "cli/console.h"
#include "core/job/emit.h"
#include "core/lib/base/text.h"
#include "core/plan/plan.h"
#include "core/run/event_fields.h"
#include "core/run/request_fields.h"

namespace forge {
namespace {

constexpr Option kOptions[] = {
    {"--docs", "", "print the manual instead: docs/job.md, or for event docs/engine-protocol.md"},
};

std::string plan_schema_json() { return plan_schema().dump(2) + "\n"; }
std::string event_schema_json() { return event_schema().dump(2) + "\n"; }
std::string report_schema_json() { return report_schema().dump(2) + "\n"; }

struct SchemaRow {
  const char* name;
  std::string (*make)();
  std::string (*make_docs)() = nullptr;
};
constexpr SchemaRow kSchemas[] = {
    {"job", job_schema_json, job_reference_markdown},
    {"plan", plan_schema_json},
    {"event", event_schema_json, protocol_markdown},
    {"report", report_schema_json},
};

int run(const Arguments& args) {
  std::string name = args.operands().empty() ? "job" : args.operands()[0];
  std::vector<std::string> names;
  for (const SchemaRow& row : kSchemas) {
    names.push_back(row.name);
    if (name != row.name) continue;
    if (args.has("--docs") && !row.make_docs)
      throw Error(ErrorKind::usage, "there is no manual for " + name).hint("--docs is for job and event");
    print(args.has("--docs") ? row.make_docs() : row.make());
    return 0;
  }
  throw Error(ErrorKind::usage, "unknown schema \"" + name + "\"" + did_you_mean(name, names))
      .hint("there are " + join(names, ", "));
}

}  // namespace

extern const Command kSchemaCommand;
constexpr Command kSchemaCommand{
    "schema", "[job|plan|event|report]", 0, 1,
    "print the JSON Schemas of forge's files and events",
    kOptions, run};

}  // namespace forge
