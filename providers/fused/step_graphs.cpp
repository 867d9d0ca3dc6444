#include "providers/fused/step_graphs.h"

#include <algorithm>
#include <tuple>

namespace forge {
namespace {

constexpr size_t kMostGraphs = 16;  // of shapes that come again; the one that was not used for longest is let go

// Blocks aside: a list that decodes weights is not captured.
auto numbers_of(const FusedModule& m) {
  return std::tie(m.weight, m.held, m.stride, m.rows, m.bias, m.a, m.b, m.magnitude, m.scale, m.dropout, m.dropout_stream, m.d_weight, m.d_bias,
                  m.d_a, m.d_b, m.d_magnitude);
}
bool same(const std::vector<FusedModule>& a, const std::vector<FusedModule>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const FusedModule& x, const FusedModule& y) { return numbers_of(x) == numbers_of(y); });
}

}  // namespace

StepGraphs::Entry& StepGraphs::entry_of(const StepMemory& m, const FusedModules& modules, const StepBatch& batch) {
  for (Entry& e : entries_)
    if (e.tokens == m.tokens && e.targets == m.targets && e.arena == m.arena && e.batch == batch && same(e.modules, modules.all())) return e;
  if (entries_.size() == kMostGraphs)
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; }));
  return entries_.emplace_back(Entry{m.tokens, m.targets, m.arena, batch, modules.all(), nullptr, 0});
}

void StepGraphs::run(ComputeDevice& device, const StepMemory& memory, const FusedModules& modules, const StepBatch& batch,
                     const std::function<void()>& work) {
  Entry& entry = entry_of(memory, modules, batch);
  const bool is_new = entry.used == 0;
  entry.used = ++uses_;
  if (is_new) return work();
  if (!entry.graph) entry.graph = device.capture(work);
  device.replay(*entry.graph);
}

}  // namespace forge
