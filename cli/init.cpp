// forge init: a job file to start from.
#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "core/base/file.h"
#include "core/config/emit.h"

namespace forge {
namespace {

int run(const Arguments& args) {
  std::string path = args.operands().empty() ? "job.yaml" : args.operands()[0];
  if (path == "-") {
    print(starter_job());
    return 0;
  }
  if (file_exists(path) || is_directory(path))
    throw Error(ErrorKind::usage, path + ": exists already").hint("name another file, or - for stdout");
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty() && !is_directory(folder))
    throw Error(ErrorKind::environment, path + ": the folder " + folder + " does not exist")
        .hint("create it first, or name a file in another one");
  write_file_durably(path, starter_job());
  if (!args.quiet()) say("wrote " + path + "; set model.path and data.train, then: forge validate " + path);
  if (args.json()) print_json({{"wrote", path}});
  return 0;
}

}  // namespace

extern const Command kInitCommand;
constexpr Command kInitCommand{"init", "[FILE]", 0, 1, "write a job file to start from (default job.yaml)",
                               {},     run};

}  // namespace forge
