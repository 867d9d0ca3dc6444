#include <algorithm>

#include "core/base/text.h"
#include "core/config/names.h"
#include "core/graph/print.h"
#include "core/plan/explain.h"
#include "core/plan/inventory.h"

namespace forge {

std::string explain_step(const Plan& plan, const Provider& provider) {
  const StepShape shape = step_shape(plan, inventory_of(plan));
  const StepSizes sizes{plan.training_batch.tokens, plan.training_batch.targets, bytes_of(*plan.job.train.precision),
                        plan.device.cuda ? 1 : *plan.job.train.threads, plan.device.cuda};
  const double length =
      static_cast<double>(plan.train.tokens) / static_cast<double>(std::max<int64_t>(1, plan.train.examples));
  const std::string batch = "A micro-batch of " + format_count(sizes.tokens) + " tokens, " + format_count(sizes.targets) +
                            " of them supervised, in " + name_of(*plan.job.train.precision);
  // Without an arena the backward is LibTorch's.
  if (!provider.workspace)
    return batch + ", differentiated by LibTorch's autograd; computed again: " + describe(plan.recompute) + ".\n" +
           print(forward_list(shape), sizes, length, nullptr);
  const Graph graph = training_step(shape);
  const Layout layout = lay_out(graph, sizes, provider.workspace);
  return batch + ", in an arena of " + format_bytes(layout.bytes) + "; computed again: " + describe(plan.recompute) + ".\n" +
         print(graph, sizes, length, &layout);
}

}  // namespace forge
