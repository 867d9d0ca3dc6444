#include "core/train/divergence.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "core/data/batch/packing.h"
#include "core/learn/objective/objective.h"
#include "core/train/reference.h"
#include "core/train/step.h"

namespace forge {

MismatchedBatches mismatched_batches(const Session& session, const DataSet& data) {
  return {session.model, data, evaluation_tokens(session.plan), session.job.data.max_length, session.world};
}

void for_each_mismatched(const MismatchedBatches& batches, const std::vector<Mismatch>& all, const StopFlag& stop,
                         const TakeMismatched& take) {
  const auto example = [&](const Mismatch& mismatch) { return mismatched_example(batches.data, mismatch, batches.max_length); };
  std::vector<int64_t> order(all.size()), lengths;
  std::iota(order.begin(), order.end(), 0);
  for (const Mismatch& mismatch : all) lengths.push_back(static_cast<int64_t>(example(mismatch).ids.size()));
  for_each_part(batches.world, fill_in_order(order, lengths, batches.batch_tokens), stop, [&](const std::vector<int64_t>& part) {
    std::vector<Mismatch> some;
    Batch batch;
    for (const int64_t i : part) {
      some.push_back(all[static_cast<size_t>(i)]);
      batch.append(example(some.back()));
    }
    take(some, to_tensors(batch, batches.model.spec, batches.model.type, batches.model.device));
  });
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

std::vector<int64_t> all_examples(const DataSet& data) {
  std::vector<int64_t> all(static_cast<size_t>(data.size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace forge
