#include "core/train/rollout_passes.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>

#include "core/data/batch/order.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/error.h"
#include "core/model/adapter/adapter_file.h"
#include "core/train/head.h"
#include "core/train/other_networks.h"

namespace forge {
namespace {

// Gives the policy its own weights back.
class OwnWeights {
 public:
  explicit OwnWeights(TrainableSet& set) : set_(set) {
    for (const Trainable& item : set.items()) own_.push_back(item.master.clone());
  }
  ~OwnWeights() {
    c10::NoGradGuard no_grad;
    for (size_t i = 0; i < own_.size(); ++i) set_.items()[i].master.copy_(own_[i]);
    set_.publish();
  }
  OwnWeights(const OwnWeights&) = delete;

 private:
  TrainableSet& set_;
  std::vector<at::Tensor> own_;
};

}  // namespace

RolloutPasses::RolloutPasses(Session& session, const DataSet& train, const StopFlag& stop)
    : session_(session), train_(train), stop_(stop) {
  if (needs_base(session.job)) base_ = std::make_unique<BaseModel>(session);
}

std::vector<std::vector<size_t>> RolloutPasses::batches(const Rollout& rollout, const std::vector<size_t>& which,
                                                       int64_t divisor) const {
  std::vector<int64_t> lengths, items;
  for (const size_t i : which) {
    const Completion& c = rollout.completions[i];
    items.push_back(static_cast<int64_t>(items.size()));
    lengths.push_back(train_.length(c.prompt) + static_cast<int64_t>(c.ids.size()));
  }
  std::vector<std::vector<size_t>> result;
  for (const std::vector<int64_t>& part : micro_batches(items, lengths, session_.job, divisor)) {
    result.emplace_back();
    for (const int64_t item : part) result.back().push_back(which[static_cast<size_t>(item)]);
  }
  return result;
}

Batch RolloutPasses::batch_of(const Rollout& rollout, const std::vector<size_t>& which) const {
  Batch batch;
  for (const size_t i : which) {
    const Completion& c = rollout.completions[i];
    Example example{static_cast<int64_t>(i), train_.example(c.prompt).ids, {}};
    example.supervised.assign(example.ids.size(), 0);
    example.ids.insert(example.ids.end(), c.ids.begin(), c.ids.end());
    example.supervised.resize(example.ids.size(), 1);
    const auto behind = example.supervised.end() - static_cast<int64_t>(c.ids.size());
    for (const IdSpan& span : c.inserted) std::fill(behind + span.begin, behind + span.end, uint8_t{0});
    batch.append(example);
  }
  return batch;
}

BatchTensors RolloutPasses::tensors_of(const Batch& batch) const {
  return to_tensors(batch, session_.model.spec, session_.model.type, session_.device);
}

void RolloutPasses::share_out(Rollout& rollout, const std::vector<size_t>& which, const std::vector<double>& numbers, const Give& give) {
  const double* next = numbers.data();
  for (const size_t i : which) {
    Completion& c = rollout.completions[i];
    give(c, next, next + c.tokens());
    next += c.tokens();
  }
  FORGE_CHECK(next == numbers.data() + numbers.size(), "numbers of other positions");
}

// Sets `numbers` of every completion to its share of what `compute` returns for micro-batches of
// all of them. Returns the seconds that it took.
template <class Compute>
double RolloutPasses::pass(Rollout& rollout, Numbers numbers, const Compute& compute) const {
  const auto start = Clock::now();
  std::vector<size_t> all(rollout.completions.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const Give give = [&](Completion& c, const double* begin, const double* end) {
    (c.*numbers).assign(begin, end);
  };
  for_each_part(session_.world, batches(rollout, all, 1), stop_, [&](const auto& which) {
    share_out(rollout, which, compute(tensors_of(batch_of(rollout, which))), give);
  });
  return seconds_since(start);
}

double RolloutPasses::pass_logps(Network& network, Numbers logps, Rollout& rollout) const {
  return pass(rollout, logps, [&](const BatchTensors& batch) {
    return host_doubles(network.rows(batch, policy_needs(session_.job.rollout.temperature)).logp);
  });
}

void RolloutPasses::add_values(Rollout& rollout) {
  const auto values = [&](const BatchTensors& batch) { return session_.value->values(batch); };
  rollout.old_seconds += pass(rollout, &Completion::values, values);
}

void RolloutPasses::add_drawn_logps(Rollout& rollout, const std::string& folder) {
  const auto start = Clock::now();
  const OwnWeights own(*session_.trainables);
  {
    c10::NoGradGuard no_grad;
    load_adapter(folder, session_.plan.model, *session_.trainables);
    session_.trainables->publish();
  }
  pass_logps(*session_.network, &Completion::drawn_logps, rollout);
  rollout.old_seconds += seconds_since(start);
}

void RolloutPasses::add_logps(Rollout& rollout, bool old, bool base) {
  if (old) rollout.old_seconds += pass_logps(*session_.network, &Completion::old_logps, rollout);
  if (base) rollout.base_seconds += pass_logps(base_->network(), &Completion::base_logps, rollout);
}

}  // namespace forge
