#include "kernels/call/planned_call.h"

#include <algorithm>
#include <utility>

#include "core/graph/op_record.h"
#include "kernels/device/launches.h"

namespace forge {
namespace {

// Addresses that nothing reads. Those of one object follow one another, as weights and gradients
// do.
class Addresses {
 public:
  template <class T>
  T* next(int64_t bytes) {
    return reinterpret_cast<T*>(std::exchange(next_, next_ + static_cast<uintptr_t>(bytes)));
  }

 private:
  uintptr_t next_ = kListedModules;
};

// Gradients of biases lie between those of their weights, in the order of the parameters.
struct Modules {
  Addresses weights, factors, gradients, d_a, d_b;
};

// Returns a module whose every pointer is set that an op may find set.
OpModule planned_module(const ModuleUse& use, const Op& op, Element type, int64_t ranks, const GpuStep& held, Modules& at) {
  const int64_t width = bytes_of(type);
  const bool frozen = use.kind == ModuleKind::linear && !use.trained, converted = frozen && held.converted;
  const Element other = type == Element::f32 ? Element::bf16 : Element::f32;
  OpModule m{.held = converted ? other : type, .stride = use.in + (converted ? 0 : ranks), .rows = use.out, .scale = 1};
  if (use.fp8 || (frozen && held.in_blocks))
    m.blocks = {.rows = use.out, .columns = use.in, .codes = at.weights.next<uint8_t>(use.out * use.in)};
  else
    m.weight = at.weights.next<void>(width * use.out * m.stride);
  m.fp8 = use.fp8;
  if (use.bias) m.bias = at.factors.next<void>(width * use.out);
  if (use.trained) m.d_weight = at.gradients.next<float>(4 * use.in * use.out);
  if (use.bias && (use.trained || use.bias_trained)) m.d_bias = at.gradients.next<float>(4 * use.out);
  if (use.rank == 0) return m;
  m.a = at.factors.next<void>(width * use.rank * use.in),
  m.b = at.factors.next<void>(width * use.out * use.rank);
  m.d_a = at.d_a.next<float>(4 * use.rank * use.in), m.d_b = at.d_b.next<float>(4 * use.out * use.rank);
  if (op.attributes.unscaled) m.magnitude = at.factors.next<void>(width * use.out);
  m.dropout = use.dropout ? 0.5 : 0;  // any probability takes the same memory
  return m;
}

std::vector<OpModule> planned_modules(const Graph& graph, const Op& op, Element type, const GpuStep& held, int32_t first) {
  if (op.modules.empty()) return {};
  const auto end = *std::max_element(op.modules.begin(), op.modules.end()) + 1;
  const int64_t ranks = ranks_of(graph, op);
  Modules at;
  std::vector<OpModule> modules;
  for (int32_t i = first; i < end; ++i)
    modules.push_back(planned_module(graph.modules[static_cast<size_t>(i)], op, type, ranks, held, at));
  return modules;
}

int32_t first_of(const Op& op) {
  return op.modules.empty() ? 0 : *std::min_element(op.modules.begin(), op.modules.end());
}

}  // namespace

PlannedCall::PlannedCall(const Graph& graph, const Op& op, const StepSizes& sizes, const GpuStep& held)
    : memory_{.graph = graph,
              .capacity = sizes,
              .arena = reinterpret_cast<char*>(uintptr_t{kArenaAlignment}),
              .type = sizes.compute_bytes == 4 ? Element::f32 : Element::bf16,
              .tokens = sizes.tokens,
              .targets = sizes.targets,
              .source = sizes.source},
      batch_{.dropout = true, .expert_ends = &ends_},
      modules_(planned_modules(graph, op, memory_.type, held, first_of(op))),
      call_{memory_, op, memory_.arena, modules_, first_of(op), batch_} {
  if (op.kind->workspace) return;  // a copy, which has a slot, needs none
  const auto slots = static_cast<size_t>(op.attributes.slot) + 1;
  memory_.layout.host_offsets.resize(slots), memory_.host.copied.resize(slots);
}

int64_t planned_workspace(const Graph& graph, const Op& op, const StepSizes& sizes) {
  return op.kind->workspace ? op.kind->workspace(PlannedCall(graph, op, sizes)) : 0;
}

}  // namespace forge
