// forge validate: every fault of every file at once. Reads job files only, so it answers in milliseconds and
// fits a git hook.
#include "cli/command.h"
#include "cli/console.h"
#include "cli/line.h"
#include "core/config/diagnostics.h"

namespace forge {
namespace {

constexpr Option kOptions[] = {
    {"--set", "KEY=VALUE", "change a value, as in --set train.epochs=2", true},
};

Json to_json(const Diagnostic& fault) {
  return {{"file", fault.file}, {"line", fault.line},       {"column", fault.column},
          {"key", fault.key},   {"message", fault.message}, {"hint", fault.hint}};
}

// The faults of one file, as the user reads them and as a program does.
struct Verdict {
  std::string text;
  Json faults = Json::array();
};

Verdict examine(const std::string& file, const std::vector<std::string>& sets) {
  Verdict verdict;
  try {
    read_job(file, sets);
  } catch (const JobErrors& errors) {
    verdict.text = errors.what();
    for (const Diagnostic& fault : errors.faults()) verdict.faults.push_back(to_json(fault));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::job) throw;
    verdict.text = error.what();
    if (!error.hint().empty()) verdict.text += "\n  " + error.hint();
    verdict.faults.push_back(to_json(Diagnostic{file, 0, 0, "", error.what(), error.hint()}));
  }
  return verdict;
}

int run(const Arguments& args) {
  bool valid = true;
  Json files = Json::array();
  for (const std::string& file : args.operands()) {
    Verdict verdict = examine(file, args.texts("--set"));
    bool good = verdict.faults.empty();
    valid &= good;
    if (args.json())
      files.push_back({{"file", file}, {"valid", good}, {"faults", verdict.faults}});
    else if (!good)
      say(verdict.text);
    else if (!args.quiet())
      say(file + ": valid");
  }
  if (args.json()) print_json({{"valid", valid}, {"files", files}});
  return valid ? 0 : exit_code(ErrorKind::job);
}

}  // namespace

extern const Command kValidateCommand;
constexpr Command kValidateCommand{"validate", "JOB…", 1, 1 << 20, "every fault of job files at once",
                                   kOptions,   run};

}  // namespace forge
