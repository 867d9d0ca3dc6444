// forge validate: reports every fault of every file at once. Reads job files, and only the headers
// of the model and of the adapter that a job starts from, so it answers in milliseconds and fits a
// git hook.
#include "cli/command.h"
#include "cli/console.h"
#include "cli/faults.h"
#include "cli/job_paths.h"
#include "cli/line.h"
#include "core/job/diagnostics.h"
#include "core/lib/base/file.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"
#include "core/model/families/adapter_folder.h"

namespace forge::validate_command {
namespace {

constexpr Option kOptions[] = {
    {"--set", "KEY=VALUE", "change a value, as in --set train.epochs=2", true},
};

// The faults of one file and what would stop it from running, as text and as JSON.
struct Verdict {
  std::vector<std::string> lines;
  Json faults = Json::array();
  Json warnings = Json::array();
};

void add_fault(Verdict& verdict, const Error& error) {
  verdict.lines.push_back(error.what());
  if (!error.hint().empty()) verdict.lines.push_back("  " + error.hint());
  for (const Fault& fault : faults_of(error)) verdict.faults.push_back(to_json(fault));
}

// Warns of missing paths: a job may be written before its files exist, so this is not a fault.
void warn_of_missing_paths(const LoadedJob& loaded, const std::string& file, Verdict& verdict) {
  for (const MissingPath& missing : missing_paths(loaded.job)) {
    const std::string text = hide_secrets(missing.path, loaded) + ": there is no such file or folder";
    const Position place = place_of(loaded, missing.key, file);
    const bool data = starts_with(missing.key, "data.") && missing.key != "data.template";
    verdict.warnings.push_back(to_json(Fault{data ? ErrorKind::data : ErrorKind::environment, place,
                                             missing.key, text, missing_hint(loaded, missing)}));
    verdict.lines.push_back(place.text() + ": warning: " + missing.key + ": " + text);
    std::string hint = hub_hint(loaded, missing);
    if (hint.empty()) hint = near_path_hint(missing.path);
    if (!hint.empty()) verdict.lines.push_back("  " + hint);
  }
}

// Checks what only the headers of the model and of the start adapter can show.
void check_start(const LoadedJob& loaded) {
  if (!loaded.job.adapter.init_from) return;
  const bool there = file_exists(*loaded.job.adapter.init_from + "/adapter_config.json") &&
                     (file_exists(loaded.job.model.path) || is_directory(loaded.job.model.path));
  if (!there) return;
  ModelSpec model = read_model_spec(loaded.job.model);
  LoadedJob with = loaded;
  add_job_tokens(with, model);
  check_start_adapter(with.job, model, Data::optional);
}

Verdict examine(const std::string& file, const std::vector<std::string>& sets) {
  Verdict verdict;
  try {
    const LoadedJob loaded = read_job(file, sets);
    warn_of_missing_paths(loaded, file, verdict);
    try {
      check_start(loaded);
    } catch (const Error& error) {
      add_fault(verdict, with_places(error, loaded, file));
    }
  } catch (const JobErrors& errors) {
    add_fault(verdict, errors);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::job && error.kind() != ErrorKind::environment) throw;
    add_fault(verdict, error);
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
    if (args.json()) {
      files.push_back(
          {{"file", file}, {"valid", good}, {"faults", verdict.faults}, {"warnings", verdict.warnings}});
      continue;
    }
    if (!verdict.lines.empty() && !(good && args.quiet())) say(join(verdict.lines, "\n"));
    if (good && !args.quiet()) say(file + ": valid");
  }
  if (args.json()) print_json({{"valid", valid}, {"files", files}});
  return valid ? 0 : exit_code(ErrorKind::job);
}

}  // namespace

constexpr Command kCommand{
    "validate", "JOB…", 1, 1 << 20, "check job files and report every fault", kOptions, run};

}  // namespace forge::validate_command
