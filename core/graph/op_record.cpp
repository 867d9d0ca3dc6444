#include "core/graph/op_record.h"

namespace forge {
namespace {

// Returns the sum of a number of each row of the op's modules.
template <class Of>
auto sum(const Graph& graph, const Op& op, Of of) {
  decltype(of(graph.module(op))) total = 0;
  for (size_t i = 0; i < op.modules.size(); ++i) total += of(graph.module(op, i));
  return total;
}

}  // namespace

namespace flops {

double none(const Graph&, const Op&, double, double) { return 0; }

double elementwise(const Graph& graph, const Op& op, double rows, double) {
  return 8 * rows * static_cast<double>(graph.value(op.in[0]).width);
}

double held(const ModuleUse& module) {
  return static_cast<double>(std::max<int64_t>(module.experts, 1) * module.copies);
}

double weights(const Graph& graph, const Op& op) {
  return sum(graph, op, [](const ModuleUse& module) {
    return held(module) * static_cast<double>(module.in) * static_cast<double>(module.out);
  });
}

double factors(const Graph& graph, const Op& op) {
  return sum(graph, op, [](const ModuleUse& module) {
    return held(module) * static_cast<double>(module.rank) * static_cast<double>(module.in + module.out);
  });
}

Sides sides(const Graph& graph, const Op& op) {
  Sides all;
  for (size_t i = 0; i < op.modules.size(); ++i) {
    const ModuleUse& module = graph.module(op, i);
    all.in = static_cast<double>(module.in),
    all.out += static_cast<double>(module.copies * module.out);
    all.ranks += static_cast<double>(module.copies * module.rank);
  }
  return all;
}

}  // namespace flops

namespace types {
namespace {
ValueType type_of(const Graph& graph, ValueId id) { return graph.buffer_of(id).type; }
}  // namespace

bool any(const Graph&, const Op&) { return true; }
bool compute(const Graph& graph, const Op& op) { return type_of(graph, op.in[0]) == ValueType::compute; }
bool of_result(const Graph& graph, const Op& op) { return type_of(graph, op.in[0]) == type_of(graph, op.out[0]); }
bool other_than_result(const Graph& graph, const Op& op) { return !of_result(graph, op); }
bool norm_gradient(const Graph& graph, const Op& op) {
  const ValueType stream = type_of(graph, op.out[0]);
  return compute(graph, op) && type_of(graph, op.in[1]) == stream && (op.in.size() == 3 || type_of(graph, op.in[3]) == stream);
}

}  // namespace types

bool types_agree(const Graph& graph, const Op& op) { return op.in.empty() || op.kind->types(graph, op); }

int64_t rows_of(const Graph& graph, const Op& op, const StepSizes& sizes) {
  if (op.in.empty() && op.out.empty()) return 0;
  return sizes.rows(graph.buffer_of(op.in.empty() ? op.out[0] : op.in[0]).rows);
}

int64_t ranks_of(const Graph& graph, const Op& op) {
  return sum(graph, op, [](const ModuleUse& module) { return module.copies * module.rank; });
}

int64_t outs_of(const Graph& graph, const Op& op) {
  return sum(graph, op, [](const ModuleUse& module) { return module.copies * module.out; });
}

Cost cost_of(const Graph& graph, const Op& op, const StepSizes& sizes, double mean_length) {
  if (op.kind->waits) return {};
  const auto rows = static_cast<double>(rows_of(graph, op, sizes));
  Cost cost{op.kind->flops(graph, op, rows, mean_length), static_cast<double>(op.attributes.bytes)};
  for (const auto* values : {&op.in, &op.out})
    for (ValueId id : *values) {
      const Buffer& buffer = graph.buffer_of(id);
      cost.bytes +=
          static_cast<double>(sizes.rows(buffer.rows) * graph.value(id).width * sizes.element(buffer.type));
    }
  const bool adapters_alone = op.kind->reads == Reads::factors;
  cost.bytes += (adapters_alone ? flops::factors(graph, op) : flops::weights(graph, op)) * static_cast<double>(sizes.compute_bytes);
  return cost;
}

}  // namespace forge
