#include "core/train/reference.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "core/data/batch/order.h"
#include "core/data/batch/packing.h"
#include "core/lib/io/safetensors.h"
#include "core/learn/objective/objective.h"
#include "core/model/dtype.h"
#include "core/train/other_networks.h"

namespace forge {
namespace {

// Computes with the network that an owner has: a BaseModel, a LoadedNetwork.
template <class Owner>
class ComputedReference : public Reference {
 public:
  template <class... Args>
  explicit ComputedReference(Args&&... args) : owner_(std::forward<Args>(args)...) {}
  std::vector<double> sums(const DataSet&, const Batch&, const BatchTensors& tensors) override { return sums_of(tensors); }
  std::vector<double> mismatched_sums(const DataSet&, const std::vector<Mismatch>&, const BatchTensors& tensors) override {
    return sums_of(tensors);
  }

 private:
  std::vector<double> sums_of(BatchTensors tensors) {
    tensors.training = false;
    std::vector<double> sums;
    for (const SequenceSums& answer : owner_.network().answers(tensors)) sums.push_back(answer.logp);
    return sums;
  }
  Owner owner_;
};

// Log-probabilities kept for one split.
struct KeptLogps {
  std::vector<float> logps;                   // by example
  std::vector<int64_t> begins;                // [examples + 1]
  std::map<Mismatch, double> mismatched_sums;  // of kto
};

std::vector<int64_t> begins_of(const DataSet& data) {
  std::vector<int64_t> begins{0};
  for (int64_t i = 0; i < data.size(); ++i) begins.push_back(begins.back() + data.supervised(i));
  return begins;
}

// Returns the log-probabilities of the examples in order, as many computed at once as an evaluation
// takes.
std::vector<float> logps_of(Network& network, const Session& session, const DataSet& data, const StopFlag& stop) {
  std::vector<float> all;
  const Parts parts =
      fill_in_order(numbers_below(data.atoms()), data.atom_lengths(), evaluation_tokens(session.plan));
  for_each_part(session.world, parts, stop, [&](const std::vector<int64_t>& atoms) {
    const BatchTensors tensors =
        to_tensors(make_batch(data, atoms), session.model.spec, session.model.type, session.device);
    const at::Tensor logps = network.rows(tensors).logp.cpu().contiguous();
    all.insert(all.end(), logps.const_data_ptr<float>(), logps.const_data_ptr<float>() + logps.numel());
  });
  return all;
}

// A split whose answers are needed, with the mismatched ones that will be.
struct Asked {
  const DataSet* data;
  std::vector<Mismatch> mismatches;  // each once, in order
};

std::vector<Asked> asked_for(const Session& session, const ReferenceRequest& request) {
  const bool estimates = objective_of(session.job.objective.type()).coupling == Coupling::answer;
  std::vector<Asked> asked{{request.train, {}}};
  if (request.eval) asked.push_back({request.eval, {}});
  if (!estimates) return asked;
  const std::vector<int64_t> lengths = request.train->atom_lengths();
  Epochs steps("steps", [&](int64_t epoch) { return epoch_steps(lengths, session.job, epoch); });
  std::set<Mismatch> of_steps;
  for (int64_t step = 0; step < session.plan.steps; ++step)
    for (const Mismatch& mismatch : mismatches(*request.train, steps[step])) of_steps.insert(mismatch);
  asked[0].mismatches.assign(of_steps.begin(), of_steps.end());
  if (request.eval) asked[1].mismatches = mismatches(*request.eval, numbers_below(request.eval->atoms()));
  return asked;
}

class KeptReference : public Reference {
 public:
  void add(const Asked& asked, std::vector<float> logps, const std::vector<float>& mismatched) {
    KeptLogps& kept = by_data_[asked.data->content_hash()];
    if (kept.begins.empty()) kept = {std::move(logps), begins_of(*asked.data), {}};
    FORGE_CHECK(kept.begins.back() == static_cast<int64_t>(kept.logps.size()), "a reference of other data");
    for (size_t i = 0; i < asked.mismatches.size(); ++i)
      kept.mismatched_sums[asked.mismatches[i]] = static_cast<double>(mismatched[2 * i]) + static_cast<double>(mismatched[2 * i + 1]);
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
  std::vector<double> mismatched_sums(const DataSet& data, const std::vector<Mismatch>& batch, const BatchTensors&) override {
    const KeptLogps& kept = by_data_.at(data.content_hash());
    std::vector<double> sums;
    for (const Mismatch& mismatch : batch) sums.push_back(kept.mismatched_sums.at(mismatch));
    return sums;
  }

 private:
  std::map<std::string, KeptLogps> by_data_;  // content hash →
};

// The file has two tensors for each split: one by token, and one for answers to other prompts. The
// latter holds each answer's sum in fp32 and its rounding error, so that a model that did not move
// is at distance zero.
std::string mismatched_name(const Asked& asked, size_t split) {
  return asked.data->content_hash() + ".mismatched." + std::to_string(split);
}

constexpr std::string_view kHashName = "hash";  // of the other tensors, as text

// Sorts the tensors by name and returns their hash.
std::string hash_of(std::vector<SafetensorsEntry>& entries) {
  std::ranges::sort(entries, {}, [](const SafetensorsEntry& entry) { return entry.info.name; });
  Hasher hasher;
  for (const SafetensorsEntry& entry : entries) hasher.add(entry.info.name).add(entry.bytes);
  return hasher.hex();
}

// True if the file states the hash that its tensors have.
bool is_whole(const TensorFile& file) {
  std::vector<SafetensorsEntry> entries;
  std::string stated;
  for (size_t i = 0; i < file.tensors().size(); ++i)
    if (file.tensors()[i].name == kHashName)
      stated = file.bytes(i);
    else
      entries.push_back({file.tensors()[i], file.bytes(i)});
  return stated == hash_of(entries);
}

// Reads the kept log-probabilities; null if the file does not have them. Sets `*damaged` to true if
// there is a file that is not what was written.
std::unique_ptr<KeptReference> read_kept(const std::string& path, const std::vector<Asked>& all, bool* damaged) {
  if (path.empty() || !file_exists(path)) return nullptr;
  auto kept = std::make_unique<KeptReference>();
  *damaged = true;
  try {
    const auto file = open_safetensors(path);
    if (!is_whole(*file)) return nullptr;
    *damaged = false;
    const auto read = [&](const std::string& name, int64_t count) -> std::optional<std::vector<float>> {
      const int64_t index = file->find(name);
      if (index < 0 || file->tensors()[static_cast<size_t>(index)].count() != count) return std::nullopt;
      std::vector<float> values(static_cast<size_t>(count));
      file->read_f32(static_cast<size_t>(index), values.data());
      return values;
    };
    for (size_t i = 0; i < all.size(); ++i) {
      auto logps = read(all[i].data->content_hash(), all[i].data->total_supervised_tokens());
      std::optional<std::vector<float>> mismatched = std::vector<float>();
      if (!all[i].mismatches.empty())
        mismatched = read(mismatched_name(all[i], i), 2 * static_cast<int64_t>(all[i].mismatches.size()));
      if (!logps || !mismatched) return nullptr;
      kept->add(all[i], std::move(*logps), *mismatched);
    }
  } catch (const Error&) {
    return nullptr;
  }
  return kept;
}

MismatchedBatches mismatched_batches(const Session& session, const DataSet& data) {
  return {session.model, data, evaluation_tokens(session.plan), session.job.data.max_length, session.world};
}

// Calls `take` for batches of an evaluation's size. Throws StepInterrupted when a stop is asked
// for.
using TakeMismatched = std::function<void(const std::vector<Mismatch>& batch, const BatchTensors& tensors)>;
void for_each_mismatched(const MismatchedBatches& batches, const std::vector<Mismatch>& all, const StopFlag& stop,
                         const TakeMismatched& take) {
  const auto example = [&](const Mismatch& mismatch) { return mismatched_example(batches.data, mismatch, batches.max_length); };
  std::vector<int64_t> lengths;
  for (const Mismatch& mismatch : all) lengths.push_back(static_cast<int64_t>(example(mismatch).ids.size()));
  const Parts parts = fill_in_order(numbers_below(std::ssize(all)), lengths, batches.batch_tokens);
  for_each_part(batches.world, parts, stop, [&](const std::vector<int64_t>& part) {
    std::vector<Mismatch> some;
    Batch batch;
    for (const int64_t i : part) {
      some.push_back(all[static_cast<size_t>(i)]);
      batch.append(example(some.back()));
    }
    take(some, to_tensors(batch, batches.model.spec, batches.model.type, batches.model.device));
  });
}

std::unique_ptr<KeptReference> make_kept(Session& session, const std::string& path, const std::vector<Asked>& all,
                                         const StopFlag& stop) {
  auto kept = std::make_unique<KeptReference>();
  std::unique_ptr<BaseModel> base;
  if (session.base) base = std::make_unique<BaseModel>(session);
  Network& network = base ? base->network() : *session.network;
  std::vector<at::Tensor> host;
  std::vector<SafetensorsEntry> entries;
  const auto keep = [&](const std::string& name, const std::vector<float>& values) {
    host.push_back(at::tensor(values, at::kFloat));
    entries.push_back({{name, {static_cast<int64_t>(values.size())}, DType::f32}, tensor_bytes(host.back())});
  };
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<float> logps, mismatched;
    if (!kept->has(*all[i].data)) {  // otherwise evaluation uses the training data
      logps = logps_of(network, session, *all[i].data, stop);
      keep(all[i].data->content_hash(), logps);
    }
    if (!all[i].mismatches.empty()) {
      for_each_mismatched(mismatched_batches(session, *all[i].data), all[i].mismatches, stop, [&](const std::vector<Mismatch>&, const BatchTensors& tensors) {
        for (const SequenceSums& answer : network.answers(tensors)) {
          mismatched.push_back(static_cast<float>(answer.logp));
          mismatched.push_back(static_cast<float>(answer.logp - static_cast<double>(mismatched.back())));
        }
      });
      keep(mismatched_name(all[i], i), mismatched);
    }
    kept->add(all[i], std::move(logps), mismatched);
  }
  if (path.empty()) return kept;
  const std::string hash = hash_of(entries);
  entries.push_back({{std::string(kHashName), {static_cast<int64_t>(hash.size())}, DType::u8}, hash});
  write_safetensors(path, entries, {{"format", "pt"}});
  return kept;
}

}  // namespace

std::unique_ptr<Reference> open_reference(Session& session, const ReferenceRequest& request, const StopFlag& stop) {
  const ObjectiveConfig& objective = session.job.objective;
  if (!objective_of(objective.type()).has_reference) return nullptr;
  if (!*objective.as<Referenced>().reference_cache) return std::make_unique<ComputedReference<BaseModel>>(session);
  const std::vector<Asked> asked = asked_for(session, request);
  bool damaged = false;
  std::unique_ptr<Reference> kept = read_kept(request.path, asked, &damaged);
  // The base does not change.
  if (!kept && !request.at_start && !session.base)
    throw Error(ErrorKind::environment, request.path + ": the reference's log-probabilities are missing, damaged or of fewer steps, "
                                                       "and training has changed the weights they came from")
        .hint("start over with --fresh");
  if (damaged && request.warn) request.warn(request.path + ": is damaged; the reference's log-probabilities are computed again");
  if (!kept) kept = make_kept(session, request.path, asked, stop);
  session.base.reset();  // not needed any more
  return kept;
}

std::unique_ptr<Reference> loaded_reference(LoadedModel loaded, const std::string& provider) {
  return std::make_unique<ComputedReference<LoadedNetwork>>(std::move(loaded), provider);
}

double divergence_of(Network& network, Reference* reference, const ObjectiveConfig& objective, const MismatchedBatches& batches,
                     const std::vector<int64_t>& examples, const StopFlag& stop) {
  if (objective_of(objective.type()).coupling != Coupling::answer) return 0;
  const std::vector<Mismatch> all = mismatches(batches.data, examples);
  double sum = 0;
  for_each_mismatched(batches, all, stop, [&](const std::vector<Mismatch>& batch, const BatchTensors& tensors) {
    for (const SequenceSums& answer : network.answers(tensors)) sum += answer.logp;
    for (const double logp : reference->mismatched_sums(batches.data, batch, tensors)) sum -= logp;
  });
  return all.empty() ? 0 : std::max(0.0, sum / static_cast<double>(all.size()));
}

double divergence_of(Session& session, const DataSet& data, const std::vector<int64_t>& examples, const StopFlag& stop) {
  return divergence_of(*session.network, session.reference.get(), session.job.objective, mismatched_batches(session, data), examples,
                       stop);
}

}  // namespace forge
