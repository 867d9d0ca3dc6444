// forge run: the whole line. Means "make this run complete": start it, continue it, or say that it is done.
#include <cmath>
#include <filesystem>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/engine_process.h"
#include "cli/line.h"
#include "cli/run_decision.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/plan/explain.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr Option kOptions[] = {
    {"--set", "KEY=VALUE", "change a value, as in --set train.epochs=2", true},
    {"--fresh", "", "discard an earlier run of this name and start over"},
    {"--extend", "", "continue a run with more epochs or steps than it was started with"},
    {"--dry-run", "", "plan and say what would be done"},
};

// Removes a run. Renamed first, so that a kill on the way leaves no half run under its name; the lock keeps a
// run that is going on from being removed.
void discard_run(const std::string& folder) {
  if (!is_directory(folder)) return;
  inspect_run(folder);  // refuses to touch what is not a run
  RunLock lock(folder);
  fs::path path(folder);
  fs::path aside = path.parent_path() / ("." + path.filename().string() + ".discarded");
  std::error_code error;
  fs::remove_all(aside, error);
  fs::rename(path, aside, error);
  if (error)
    throw Error(ErrorKind::environment, folder + ": cannot move the old run away: " + error.message());
  fs::remove_all(aside, error);
  if (error)
    throw Error(ErrorKind::environment, aside.string() + ": cannot remove the old run: " + error.message());
}

// A path as the user would type it from here.
std::string shown_path(const std::string& path) {
  std::error_code error;
  fs::path relative = fs::relative(path, error);
  if (error || relative.empty() || starts_with(relative.string(), "..")) return path;
  return relative;
}

int show_plan(const Arguments& args, const PlannedJob& line, const Decision& decision) {
  if (args.json()) {
    print(hide_secrets(to_json(decision.plan).dump(2), line.loaded) + "\n");
    return 0;
  }
  print(hide_secrets(explain(decision.plan), line.loaded));
  if (!args.quiet()) say("would be " + decision.sentence);
  return 0;
}

int show_finished(const Arguments& args, const std::string& folder, const std::string& sentence) {
  if (args.json()) {
    std::string path = RunPaths{folder}.report();
    Json report =
        parse_json(read_file(path, int64_t{256} << 20, ErrorKind::environment), path, ErrorKind::environment);
    print_json({{"event", "done"}, {"report", report}});
  } else if (!args.quiet()) {
    say(sentence);
  }
  return 0;
}

void show_result(Progress& progress, const std::string& folder, const Json& report) {
  std::string text = "finished " + shown_path(folder);
  if (report.contains("steps") && report["steps"].is_number())
    text += ": " + format_count(report["steps"].get<int64_t>()) + " steps";
  if (report.contains("tokens_per_second") && report["tokens_per_second"].is_number())
    text +=
        ", " + format_count(static_cast<int64_t>(report["tokens_per_second"].get<double>())) + " tokens/s";
  if (report.contains("eval") && report["eval"]["last"]["eval_loss"].is_number())
    text += ", eval loss " +
            format_number(std::round(report["eval"]["last"]["eval_loss"].get<double>() * 1e4) / 1e4);
  progress.line(text);
}

int run(const Arguments& args) {
  Progress progress(args.json(), args.quiet());
  PlannedJob line = plan_job(args.operands()[0],
                             {.sets = args.texts("--set"), .estimate = args.has("--dry-run")}, progress);
  std::string folder = line.plan.job.output_dir + "/" + line.plan.job.name;
  bool fresh = args.has("--fresh");
  RunState state = fresh ? RunState{} : inspect_run(folder);
  Decision decision = decide(line.plan, state, shown_path(folder), args.has("--extend"));
  if (args.has("--dry-run")) return show_plan(args, line, decision);
  if (decision.action == RunAction::finished) return show_finished(args, folder, decision.sentence);

  EngineLocation engine_location = find_engine(engine_file(decision.plan.engine));
  for (const std::string& warning : decision.plan.warnings) progress.line("warning: " + warning);
  if (fresh || (state.exists && decision.action == RunAction::start)) discard_run(folder);
  progress.line(decision.sentence);
  for (const std::string& note : decision.notes) progress.line(note);
  make_directories(folder);
  EngineSettings settings{.threads = decision.plan.job.train.threads.value_or(0),
                          .deterministic = decision.plan.job.train.deterministic};
  EngineProcess engine(engine_location, settings);
  Json request{{"command", "train"},
               {"plan", to_json(decision.plan)},
               {"job_text", hide_secrets(line.loaded.text, line.loaded)},
               {"run_folder", folder},
               {"resume", decision.action == RunAction::resume},
               {"amendments", decision.amendments}};
  Json done = engine.request(request, [&](const Json& event) { progress.show(event); });
  show_result(progress, folder, done.value("report", Json::object()));
  return 0;
}

}  // namespace

extern const Command kRunCommand;
constexpr Command kRunCommand{"run",    "JOB", 1, 1, "make a run complete: start it, or continue it",
                              kOptions, run};

}  // namespace forge
