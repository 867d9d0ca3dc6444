// forge schema: the JSON Schemas of what forge reads and writes, and the manual of the job file.
#include "cli/command.h"
#include "cli/console.h"
#include "core/base/text.h"
#include "core/config/emit.h"
#include "core/plan/plan.h"
#include "core/run/event_fields.h"

namespace forge {
namespace {

constexpr Option kOptions[] = {
    {"--docs", "", "the manual of job files (docs/job.md) instead"},
};

std::string plan_schema_json() { return plan_schema().dump(2) + "\n"; }
std::string event_schema_json() { return event_schema().dump(2) + "\n"; }
std::string report_schema_json() { return report_schema().dump(2) + "\n"; }

struct SchemaRow {
  const char* name;
  std::string (*make)();
};
constexpr SchemaRow kSchemas[] = {
    {"job", job_schema_json},
    {"plan", plan_schema_json},
    {"event", event_schema_json},
    {"report", report_schema_json},
};

int run(const Arguments& args) {
  if (args.has("--docs")) {
    print(job_reference_markdown());
    return 0;
  }
  std::string name = args.operands().empty() ? "job" : args.operands()[0];
  std::vector<std::string> names;
  for (const SchemaRow& row : kSchemas) {
    names.push_back(row.name);
    if (name != row.name) continue;
    print(row.make());
    return 0;
  }
  throw Error(ErrorKind::usage, "unknown schema \"" + name + "\"" + did_you_mean(name, names))
      .hint("there are " + join(names, ", "));
}

}  // namespace

extern const Command kSchemaCommand;
constexpr Command kSchemaCommand{
    "schema", "[job|plan|event|report]", 0, 1, "JSON Schemas of what forge reads and writes", kOptions, run};

}  // namespace forge
