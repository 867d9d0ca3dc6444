#include "cli/commands.h"

#include <fmt/format.h>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "forge_build.h"

namespace forge {

// Each in the file of its name.
extern const Command kRunCommand, kValidateCommand, kPlanCommand, kProfileCommand, kBenchCommand,
    kDataCommand, kEvalCommand, kGenerateCommand, kChatCommand, kInitCommand, kListCommand, kSchemaCommand,
    kDoctorCommand;

namespace {

// In the order of help. Pointers, so that nothing depends on the order in which files are initialised.
constexpr const Command* kCommands[] = {
    &kRunCommand,  &kValidateCommand, &kPlanCommand,     &kProfileCommand, &kBenchCommand,
    &kDataCommand, &kEvalCommand,     &kGenerateCommand, &kChatCommand,    &kInitCommand,
    &kListCommand, &kSchemaCommand,   &kDoctorCommand,
};

constexpr const char* kExitCodes =
    R"(Exit codes:
    0  done
    2  usage: the command line
    3  the job is not valid, or another job has the same name
    4  the plan does not fit into memory
    5  environment: a model, tokenizer or adapter file, the engine, LibTorch, the disk
    6  data: a data file, a row, or a template on a row
    7  the loss is not finite
    8  a gate of the job was not met
   70  a bug in forge
   75  stopped on a signal with a checkpoint; run again to continue
  130  interrupted before a checkpoint could be written
)";

}  // namespace

std::span<const Command* const> commands() { return kCommands; }

const Command& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command* command : kCommands) {
    if (name == command->name) return *command;
    names.push_back(command->name);
  }
  throw Error(ErrorKind::usage, "unknown command \"" + name + "\"" + did_you_mean(name, names))
      .hint("see forge --help");
}

std::string overview() {
  std::vector<std::vector<std::string>> rows;
  for (const Command* command : kCommands)
    rows.push_back({std::string("  ") + command->name, command->operands, command->summary});
  return fmt::format(
      "forge {}: fine-tunes language models from one declarative file\n\n"
      "Usage: forge COMMAND [options]\n\n"
      "{}\n"
      "forge COMMAND --help lists its options. Every command takes --json and --quiet; NO_COLOR is "
      "honoured.\n\n"
      "{}",
      kForgeVersion, format_table(rows), kExitCodes);
}

}  // namespace forge
