// forge init: writes a job file to start from.
#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "core/job/emit.h"
#include "core/lib/base/file.h"
#include "core/lib/base/installation.h"
#include "core/lib/base/text.h"
#include "core/lib/base/user_file.h"

namespace forge::init_command {
namespace {

namespace fs = std::filesystem;

// Returns the path of job.schema.json (installed, or in the source tree) relative to `folder`;
// empty if there is none.
std::string schema_from(const fs::path& folder) {
  for (const char* home : {"../share/forge/schemas", "../../schemas"}) {
    const fs::path schema = (fs::path(program_folder()) / home / "job.schema.json").lexically_normal();
    if (!file_exists(schema.string())) continue;
    return schema.lexically_relative(fs::absolute(folder).lexically_normal()).string();
  }
  return "";
}

constexpr Option kOptions[] = {
    {"--objective", "NAME", "objective of the job (default sft; see forge list objectives)"},
};

std::string objective_of(const Arguments& args) {
  const std::string name = args.text("--objective").value_or("sft");
  const std::vector<std::string> known = objective_names();
  if (std::find(known.begin(), known.end(), name) == known.end())
    throw Error(ErrorKind::usage, "--objective " + name + ": expected " + join(known, ", ") + did_you_mean(name, known));
  return name;
}

std::string starter(const std::string& path, const std::string& objective) {
  const fs::path folder = path == "-" ? fs::path() : fs::path(path).parent_path();
  const std::string schema = schema_from(folder.empty() ? "." : folder);
  return ends_with(lower(path), ".json") ? starter_job_json(schema, objective) : starter_job(schema, objective);
}

int run(const Arguments& args) {
  std::string path = args.operands().empty() ? "job.yaml" : args.operands()[0];
  const std::string objective = objective_of(args);
  if (path == "-") {
    print(starter(path, objective));
    return 0;
  }
  if (file_exists(path) || is_directory(path))
    throw Error(ErrorKind::usage, path + ": exists already").hint("name another file, or - for stdout");
  const std::string folder = fs::path(path).parent_path().string();
  if (!folder.empty() && !is_directory(folder))
    throw Error(ErrorKind::environment, path + ": the folder " + folder + " does not exist")
        .hint("create it first, or name a file in another one");
  write_user_file(path, starter(path, objective));
  if (!args.quiet()) say("wrote " + path + "; set model.path and data.train, then: forge validate " + path);
  if (args.json()) print_json({{"wrote", path}});
  return 0;
}

}  // namespace

constexpr Command kCommand{
    "init", "[FILE]", 0, 1, "write a starter job file (default job.yaml)", kOptions, run};

}  // namespace forge::init_command
