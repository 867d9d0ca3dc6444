// forge bench: measures what a job reaches on this machine, on its own data. The trained weights
// are discarded.
#include <algorithm>
#include <ctime>
#include <filesystem>

#include "cli/bench_points.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/engine_process.h"
#include "cli/line.h"
#include "core/job/names.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"

namespace forge::bench_command {
namespace {

constexpr Option kOptions[] = {
    {"--batch-sweep", "", "double train.micro_batch_tokens until it does not fit or is no faster"},
    {"--length", "TOKENS", "use this data.max_length in the sweep instead of the job's", true},
    {"--ladder", "", "measure optimizations one by one, from the plainest settings to the job's"},
    {"--kernels", "",
     "measure this machine's rates; plans with this output_dir predict their time from them"},
    {"--trace", "FILE",
     "write the measured steps, op by op, as a trace for chrome://tracing or Perfetto; on a GPU, "
     "times come from events in steps without graphs"},
    {"--ops", "",
     "show the time of a step by op, and each matrix product's rate relative to the fastest one"},
    {"--steps", "N",
     "minimum number of steps per point, after one warm-up step, three on a GPU (default 3)"},
    {"--seconds", "S", "start no further step of a point after S seconds (default 60)"},
    {"--set", "KEY=VALUE", "change a value, as in --set train.precision=fp32", true},
};

struct Bench {
  const std::string& file;
  std::vector<std::string> sets;
  int64_t steps;
  double seconds;
  std::string trace;  // a file, or empty
  bool ops;
  Progress& progress;

  Plan plan(const std::vector<std::string>& more) const {
    std::vector<std::string> all = sets;
    all.insert(all.end(), more.begin(), more.end());
    Plan plan = plan_job(file, {.sets = all}, progress).plan;
    for (const std::string& warning : plan.warnings)
      if (std::ranges::count(progress.warnings(), warning) == 0) progress.warn(warning);
    return plan;
  }

  // Throws only errors that every other point would hit too.
  BenchResult measure(const BenchPoint& point) const {
    progress.status("measuring " + point.name);
    BenchResult result{.point = point};
    try {
      const Plan planned = plan(point.sets);
      result.provider = planned.provider;
      result.precision = name_of(*planned.job.train.precision);
      result.activation_checkpointing = name_of(*planned.job.train.activation_checkpointing);
      result.max_length = planned.job.data.max_length;
      result.micro_batch_tokens = *planned.job.train.micro_batch_tokens;
      result.predicted_peak_bytes = planned.predicted_peak_bytes;
      run_engine(planned, result);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::fit) throw;
      result.refused = "does not fit: " + split(error.what(), '\n')[0];
    }
    progress.clear();
    return result;
  }

 private:
  static OpShares shares_of(const Json& event) {
    OpShares shares{.seconds = event.at("seconds"),
                    .tokens = event.at("tokens"),
                    .on_device = event.at("clock") == "device",
                    .best_product_rate = event.at("best_product_rate")};
    for (const Json& op : event.at("ops")) shares.ops.push_back({op.at("name"), op.at("seconds"), op.at("operations"), op.at("bytes")});
    return shares;
  }
  void run_engine(const Plan& planned, BenchResult& result) const {
    const EngineSettings settings{.threads = planned.job.train.threads.value_or(0),
                                  .deterministic = planned.job.train.deterministic};
    EngineProcess engine(engine_of(planned.device, planned.engine), settings);
    const Json request{
        {"command", "measure"}, {"plan", to_json(planned)}, {"steps", steps}, {"seconds", seconds}, {"trace", trace}, {"ops", ops}};
    engine.request(request, [&](const Json& event) {
      if (event.value("event", "") == "ops") result.shares = shares_of(event);
      if (event.value("event", "") != "measured") return;
      result.measured_peak_bytes = event.at("peak_memory_bytes");
      if (event.at("warm_up").get<bool>() || event.at("op_by_op").get<bool>()) return;
      result.rates.push_back(event.at("tokens").get<double>() / event.at("seconds").get<double>());
      progress.status(
          fmt::format("measuring {}: {:.0f} tokens/s", result.point.name, result.tokens_per_second()));
    });
  }
};

// Returns fp32, bf16 if the processor multiplies it natively, and the precision that the job plans.
std::vector<Precision> precisions_of(const Plan& plan) {
  std::vector<Precision> list{Precision::fp32};
  if (instructions_of(plan.device.cpu) >= InstructionSet::avx512_bf16) list.push_back(Precision::bf16);
  if (std::find(list.begin(), list.end(), *plan.job.train.precision) == list.end())
    list.push_back(*plan.job.train.precision);
  return list;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now));
  return text;
}

