#include "core/train/measure.h"

#include "core/data/batch/order.h"
#include "core/job/names.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/file.h"
#include "core/lib/base/user_file.h"
#include "core/lib/tensor/device.h"
#include "core/train/reference.h"
#include "core/train/step_shares.h"
#include "kernels/device/device_of.h"

namespace forge {
namespace {

// Collects the ops of steps with their times on the device, which are read after each step.
class Watched {
 public:
  Watched(Session& session, const MeasureRequest& request)
      : device_(device_of(session.device)),
        network_(*session.network),
        traced_(!request.trace.empty()),
        shares_(*request.plan.job.train.precision, device_) {}

  // Begins a step, which lasts until end(). With `warm_up` it is traced, and counts in no share.
  void begin() {
    network_.watch([this](const StepSpan& span) { spans_.push_back(span); });
    begin_ = device_.mark();
  }
  void end(int64_t tokens, bool warm_up) {
    const Moment end = device_.mark();
    network_.watch(nullptr);
    const double step = device_.seconds(begin_, end);
    if (traced_) add({.name = "step", .tokens = tokens}, traced_seconds_, step);
    for (const StepSpan& span : spans_) {
      const double seconds = device_.seconds(span.begin, span.end);
      if (traced_) add(span, traced_seconds_ + device_.seconds(begin_, span.begin), seconds);
      if (!warm_up) shares_.add(span, seconds);
    }
    traced_seconds_ += step;
    if (!warm_up) seconds_ += step, tokens_ += tokens;
    spans_.clear();
    device_.forget_moments();
  }

  // Returns the trace in the format of Chrome's viewer and Perfetto ("Trace Event Format": complete
  // events, microseconds). The viewer shows with it how the times were measured.
  std::string trace() const {
    const char* measured = "by the host's clock, around each op";
    if (device_.separate())
      measured = "on the GPU's compute stream, by events before and after each op, in steps without graphs";
    return dump_json({{"traceEvents", events_},
                      {"displayTimeUnit", "ms"},
                      {"otherData", {{"measured", measured}}}}) + "\n";
  }
  Json event(double best_rate) const {
    Json event = shares_.event(seconds_, best_rate);
    event["clock"] = device_.separate() ? "device" : "host";
    event["tokens"] = tokens_;
    return event;
  }

 private:
  // Adds a span to the trace. `begin` counts seconds since the first step began; `seconds` are the
  // span's.
  void add(const StepSpan& span, double begin, double seconds) {
    Json event{{"name", span.name}, {"ph", "X"}, {"pid", 1}, {"tid", span.op ? 2 : 1}};
    event["ts"] = 1e6 * begin;
    event["dur"] = 1e6 * seconds;
    event["args"] = {{"tokens", span.tokens}};
    if (span.op && span.op->layer >= 0) event["args"]["layer"] = span.op->layer;
    if (span.op && !span.op->modules.empty()) event["args"]["module"] = span.graph->module(*span.op).path;
    events_.push_back(std::move(event));
  }

  ComputeDevice& device_;
  Network& network_;
  bool traced_;
  Json events_ = Json::array();
  StepShares shares_;
  std::vector<StepSpan> spans_;
  Moment begin_;
  double traced_seconds_ = 0, seconds_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace

void measure(const MeasureRequest& request, const EventSink& emit, const StopFlag& stop) {
  if (draws_completions(request.plan.job.objective.type()))
    throw Error(ErrorKind::job, "objective.type " + name_of(request.plan.job.objective.type()) +
                                    " trains on what it draws: there are no steps to measure before it runs")
        .hint("forge run JOB reports the seconds of its rollouts and steps");
  std::unique_ptr<Session> session = open_session(request.plan, {}, emit);
  const DataSet data = DataSet::open(request.plan.train.cache_path);
  session->reference = open_reference(*session, {.train = &data, .path = ""}, stop);
  const bool gpu = device_of(session->device).separate(), watches = !request.trace.empty() || request.ops;
  Watched watched(*session, request);
  const std::vector<int64_t> lengths = data.atom_lengths();
  Epochs steps("steps", [&](int64_t epoch) { return epoch_steps(lengths, request.plan.job, epoch); });
  TrainState state;
  const auto step = [&](bool warm_up, bool watch) {
    // The plan's steps start over after the last: the planned memory covers no others.
    const int64_t planned = request.plan.steps > 0 ? state.step % request.plan.steps : state.step;
    const auto batches = micro_batches(steps[planned], lengths, session->job);
    if (watch) watched.begin();
    const StepStats stats = train_step(*session, data, batches, state, stop);
    if (watch) watched.end(stats.tokens, warm_up);
    emit({{"event", "measured"},
          {"step", state.step++},
          {"warm_up", warm_up},
          {"op_by_op", watch && gpu},
          {"micro_batches", batches.size()},
          {"tokens", stats.tokens},
          {"seconds", stats.seconds},
          {"data_wait_seconds", stats.data_seconds},
          {"peak_memory_bytes", device_memory(session->device).peak_bytes}});
  };
  const auto run = [&](int64_t warm_up, bool watch) {
    for (int64_t i = 0; i < warm_up; ++i) step(true, watch);
    const auto start = Clock::now();
    for (int64_t measured = 1;; ++measured) {
      step(false, watch);
      const double seconds = seconds_since(start);
      if (seconds >= request.most_seconds || (measured >= request.steps && seconds >= request.least_seconds)) return;
    }
  };
  // On a GPU the second step captures the graphs that are replayed from the third on. Ops are
  // watched outside of captures: in steps of their own.
  run(gpu ? 3 : 1, watches && !gpu);
  if (watches && gpu) run(1, true);
  if (!request.trace.empty()) write_user_file(request.trace, watched.trace());
  if (request.ops) {
    const c10::Device device = session->device;
    session.reset();  // the products have its memory
    emit(watched.event(best_product_rate(device, *request.plan.job.train.precision)));
  }
  emit({{"event", "done"}});
}

}  // namespace forge
