// forge run: the whole line. It means "make this run complete": start it, continue it, or say that
// it is done.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/engine_process.h"
#include "cli/faults.h"
#include "cli/line.h"
#include "cli/run_decision.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/file.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/plan/explain.h"
#include "core/run/event_fields.h"
#include "core/run/heartbeat.h"
#include "core/run/host/draw_host.h"
#include "core/run/host/reward_host.h"
#include "core/run/output_dir.h"
#include "core/run/report.h"

namespace forge::run_command {
namespace {

namespace fs = std::filesystem;

constexpr Option kOptions[] = {
    {"--set", "KEY=VALUE", "change a value, as in --set train.epochs=2", true},
    {"--fresh", "", "discard an existing run of this name and start over"},
    {"--extend", "", "continue a run with more epochs or steps than it started with"},
    {"--dry-run", "", "only plan, and say what would be done"},
};

// The run folder, removed again if nothing was written: rmdir only removes empty folders.
class RunFolder {
 public:
  explicit RunFolder(const std::string& path) : path_(path) { make_directories(path); }
  ~RunFolder() { ::rmdir(path_.c_str()); }
  RunFolder(const RunFolder&) = delete;

 private:
  const std::string path_;
};

// Returns a path relative to the working directory, as the user would type it.
std::string shown_path(const std::string& path) {
  std::error_code error;
  fs::path relative = fs::relative(path, error);
  if (error || relative.empty() || starts_with(relative.string(), "..")) return path;
  return relative;
}

int show_plan(const Arguments& args, const PlannedJob& line, const Decision& decision) {
  if (args.json()) {
    print(hide_secrets(to_json(decision.plan), line.loaded.secrets).dump(2) + "\n");
    return 0;
  }
  print(printable(hide_secrets(explain(decision.plan), line.loaded)));
  if (!args.quiet()) say(hide_secrets("dry run: " + decision.sentence, line.loaded));
  return 0;
}

int show_finished(const Arguments& args, const std::string& folder, const std::string& sentence) {
  const RunPaths paths{folder};
  const Json report = parse_json(read_file(paths.report(), int64_t{256} << 20, ErrorKind::environment),
                                 paths.report(), ErrorKind::environment);
  const bool page_lost = !file_exists(paths.report_html());
  if (page_lost) {
    std::string unreadable;
    write_file_durably(paths.report_html(), report_html(report, read_metrics(paths.metrics(), &unreadable)));
  }
  if (args.json()) {
    print_json({{"event", "done"}, {"report", report}});
  } else if (!args.quiet()) {
    say(sentence + (page_lost ? "; its report.html was missing and was written again" : ""));
  }
  return 0;
}

// Shows the outcome of the run. Lost metrics are missing from its counts, so the last step tells
// how far it got.
void show_result(Progress& progress, const std::string& folder, const Json& report) {
  std::string text = "finished " + shown_path(folder);
  const int64_t steps = std::max(integer_of(report, "steps"), integer_of(report, "step"));
  if (steps > 0) text += ": " + format_count(steps) + (steps == 1 ? " step" : " steps");
  if (number_of(report, "tokens_per_second") > 0)
    text += ", " + format_count(integer_of(report, "tokens_per_second")) + " tokens/s";
  if (report.contains("eval") && report["eval"]["last"]["eval_loss"].is_number()) {
    const double loss = report["eval"]["last"]["eval_loss"].get<double>();
    const bool draws = report.contains("findings");  // where the loss is the negative reward
    text += (draws ? ", held-out reward " : ", eval loss ") + format_number(std::round((draws ? -loss : loss) * 1e4) / 1e4);
  }
  progress.line(text);
  if (report.contains("exported"))
    progress.line("  result: " + shown_path(report["exported"].value("path", "")) +
                  ", report: " + shown_path(folder + "/report.html"));
}

// Returns the request to train as decided.
Json train_request(const Decision& decision, const LoadedJob& loaded, const std::string& folder, Clock::time_point began) {
  Json amendments = Json::array();
  for (const Amendment& amendment : decision.amendments) amendments.push_back(to_json(amendment));
  return {{"command", "train"},
          {"plan", to_json(decision.plan)},
          {"secrets", to_json(loaded.secrets)},
          {"job_text", hide_secrets(loaded.text, loaded)},
          {"run_folder", folder},
          {"lock", kEngineLock},
          {"resume", decision.action == RunAction::resume},
          {"amendments", amendments},
          {"spent_seconds", seconds_since(began)}};
}

int run_planned(const Arguments& args, const PlannedJob& line, Clock::time_point began, Progress& progress) {
  std::string folder = line.plan.job.output_dir + "/" + line.plan.job.name;
  const bool fresh = args.has("--fresh"), extend = args.has("--extend");
  const auto decide_now = [&] {
    RunState state = fresh ? RunState{} : inspect_run(folder);
    unseal(state, folder);
    return decide(line.plan, state, shown_path(folder), extend);
  };
  if (args.has("--dry-run")) return show_plan(args, line, decide_now());

  // The decision is made under the lock that the engine inherits, so that the engine sees the same
  // state.
  const RunFolder made(folder);
  std::optional<RunLock> lock(std::in_place, folder);
  std::optional<Heartbeat> heartbeat(std::in_place, folder);
  const Decision decision = decide_now();
  if (decision.action == RunAction::finished) {
    remove_litter(folder);
    return show_finished(args, folder, hide_secrets(decision.sentence, line.loaded));
  }

  EngineLocation engine_location = engine_of(decision.plan.device, decision.plan.engine);
  for (const std::string& warning : decision.plan.warnings) progress.warn(warning);
  require_room(decision.plan, folder);
  if (decision.action == RunAction::start) {
    heartbeat.reset();
    discard_run(folder);
    make_directories(folder);
    lock.emplace(folder);
    heartbeat.emplace(folder);
  }
  progress.line(decision.sentence);
  for (const std::string& note : decision.notes) progress.line(note);
  EngineSettings settings{.threads = decision.plan.job.train.threads.value_or(0),
                          .deterministic = decision.plan.job.train.deterministic,
                          .lock = lock->descriptor()};
  EngineProcess engine(engine_location, settings);
  engine.watch([&heartbeat] { heartbeat->require_alone(); });
  const Json request = train_request(decision, line.loaded, folder, began);
  std::optional<RewardHost> rewards;
  if (draws_completions(decision.plan.job.objective.type())) rewards.emplace(decision.plan, line.loaded.secrets);
  DrawHost draws(decision.plan);
  Json done = engine.request(request, [&](const Json& event) {
    const std::string name = event.value("event", "");
    if (rewards && name == "score")
      return engine.answer([&rewards, event](const AnswerPort& engine_side) { return rewards->answer(event, engine_side); });
    if (rewards && name == "call")
      return engine.answer([&rewards, event](const AnswerPort& engine_side) { return rewards->answer_calls(event, engine_side); });
    if (name == "draw" || name == "draw_ahead")
      return engine.answer([&draws, event](const AnswerPort& engine_side) { return draws.answer(event, engine_side); });
    if (rewards && name == "judged") return engine.hear(event);
    progress.show(event);
  });
  show_result(progress, folder, done.value("report", Json::object()));
  if (!progress.stdout_fault().empty())
    throw Error(ErrorKind::environment, shown_path(folder) + ": is finished, but " + progress.stdout_fault())
        .hint("its events are in " + shown_path(RunPaths{folder}.metrics()));
  return 0;
}

int run(const Arguments& args) {
  const auto began = Clock::now();
  Progress progress(args.json(), args.quiet());
  PlannedJob line = plan_job(args.operands()[0],
                             {.sets = args.texts("--set"), .hash_files = true, .estimate = args.has("--dry-run")}, progress);
  for (const auto& [key, value] : arithmetic_of(line.plan)) line.plan.execution[key] = value;
  try {
    return run_planned(args, line, began, progress);
  } catch (const Error& error) {
    if (line.loaded.secrets.empty()) throw;
    throw hide_secrets(error, line.loaded.secrets);
  }
}

}  // namespace

constexpr Command kCommand{
    "run", "JOB", 1, 1, "start a run, or continue one", kOptions, run};

}  // namespace forge::run_command