void run_kernels(const Arguments& args, const Bench& bench) {
  const Plan plan = bench.plan({});
  if (plan.device.cuda)
    throw Error(ErrorKind::usage, "--kernels measures processors; the job is planned for " + plan.device_name())
        .hint("--set hardware.device=cpu measures the processor");
  const int64_t threads = *plan.job.train.threads;
  Rates rates{.machine = machine_of(plan.device, threads), .date = today()};
  Json names = Json::array();
  for (Precision precision : precisions_of(plan)) names.push_back(name_of(precision));
  EngineProcess engine(engine_of(plan.device, plan.engine), {.threads = threads});
  engine.request({{"command", "rates"}, {"precisions", names}, {"threads", threads}, {"seconds", 2 * bench.seconds}},
                 [&](const Json& event) {
                   if (event.value("event", "") == "progress")
                     bench.progress.status(fmt::format("measuring kernels: {} of {}", event.at("done").get<int64_t>(),
                                                       event.at("of").get<int64_t>()));
                   if (event.value("event", "") != "rate") return;
                   rates.points.push_back({*enum_of<Precision>(event.at("precision").get<std::string>()),
                                           {event.at("kind"), event.at("shape"), event.at("amount")},
                                           event.at("seconds")});
                 });
  bench.progress.clear();
  const std::string path = rates_path(plan.job.output_dir);
  make_directories(std::filesystem::path(path).parent_path().string());
  write_file_durably(path, to_json(rates).dump(1) + "\n");
  const PlannedTime time = bench.plan({}).time;
  print_either(args.json(),
               {{"path", path},
                {"rates", rates.points.size()},
                {"time", {{"step_seconds", time.step_seconds}, {"run_seconds", time.run_seconds}, {"reason", time.reason}}},
                {"warnings", bench.progress.warnings()}},
               fmt::format("{}: {} rates of {}, {}, {} threads\n", path, rates.points.size(),
                           rates.machine.processor, rates.machine.instructions, threads));
}

// Returns what a point would compute, to detect duplicates; null if its plan does not fit.
Json planned_settings(const Bench& bench, const BenchPoint& point) {
  try {
    const Plan plan = bench.plan(point.sets);
    return {to_json(plan).at("job"), plan.provider};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::fit) throw;
    return nullptr;
  }
}

// Returns the rungs of the ladder that make a difference for this job.
std::vector<BenchPoint> rungs(const Bench& bench) {
  std::vector<BenchPoint> kept;
  Json before;
  for (const BenchPoint& rung : ladder()) {
    Json now = planned_settings(bench, rung);
    if (now.is_null() || now != before) kept.push_back(rung);
    before = std::move(now);
  }
  return kept;
}

// Measures the micro-batches to try for one length, doubling from its longest example.
std::vector<BenchResult> sweep(const Bench& bench, int64_t max_length) {
  const Plan plan = bench.plan({"data.max_length=" + std::to_string(max_length),
                                "train.micro_batch_size=auto", "train.micro_batch_tokens=auto"});
  std::vector<BenchResult> results;
  for (int64_t tokens = plan.train.longest; results.empty() || tokens / 2 < plan.train.tokens; tokens *= 2) {
    results.push_back(bench.measure(batch_point(max_length, tokens)));
    if (!results.back().refused.empty() || past_knee(results)) break;
  }
  return results;
}

