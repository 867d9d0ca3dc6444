#include <algorithm>

#include "cli/command.h"
#include "core/lib/base/format.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "forge_build.h"

namespace forge {
namespace {

// The commands in the order that --help shows. Pointers, so that nothing depends on initialisation
// order across files.
constexpr const Command* kCommands[] = {
    &run_command::kCommand,  &validate_command::kCommand, &plan_command::kCommand,     &profile_command::kCommand, &bench_command::kCommand,
    &data_command::kCommand, &score_command::kCommand,    &eval_command::kCommand,     &generate_command::kCommand, &chat_command::kCommand,
    &rollouts_command::kCommand, &merge_command::kCommand, &export_command::kCommand, &adapter_command::kCommand, &family_command::kCommand, &fetch_command::kCommand, &init_command::kCommand,
    &list_command::kCommand, &schema_command::kCommand, &doctor_command::kCommand,
};

constexpr const char* kExitCodes =
    R"(Exit codes:
    0  success
    2  usage error on the command line
    3  invalid job, or another job with the same name
    4  the plan does not fit into memory
    5  environment: a model, tokenizer or adapter file, the engine, LibTorch or the disk
    6  data: a data file, a row, or a template applied to a row
    7  the loss is not finite
    8  a gate of the job failed
   70  a bug in forge
   75  stopped on a signal with a checkpoint; run again to continue
  130  interrupted before a checkpoint could be written
  141  stdout was closed (broken pipe); forge run continues without it
)";

// Other tools' names for commands of forge.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"train", "run"},         {"finetune", "run"},       {"fine-tune", "run"},    {"fit", "run"},
    {"sft", "run"},           {"start", "run"},          {"resume", "run"},       {"continue", "run"},
    {"check", "validate"},    {"lint", "validate"},      {"verify", "validate"},  {"estimate", "plan"},
    {"explain", "plan"},      {"dry-run", "plan"},       {"memory", "plan"},      {"preprocess", "data"},
    {"prepare", "data"},      {"tokenize", "data"},      {"dataset", "data"},     {"benchmark", "bench"},
    {"evaluate", "eval"},     {"evaluation", "eval"},    {"test", "eval"},        {"perplexity", "eval"},
    {"infer", "generate"},    {"inference", "generate"}, {"predict", "generate"}, {"sample", "generate"},
    {"complete", "generate"}, {"talk", "chat"},          {"new", "init"},         {"create", "init"},
    {"config", "init"},       {"docs", "schema"},        {"env", "doctor"},       {"info", "doctor"},
    {"convert", "export"},    {"gguf", "export"},        {"quantize", "export"},   {"merge-lora", "merge"},
    {"merge_lora", "merge"},  {"lora", "adapter"},
    {"download", "fetch"},    {"pull", "fetch"},         {"get", "fetch"},
    {"reward", "score"},      {"rewards", "score"},      {"grade", "score"},
    {"hardware", "profile"},  {"device", "profile"},     {"gpu", "profile"},      {"show", "list"},
};

// Commands of other tools that forge does not have, and what to use instead.
constexpr std::pair<const char*, const char*> kNoCommands[] = {
    {"completion", "forge has no shell completions; forge --help lists its commands"},
    {"import", "forge validate says what each key of another tool's config is called here"},
    {"serve", "forge does not serve models; vLLM loads RUN/adapter on its base model"},
    {"deploy", "forge does not serve models; vLLM loads RUN/adapter on its base model"},
    {"report", "each run has its report: RUN/report.html"},
    {"runs", "runs are the folders below output_dir, each with its report.html"},
    {"diff", "report.json of two runs can be compared; their jobs are in job.yaml"},
};

// Returns ` (did you mean "run"?)`, or nothing.
std::string meant_command(const std::string& name, const std::vector<std::string>& names) {
  const auto is_none = [&](const auto& none) { return lower(name) == none.first; };
  if (std::ranges::any_of(kNoCommands, is_none)) return "";
  const auto command_of = [](const std::string& word) {
    for (const auto& [other, command] : kOtherNames)
      if (word == other) return std::string(" (did you mean \"") + command + "\"?)";
    return std::string();
  };
  std::string meant = command_of(lower(name));
  if (meant.empty()) meant = did_you_mean(name, names);
  if (!meant.empty()) return meant;
  std::vector<std::string> words;
  for (const auto& [other, command] : kOtherNames) words.push_back(other);
  return command_of(nearest(lower(name), words));
}

std::string where_to_go(const std::string& name) {
  for (const char* ending : {".yaml", ".yml", ".json"})
    if (ends_with(name, ending)) return "a job file comes after a command: forge run " + name;
  for (const auto& [word, instead] : kNoCommands)
    if (lower(name) == word) return instead;
  if (name == "version" || name == "-v") return "forge --version prints it";
  if (starts_with(name, "-")) return "the command comes first: forge COMMAND " + name;
  return "see forge --help";
}

}  // namespace

std::span<const Command* const> commands() { return kCommands; }

const Command& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command* command : kCommands) {
    if (name == command->name) return *command;
    names.push_back(command->name);
  }
  throw Error(ErrorKind::usage, "unknown command " + show_name(name) + meant_command(name, names))
      .hint(where_to_go(name));
}

std::string overview() {
  std::vector<std::vector<std::string>> rows;
  for (const Command* command : kCommands)
    rows.push_back({std::string("  ") + command->name, command->operands, command->summary});
  return fmt::format(
      "forge {}: fine-tunes language models from one declarative file\n\n"
      "Usage: forge COMMAND [options]\n\n"
      "{}\n"
      "forge COMMAND --help lists its options. Every command accepts --json and --quiet. NO_COLOR "
      "turns colors off.\n\n"
      "{}",
      kForgeVersion, format_table(rows), kExitCodes);
}

}  // namespace forge
