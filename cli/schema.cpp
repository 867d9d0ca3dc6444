// forge schema: prints the JSON Schemas of what forge reads and writes, and their manuals.
#include "cli/command.h"
#include "cli/console.h"
#include "core/job/emit.h"
#include "core/lib/base/text.h"
#include "core/plan/plan.h"
#include "core/run/event_fields.h"
#include "core/run/request_fields.h"

namespace forge::schema_command {
namespace {

constexpr Option kOptions[] = {
    {"--docs", "", "print the manual instead: docs/job.md, or for event docs/engine-protocol.md"},
};

// Returns a schema as text.
template <Json (*kMake)()>
std::string text_of() {
  return kMake().dump(2) + "\n";
}

struct SchemaRow {
  const char* name;
  std::string (*make)();
  std::string (*make_docs)() = nullptr;
};
constexpr SchemaRow kSchemas[] = {
    {"job", job_schema_json, job_reference_markdown},
    {"plan", text_of<plan_schema>},
    {"event", text_of<event_schema>, protocol_markdown},
    {"report", text_of<report_schema>},
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

constexpr Command kCommand{
    "schema", "[job|plan|event|report]", 0, 1,
    "print the JSON Schemas of forge's files and events",
    kOptions, run};

}  // namespace forge::schema_command
