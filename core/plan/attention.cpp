#include "core/plan/attention.h"

#include <map>
#include <set>

#include "core/model/families/step.h"
#include "core/model/graph/recompute.h"
#include "core/plan/plan.h"
#include "core/plan/provider.h"

namespace forge {

const std::vector<std::string>& names(Attention) {
  static const std::vector<std::string> all{"tiles", "flash", "efficient", "own", "sdpa", "eager"};
  return all;
}
const std::vector<std::string>& names(LossScaling) {
  static const std::vector<std::string> all{"none", "dynamic"};
  return all;
}

void resolve_attention(Plan& plan, const Provider& provider) {
  ActivationShape shape;
  shape.spec = plan.model, shape.adapter = plan.job.adapter, shape.precision = *plan.job.train.precision;
  shape.cuda = plan.device.cuda, shape.capability = plan.device.gpu.compute_capability;
  shape.longest_sequence = plan.job.data.max_length, shape.micro_batch_tokens = *plan.job.train.micro_batch_tokens;
  std::map<std::pair<Attention, std::string>, std::set<int64_t>> layers;
  for (const Op& op : forward_list({plan.model}).ops) {
    if (op.kind != OpKind::attention) continue;
    const Choice<Attention> choice = provider.attention(shape, op.attributes);
    layers[{choice.value, choice.reason}].insert(op.layer);
  }
  plan.attention.clear();
  for (const auto& [choice, of] : layers) plan.attention.push_back({choice.first, layer_ranges(of), choice.second});
}

}  // namespace forge
