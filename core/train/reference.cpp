#include "core/train/reference.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/file.h"
#include "core/data/batch/packing.h"
#include "core/io/safetensors.h"
#include "core/objective/objective.h"
#include "core/tensor/dtype.h"
#include "core/train/sequence_head.h"
#include "core/train/step.h"
#include "providers/engine_providers.h"

namespace forge {
namespace {

// The base's own weights and who computes with them.
class BaseModel {
 public:
  explicit BaseModel(const Session& session)
      : model_(*session.base),
        nothing_(trained_layout({}), model_.type, model_.device, true),
        provider_(make_step_provider(session.plan.provider_name(), model_, nothing_, options(session))),
        network_(model_, nothing_, *provider_, session.job) {}
  Network& network() { return network_; }

 private:
  static StepOptions options(const Session& session) {
    StepOptions options{.shape = {.spec = session.plan.model, .training = {}, .recompute = {}}};
    const BatchRoom &training = session.plan.training_batch, &evaluation = session.plan.evaluation_batch;
    options.evaluation = {std::max(training.tokens, evaluation.tokens), std::max(training.targets, evaluation.targets)};
    return options;
  }
  Model model_;
  TrainableSet nothing_;
  std::unique_ptr<StepProvider> provider_;
  Network network_;
};

class ComputedReference : public Reference {
 public:
  explicit ComputedReference(const Session& session) : base_(session) {}
  std::vector<double> sums(const DataSet&, const Batch&, const BatchTensors& tensors) override {
    BatchTensors quiet = tensors;
    quiet.training = false;
    std::vector<double> sums;
    for (const ExampleLoss& loss : base_.network().evaluate(quiet)) sums.push_back(-loss.loss);
    return sums;
  }

 private:
  BaseModel base_;
};

// Of one split, by example.
struct KeptLogps {
  std::vector<float> logps;
  std::vector<int64_t> begins;  // [examples + 1]
};

std::vector<int64_t> begins_of(const DataSet& data) {
  std::vector<int64_t> begins{0};
  for (int64_t i = 0; i < data.size(); ++i) begins.push_back(begins.back() + data.supervised(i));
  return begins;
}

// Examples in order, as many as an evaluation takes at once.
std::vector<float> logps_of(Network& network, const Session& session, const DataSet& data, const StopFlag& stop) {
  std::vector<float> all;
  const std::vector<int64_t>& lengths = data.atom_lengths();
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  for (const std::vector<int64_t>& atoms : fill_in_order(order, lengths, evaluation_tokens(session.plan))) {
    if (stop.requested) throw StepInterrupted{};
    const BatchTensors tensors =
        to_tensors(make_batch(data, atoms), session.model.spec, session.model.type, session.device);
    const at::Tensor logps = network.token_logps(tensors).cpu().contiguous();
    all.insert(all.end(), logps.const_data_ptr<float>(), logps.const_data_ptr<float>() + logps.numel());
  }
  return all;
}

class KeptReference : public Reference {
 public:
  void add(const DataSet& data, std::vector<float> logps) {
    KeptLogps& kept = by_data_[data.content_hash()];
    kept = {std::move(logps), begins_of(data)};
    FORGE_CHECK(kept.begins.back() == static_cast<int64_t>(kept.logps.size()), "a reference of other data");
  }
  bool has(const DataSet& data) const { return by_data_.count(data.content_hash()) > 0; }
  std::vector<double> sums(const DataSet& data, const Batch& batch, const BatchTensors&) override {
    const KeptLogps& kept = by_data_.at(data.content_hash());
    std::vector<double> sums;
    for (int64_t example : batch.example_ids) {
      const auto i = static_cast<size_t>(example);
      sums.push_back(std::accumulate(kept.logps.begin() + kept.begins.at(i), kept.logps.begin() + kept.begins.at(i + 1), 0.0));
    }
    return sums;
  }

 private:
  std::map<std::string, KeptLogps> by_data_;  // content hash →
};

// One tensor a split, named by the hash of its content.
std::unique_ptr<KeptReference> read_kept(const ReferenceRequest& request) {
  if (request.path.empty() || !file_exists(request.path)) return nullptr;
  auto kept = std::make_unique<KeptReference>();
  try {
    const auto file = open_safetensors(request.path);
    for (const DataSet* data : request.data) {
      const int64_t index = file->find(data->content_hash());
      if (index < 0) return nullptr;
      std::vector<float> logps(static_cast<size_t>(file->tensors()[static_cast<size_t>(index)].count()));
      if (static_cast<int64_t>(logps.size()) != data->total_supervised_tokens()) return nullptr;
      file->read_f32(static_cast<size_t>(index), logps.data());
      kept->add(*data, std::move(logps));
    }
  } catch (const Error&) {
    return nullptr;
  }
  return kept;
}

std::unique_ptr<KeptReference> make_kept(Session& session, const ReferenceRequest& request, const StopFlag& stop) {
  auto kept = std::make_unique<KeptReference>();
  std::unique_ptr<BaseModel> base;
  if (session.base) base = std::make_unique<BaseModel>(session);
  std::vector<at::Tensor> host;
  std::vector<SafetensorsEntry> entries;
  for (const DataSet* data : request.data) {
    if (kept->has(*data)) continue;  // evaluated on what is trained on
    std::vector<float> logps = logps_of(base ? base->network() : *session.network, session, *data, stop);
    host.push_back(at::tensor(logps, at::kFloat));
    entries.push_back({{data->content_hash(), {static_cast<int64_t>(logps.size())}, DType::f32}, tensor_bytes(host.back())});
    kept->add(*data, std::move(logps));
  }
  if (!request.path.empty()) write_safetensors(request.path, entries, {{"format", "pt"}});
  return kept;
}

}  // namespace

std::unique_ptr<Reference> open_reference(Session& session, const ReferenceRequest& request, const StopFlag& stop) {
  const ObjectiveConfig& objective = session.job.objective;
  if (!objective_of(objective.type).has_reference) return nullptr;
  if (!*objective.reference_cache) return std::make_unique<ComputedReference>(session);
  std::unique_ptr<Reference> kept = read_kept(request);
  if (!kept && !request.at_start)
    throw Error(ErrorKind::environment, request.path + ": the reference's log-probabilities are gone or damaged, and training "
                                                       "has moved the weights that they were of")
        .hint("start over with --fresh");
  if (!kept) kept = make_kept(session, request, stop);
  session.base.reset();  // nobody asks it again
  return kept;
}

}  // namespace forge
