#include "core/model/graph/fold_gates.h"

#include <algorithm>

#include "kernels/lora/folded_op.h"
#include "kernels/lora/gated_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {
namespace {

// True for the gates of MLPs that the kernels of folded adapters compute.
bool two_inputs(const Graph& graph, const Op& op) {
  const bool of_mlp = op.attributes.gate == GateKind::silu || op.attributes.gate == GateKind::gelu_tanh;
  return of_mlp && op.attributes.gate_half == 0 && graph.buffer_of(op.in.back()).rows == Rows::tokens;
}

bool within(const Graph& graph, const Op& op, int64_t most) {
  for (size_t i = 0; i < op.modules.size(); ++i)
    if (graph.module(op, i).rank > most) return false;
  return true;
}

// Returns the op `count` places after the one at `at`, if it is of this kind and belongs to the
// same layer.
const Op* behind(const std::vector<Op>& ops, size_t at, size_t count, OpKind kind) {
  const bool fits = at + count < ops.size() && ops[at + count].layer == ops[at].layer &&
                    ops[at + count].kind == kind;
  return fits ? &ops[at + count] : nullptr;
}

// True if an op of the same layer reads the value, from so many behind the one at `at` on.
bool read_behind(const std::vector<Op>& ops, size_t at, size_t from, ValueId value) {
  for (size_t i = at + from; i < ops.size() && ops[i].layer == ops[at].layer; ++i)
    if (ops[i].reads(value)) return true;
  return false;
}

// Returns the op that makes s of the adapter that reads y, if it follows directly.
const Op* sums_behind(const Graph& graph, const std::vector<Op>& ops, size_t at) {
  const Op& glu = ops[at];
  if (glu.kind != &ops::glu || !two_inputs(graph, glu)) return nullptr;
  const Op* sums = behind(ops, at, 1, &ops::adapter_sums);
  const bool fits = sums && sums->in[0] == glu.out[0] && sums->modules.size() == 1 && within(graph, *sums, kMostGatedSums);
  return fits ? sums : nullptr;
}

// Returns the op that makes d A of the adapter that reads y, if nothing else reads y and d y is not
// read again.
const Op* reader_behind(const Graph& graph, const std::vector<Op>& ops, size_t at) {
  const Op& back = ops[at];
  const Op* reader =
      back.out.size() > 2 ? behind(ops, at, 1, &ops::adapter_input_gradient) : nullptr;
  const bool fits = reader && reader->in[1] == back.out[2] && reader->modules.size() == 1 && within(graph, *reader, kMostGatedGradients) &&
                    !read_behind(ops, at, 2, back.out[2]) && !read_behind(ops, at, 1, back.in[0]);
  return fits ? reader : nullptr;
}

// Returns the op that makes d s and d B of gate's and up's adapters, whose d y is d gate and d up
// side by side.
const Op* makers_behind(const Graph& graph, const std::vector<Op>& ops, size_t at, size_t count) {
  const Op* makers = behind(ops, at, count, &ops::adapter_sums_gradient);
  if (!makers) return nullptr;
  const Op& back = ops[at];
  const Value &gate = graph.value(back.out[0]), &up = graph.value(back.out[1]), &both = graph.value(makers->in[0]);
  const bool fits = makers->modules.size() == 2 && within(graph, *makers, kMostGatedGradients) && gate.buffer == both.buffer &&
                    up.buffer == both.buffer && gate.column == both.column && up.column == gate.column + gate.width &&
                    both.width == gate.width + up.width && graph.module(*makers, 0).out == gate.width;
  return fits ? makers : nullptr;
}

}  // namespace

void fold_gates(Graph& graph) {
  std::vector<Op> ops = std::move(graph.ops);
  graph.ops.clear();
  graph.ops.reserve(ops.size());
  const size_t forward = graph.forward_ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    Op& op = ops[i];
    if (i == forward) graph.forward_ops = graph.ops.size();
    if (const Op* sums = sums_behind(graph, ops, i); sums && i + 1 != forward) {
      op.kind = &ops::glu_sums;
      op.out.insert(op.out.end(), sums->out.begin(), sums->out.end()), op.modules = sums->modules;
      ++i;
    } else if (op.kind == &ops::glu_backward && two_inputs(graph, op)) {
      const Op* reader = reader_behind(graph, ops, i);
      const bool apart = op.out.size() > 2 && !reader;  // y is wanted in memory
      const Op* makers = apart ? nullptr : makers_behind(graph, ops, i, reader ? 2 : 1);
      if (reader || makers) op.kind = &ops::glu_adapters_backward;
      if (reader) op.out.resize(2), op.in.push_back(reader->in[0]), op.modules = reader->modules, ++i;
      if (makers) {
        op.in.push_back(makers->in[1]), op.out.push_back(makers->out[0]);
        op.modules.insert(op.modules.end(), makers->modules.begin(), makers->modules.end()), ++i;
      }
    }
    graph.ops.push_back(std::move(op));
  }
  if (forward == ops.size()) graph.forward_ops = graph.ops.size();
}

}  // namespace forge
