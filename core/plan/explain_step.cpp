#include <algorithm>

#include "core/job/names.h"
#include "core/lib/base/text.h"
#include "core/model/graph/print.h"
#include "core/plan/explain.h"
#include "core/plan/stages/inventory.h"

namespace forge {

std::string explain_step(const Plan& plan, const Provider& provider) {
  const Inventory inventory = inventory_of(plan);
  const int64_t targets = plan.training_batch.targets;
  const bool source = plan.model.reads_source();
  const StepSizes sizes{.tokens = source ? targets : plan.training_batch.tokens,
                        .targets = targets,
                        .compute_bytes = bytes_of(*plan.job.train.precision),
                        .threads = plan.device.cuda ? 1 : *plan.job.train.threads,
                        .gpu = plan.device.cuda,
                        .source = plan.training_batch.source,
                        .multiprocessors = multiprocessors_of(plan.device),
                        .capability = plan.device.gpu.compute_capability,
                        .deterministic = plan.job.train.deterministic,
                        .aten = provider.aten};
  const double length =
      static_cast<double>(plan.train.tokens) / static_cast<double>(std::max<int64_t>(1, plan.train.examples));
  const std::string batch = "A micro-batch of " + format_count(plan.training_batch.tokens) + " tokens, " + format_count(sizes.targets) +
                            " of them supervised, in " + name_of(*plan.job.train.precision);
  const Graph& graph = inventory.lists->training(plan.step);
  const Layout layout = lay_out(graph, sizes, provider.workspace);
  return batch + ", in an arena of " + format_bytes(layout.bytes) + "; computed again: " + describe(plan.step.recompute) + ".\n" +
         print(graph, sizes, length, &layout);
}

}  // namespace forge