std::string advice(const std::vector<BenchResult>& results) {
  const BenchResult& best = results[knee(results)];
  return fmt::format(
      "recommended: train.micro_batch_tokens: {}  # {:.0f} tokens/s at data.max_length {}, in {}",
      best.micro_batch_tokens, best.tokens_per_second(), best.max_length,
      format_bytes(best.measured_peak_bytes));
}

// Throws the error of the first point if no point could be measured.
void check_measured(const std::vector<BenchResult>& results) {
  if (std::ranges::any_of(results, [](auto& r) { return r.refused.empty(); })) return;
  throw Error(ErrorKind::fit, results[0].refused).hint("forge plan shows what takes the memory");
}

Json all_json(const std::vector<BenchResult>& results) {
  Json list = Json::array();
  for (const BenchResult& r : results) list.push_back(to_json(r));
  return list;
}

void run_sweep(const Arguments& args, const Bench& bench) {
  std::vector<int64_t> lengths = args.integers("--length", 1, 1 << 24);
  if (lengths.empty()) lengths.push_back(bench.plan({}).job.data.max_length);
  std::vector<BenchResult> all;
  Json recommended = Json::array();
  std::string lines;
  for (const int64_t length : lengths) {
    const std::vector<BenchResult> results = sweep(bench, length);
    check_measured(results);
    all.insert(all.end(), results.begin(), results.end());
    recommended.push_back({{"data.max_length", length},
                           {"train.micro_batch_tokens", results[knee(results)].micro_batch_tokens}});
    lines += advice(results) + "\n";
  }
  print_either(args.json(),
               {{"points", all_json(all)}, {"recommended", recommended}, {"warnings", bench.progress.warnings()}},
               sweep_table(all) + lines);
}

void run_points(const Arguments& args, const Bench& bench, const std::vector<BenchPoint>& points) {
  std::vector<BenchResult> results;
  for (const BenchPoint& point : points) results.push_back(bench.measure(point));
  check_measured(results);
  print_either(args.json(), {{"points", all_json(results)}, {"warnings", bench.progress.warnings()}},
               args.has("--ladder") ? ladder_table(results) : sweep_table(results));
  for (const BenchResult& r : results)
    if (r.shares && !args.json()) print((results.size() > 1 ? "\n" + r.point.name + "\n" : "\n") + shares_table(*r.shares));
}

int run(const Arguments& args) {
  if (args.has("--batch-sweep") && args.has("--ladder"))
    throw Error(ErrorKind::usage, "--batch-sweep and --ladder are two measurements")
        .hint("ask for one of them");
  for (const char* other : {"--batch-sweep", "--ladder", "--trace", "--ops"})
    if (args.has("--kernels") && args.has(other))
      throw Error(ErrorKind::usage, std::string("--kernels and ") + other + " are two measurements")
          .hint("ask for one of them");
  for (const char* other : {"--batch-sweep", "--ladder"})
    if (args.has("--trace") && args.has(other))
      throw Error(ErrorKind::usage, std::string("--trace measures the job as planned, not ") + other);
  if (args.has("--ops") && args.has("--batch-sweep"))
    throw Error(ErrorKind::usage, "--ops measures the job as planned or --ladder, not --batch-sweep");
  if (args.has("--length") && !args.has("--batch-sweep"))
    throw Error(ErrorKind::usage, "--length belongs to --batch-sweep")
        .hint("or change the job: --set data.max_length=…");
  Progress progress(false, args.quiet() || args.json());
  const Bench bench{args.operands()[0], args.texts("--set"), args.integer("--steps", 3, 1, 1 << 20),
                    args.number("--seconds", 60, 0, 1e9),
                    args.has("--trace") ? std::filesystem::absolute(*args.text("--trace")).string() : "", args.has("--ops"), progress};
  if (args.has("--kernels"))
    run_kernels(args, bench);
  else if (args.has("--batch-sweep"))
    run_sweep(args, bench);
  else
    run_points(args, bench, args.has("--ladder") ? rungs(bench) : std::vector<BenchPoint>{{"the job", {}}});
  return 0;
}

}  // namespace

constexpr Command kCommand{
    "bench", "JOB", 1, 1,
    "measure the job's speed on this machine, and compare settings",
    kOptions, run};

}  // namespace forge::bench_command
