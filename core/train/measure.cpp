#include "core/train/measure.h"

#include <chrono>

#include "core/data/batch/order.h"
#include "core/tensor/device.h"

namespace forge {
namespace {

// The steps of the plan, and behind its last one the first again: what lies past it the plan's memory knows nothing of.
class PlannedSteps {
 public:
  PlannedSteps(const Plan& plan, const DataSet& data) : plan_(plan), data_(data) {}

  std::vector<int64_t> next() {
    if (plan_.steps > 0 && given_ == plan_.steps) given_ = 0, epoch_ = -1, in_epoch_ = steps_.size();
    if (in_epoch_ == steps_.size()) {
      steps_ = epoch_steps(data_.lengths(), plan_.job, ++epoch_);
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

}  // namespace

void measure(const MeasureRequest& request, const EventSink& emit, const StopFlag& stop) {
  std::unique_ptr<Session> session = open_session(request.plan, /*fresh=*/true, emit);
  const DataSet data = DataSet::open(request.plan.train.cache_path);
  const auto start = std::chrono::steady_clock::now();
  auto enough = [&](int64_t measured) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return seconds >= request.most_seconds ? measured >= 1
                                           : measured >= request.steps && seconds >= request.least_seconds;
  };
  PlannedSteps steps(request.plan, data);
  TrainState state;
  do {
    const auto batches = micro_batches(steps.next(), data.lengths(), session->job);
    const StepStats stats = train_step(*session, data, batches, state, stop);
    emit({{"event", "measured"},
          {"step", state.step},
          {"warm_up", state.step == 0},
          {"micro_batches", batches.size()},
          {"tokens", stats.tokens},
          {"seconds", stats.seconds},
          {"data_wait_seconds", stats.data_seconds},
          {"peak_memory_bytes", device_memory(session->device).peak_bytes}});
  } while (!enough(state.step++));
  emit({{"event", "done"}});
}

}  // namespace forge
