// forge init: a job file to start from.
#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/engine_process.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/emit.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

// Path of job.schema.json (installed, or in the source tree) relative to `folder`; empty if there is none.
std::string schema_from(const fs::path& folder) {
  for (const char* home : {"../share/forge/schemas", "../../schemas"}) {
    const fs::path schema = (fs::path(program_folder()) / home / "job.schema.json").lexically_normal();
    if (!file_exists(schema.string())) continue;
    const fs::path relative = schema.lexically_relative(fs::absolute(folder).lexically_normal());
    const bool beside = relative.begin() != relative.end() && *relative.begin() != "..";
    return (beside ? relative : schema).string();
  }
  return "";
}

std::string starter(const std::string& path) {
  const fs::path folder = path == "-" ? fs::path() : fs::path(path).parent_path();
  const std::string schema = schema_from(folder.empty() ? "." : folder);
  return ends_with(lower(path), ".json") ? starter_job_json(schema) : starter_job(schema);
}

int run(const Arguments& args) {
  std::string path = args.operands().empty() ? "job.yaml" : args.operands()[0];
  if (path == "-") {
    print(starter(path));
    return 0;
  }
  if (file_exists(path) || is_directory(path))
    throw Error(ErrorKind::usage, path + ": exists already").hint("name another file, or - for stdout");
  const std::string folder = fs::path(path).parent_path().string();
  if (!folder.empty() && !is_directory(folder))
    throw Error(ErrorKind::environment, path + ": the folder " + folder + " does not exist")
        .hint("create it first, or name a file in another one");
  write_file_durably(path, starter(path));
  if (!args.quiet()) say("wrote " + path + "; set model.path and data.train, then: forge validate " + path);
  if (args.json()) print_json({{"wrote", path}});
  return 0;
}

}  // namespace

extern const Command kInitCommand;
constexpr Command kInitCommand{"init", "[FILE]", 0, 1, "write a job file to start from (default job.yaml)",
                               {},     run};

}  // namespace forge
