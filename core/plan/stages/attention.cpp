#include "core/plan/stages/attention.h"

#include <map>
#include <set>

#include "core/model/families/step.h"
#include "core/model/graph/recompute.h"
#include "core/plan/stages/compute.h"
#include "core/plan/stages/provider.h"
#include "kernels/attention/attention_op.h"

namespace forge {

std::vector<AttentionUse> attention_of(const Compute& plan, const Provider& provider, int64_t micro_batch_tokens) {
  ActivationShape shape = model_shape(plan);
  shape.capability = plan.device.gpu.compute_capability;
  shape.longest_sequence = plan.job.data.max_length, shape.micro_batch_tokens = micro_batch_tokens;
  std::map<std::pair<Attention, std::string>, std::set<int64_t>> layers;
  for (const Op& op : forward_list({plan.model, {.experts = Experts::in_rows}}).ops) {
    if (op.kind != &ops::attention) continue;
    const Choice<Attention> choice = provider.attention(shape, op.attributes);
    layers[{choice.value, choice.reason}].insert(op.layer);
  }
  std::vector<AttentionUse> uses;
  for (const auto& [choice, of] : layers) uses.push_back({choice.first, layer_ranges(of), choice.second});
  return uses;
}

}  // namespace forge
