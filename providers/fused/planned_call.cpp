#include "providers/fused/planned_call.h"

#include <algorithm>

namespace forge {
namespace {

// An address that nothing reads. Those of one object follow one another, as weights and gradients
// do.
class Addresses {
 public:
  template <class T>
  T* next(int64_t bytes) {
    return reinterpret_cast<T*>(std::exchange(next_, next_ + static_cast<uintptr_t>(bytes)));
  }

 private:
  uintptr_t next_ = kArenaAlignment;
};

struct Modules {
  Addresses weights, factors, d_weights, d_a, d_b;
};

// Returns a module whose every pointer is set that an op may find set.
FusedModule planned_module(const ModuleUse& use, Element type, int64_t ranks, Modules& at) {
  const int64_t width = bytes_of(type);
  FusedModule m{.held = type, .stride = use.in + ranks, .rows = use.out, .scale = 1};
  m.weight = use.fp8 ? nullptr : at.weights.next<void>(width * use.out * m.stride);
  m.fp8 = use.fp8;
  if (use.bias) m.bias = at.weights.next<void>(width * use.out);
  if (use.trained) m.d_weight = at.d_weights.next<float>(4 * use.in * use.out);
  if (use.bias && (use.trained || use.bias_trained)) m.d_bias = at.factors.next<float>(4 * use.out);
  if (use.rank == 0) return m;
  m.a = at.factors.next<void>(width * use.rank * use.in),
  m.b = at.factors.next<void>(width * use.out * use.rank);
  m.d_a = at.d_a.next<float>(4 * use.rank * use.in), m.d_b = at.d_b.next<float>(4 * use.out * use.rank);
  m.dropout = use.dropout ? 0.5 : 0;  // any probability takes the same memory
  return m;
}

std::vector<FusedModule> planned_modules(const Graph& graph, const Op& op, Element type, int32_t first) {
  if (op.modules.empty()) return {};
  const auto end = *std::max_element(op.modules.begin(), op.modules.end()) + 1;
  int64_t ranks = 0;
  for (size_t i = 0; i < op.modules.size(); ++i) ranks += graph.module(op, i).rank;
  Modules at;
  std::vector<FusedModule> modules;
  for (int32_t i = first; i < end; ++i)
    modules.push_back(planned_module(graph.modules[static_cast<size_t>(i)], type, ranks, at));
  return modules;
}

int32_t first_of(const Op& op) {
  return op.modules.empty() ? 0 : *std::min_element(op.modules.begin(), op.modules.end());
}

}  // namespace

PlannedCall::PlannedCall(const Graph& graph, const Op& op, const StepSizes& sizes)
    : memory_{.graph = graph,
              .capacity = sizes,
              .arena = reinterpret_cast<char*>(uintptr_t{kArenaAlignment}),
              .type = sizes.compute_bytes == 4 ? Element::f32 : Element::bf16,
              .tokens = sizes.tokens,
              .targets = sizes.targets},
      batch_{.dropout = true},
      modules_(planned_modules(graph, op, memory_.type, first_of(op))),
      call_{memory_, op, memory_.arena, modules_, first_of(op), batch_} {}

}  // namespace forge
