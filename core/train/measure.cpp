#include "core/train/measure.h"

#include <chrono>

#include "core/base/file.h"
#include "core/config/names.h"
#include "core/data/batch/order.h"
#include "core/tensor/device.h"
#include "core/train/reference.h"
#include "core/train/step_shares.h"

namespace forge {
namespace {

// The plan's steps, starting over after the last: the planned memory covers no others.
class PlannedSteps {
 public:
  PlannedSteps(const Plan& plan, const DataSet& data) : plan_(plan), data_(data) {}

  std::vector<int64_t> next() {
    if (plan_.steps > 0 && given_ == plan_.steps) given_ = 0, epoch_ = -1, in_epoch_ = steps_.size();
    if (in_epoch_ == steps_.size()) {
      steps_ = epoch_steps(data_.atom_lengths(), plan_.job, ++epoch_);
      in_epoch_ = 0;
    }
    ++given_;
    return steps_[in_epoch_++];
  }

 private:
  const Plan& plan_;
  const DataSet& data_;
  std::vector<std::vector<int64_t>> steps_;  // of the epoch
  size_t in_epoch_ = 0;
  int64_t epoch_ = -1, given_ = 0;
};

// Spans in the format of Chrome's viewer and Perfetto ("Trace Event Format": complete events, microseconds).
class Trace {
 public:
  void add(const StepSpan& span) {
    Json event{{"name", span.name}, {"ph", "X"}, {"pid", 1}, {"tid", span.op ? 2 : 1}};
    event["ts"] = micros(span.begin - start_);
    event["dur"] = micros(span.end - span.begin);
    event["args"] = {{"tokens", span.tokens}};
    if (span.op && span.op->layer >= 0) event["args"]["layer"] = span.op->layer;
    if (span.op && !span.op->modules.empty()) event["args"]["module"] = span.graph->module(*span.op).path;
    events_.push_back(std::move(event));
  }
  std::string json() const { return dump_json({{"traceEvents", events_}, {"displayTimeUnit", "ms"}}) + "\n"; }

 private:
  static double micros(std::chrono::steady_clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Json events_ = Json::array();
};

}  // namespace

void measure(const MeasureRequest& request, const EventSink& emit, const StopFlag& stop) {
  if (draws_completions(request.plan.job.objective.type))
    throw Error(ErrorKind::job, "objective.type " + name_of(request.plan.job.objective.type) +
                                    " trains on what it draws: there are no steps to measure before it runs")
        .hint("forge run JOB; its rollouts and steps say their seconds");
  std::unique_ptr<Session> session = open_session(request.plan, {}, emit);
  const DataSet data = DataSet::open(request.plan.train.cache_path);
  session->reference = open_reference(*session, {.train = &data, .path = ""}, stop);
  const auto start = std::chrono::steady_clock::now();
  auto enough = [&](int64_t measured) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return seconds >= request.most_seconds ? measured >= 1
                                           : measured >= request.steps && seconds >= request.least_seconds;
  };
  Trace trace;
  StepShares shares(*request.plan.job.train.precision);
  double measured_seconds = 0;
  if (!request.trace.empty() || request.ops)
    session->network->watch([&](const StepSpan& span) {
      if (!request.trace.empty()) trace.add(span);
      if (request.ops) shares.add(span);
    });
  PlannedSteps steps(request.plan, data);
  TrainState state;
  do {
    const auto batches = micro_batches(steps.next(), data.atom_lengths(), session->job);
    const auto begin = std::chrono::steady_clock::now();
    const StepStats stats = train_step(*session, data, batches, state, stop);
    trace.add({.name = "step", .tokens = stats.tokens, .begin = begin, .end = std::chrono::steady_clock::now()});
    emit({{"event", "measured"},
          {"step", state.step},
          {"warm_up", state.step == 0},
          {"micro_batches", batches.size()},
          {"tokens", stats.tokens},
          {"seconds", stats.seconds},
          {"data_wait_seconds", stats.data_seconds},
          {"peak_memory_bytes", device_memory(session->device).peak_bytes}});
    if (state.step == 0)
      shares.clear();  // it warmed up
    else
      measured_seconds += stats.seconds;
  } while (!enough(state.step++));
  if (!request.trace.empty()) write_file_durably(request.trace, trace.json());
  if (request.ops) emit(shares.event(measured_seconds, best_product_rate(*request.plan.job.train.precision)));
  emit({{"event", "done"}});
}

}  // namespace forge
