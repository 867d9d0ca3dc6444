// forge adapter check: checks that an adapter folder is whole and fits its model, and says what
// loads it.
#include "cli/command.h"
#include "cli/console.h"
#include "cli/model_choice.h"
#include "core/lib/base/file.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"
#include "core/model/families/adapter_folder.h"
#include "core/model/families/described_family.h"
#include "core/run/export/adapter_check.h"

namespace forge::adapter_command {
namespace {

constexpr Option kOptions[] = {
    {"--model", "PATH",
     "base model: a path, or org/name in the hub's cache (default: the model named in "
     "adapter_config.json)"},
};

// Returns the base model with the family file that lies beside the adapter.
ModelConfig base_at(const std::string& path, const std::string& folder) {
  const std::string family = folder + "/" + kFamilyFile;
  return {.path = path, .family = file_exists(family) ? std::optional(family) : std::nullopt};
}

// Returns the base model given on the command line, or else the one that the adapter names, if it
// is on this machine.
std::optional<ModelSpec> base_of(const Arguments& args, const std::string& folder) {
  if (std::optional<std::string> model = args.text("--model")) return read_model_spec(base_at(model_path(*model), folder));
  try {
    if (const std::string base = base_model_of(folder); !base.empty()) return read_model_spec(base_at(model_path(base), folder));
  } catch (const Error&) {  // the check below reports what is wrong with the folder
  }
  return std::nullopt;
}

std::string text_of(const std::string& folder, const AdapterCheck& check) {
  std::string text = folder + ": " + format_count(check.tensors) + " tensors, " + format_count(check.parameters) +
                     " parameters, " + format_count(check.modules) + " modules of rank " + std::to_string(check.least_rank) +
                     (check.most_rank > check.least_rank ? " to " + std::to_string(check.most_rank) : "") + "\n";
  for (const std::string& fault : check.faults) text += "fault: " + fault + "\n";
  for (const std::string& warning : check.warnings) text += "warning: " + warning + "\n";
  std::vector<std::vector<std::string>> rows;
  for (const Loader& loader : check.loaders)
    rows.push_back({"loads in " + loader.program, loader.refusal.empty() ? "yes" : "no: " + loader.refusal});
  return text + format_table(rows);
}

int run(const Arguments& args) {
  if (args.operands()[0] != "check")
    throw Error(ErrorKind::usage, "forge adapter " + args.operands()[0] + ": expected check").hint("forge adapter check DIR");
  const std::string folder = adapter_path(args.operands()[1]);
  if (!is_directory(folder))
    throw Error(ErrorKind::environment, args.operands()[1] + ": no such folder, expected an adapter folder, or a run")
        .hint(near_path_hint(args.operands()[1], "a run's adapter is RUN/adapter, a checkpoint CHECKPOINT"));
  const AdapterCheck check = check_adapter(folder, base_of(args, folder));
  args.json() ? print_json(to_json(check)) : print_text(text_of(folder, check));
  return check.faults.empty() ? 0 : exit_code(ErrorKind::environment);
}

}  // namespace

constexpr Command kCommand{
    "adapter", "check DIR", 2, 2,
    "check an adapter for completeness, and list programs that load it",
    kOptions, run};

}  // namespace forge::adapter_command
