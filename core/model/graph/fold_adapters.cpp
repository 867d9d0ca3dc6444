#include "core/model/graph/fold_adapters.h"

#include <algorithm>
#include <map>

#include "core/lib/base/error.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lora/folded_op.h"
#include "kernels/lora/lora_op.h"

namespace forge {
namespace {

bool alone(const Graph& graph, ValueId id) {
  return graph.value(id).column == 0 && graph.value(id).width == graph.buffer_of(id).width;
}

class Folding {
 public:
  explicit Folding(Graph& graph) : graph_(graph), before_(std::move(graph.ops)), folds_(before_.size()), buffers_(graph.buffers) {
    for (size_t i = 0; i < before_.size(); ++i) {
      const Op& op = before_[i];
      folds_[i] = op.kind == &ops::linear && folds(graph, op);
      if (folds_[i]) ++readers_[graph.value(op.in[0]).buffer];
      if (op.kind == &ops::adapter_gradient) gradients_.try_emplace(op.in[2], i);
    }
  }

  void fold() {
    graph_.ops.clear();
    graph_.ops.reserve(2 * before_.size());
    size_t forward = 0;
    for (size_t i = 0; i < before_.size(); ++i) {
      Op op = std::move(before_[i]);
      for (auto* values : {&op.in, &op.out, &op.parts}) rename(*values);
      visit(i, std::move(op));
      if (i + 1 == graph_.forward_ops) forward = graph_.ops.size();
    }
    graph_.forward_ops = forward;
    for (Value& value : graph_.values) rename(value.of);
  }

 private:
  void rename(std::vector<ValueId>& values) const {
    for (ValueId& value : values)
      if (auto found = renamed_.find(value); found != renamed_.end()) value = found->second;
  }

  void visit(size_t at, Op op) {
    if (folds_[at]) return linear(std::move(op));
    if (op.kind == &ops::linear_input_gradient)
      if (const Op* adapter = gradient_behind(at, op)) return input_gradient(std::move(op), *adapter);
    if (op.kind == &ops::adapter_gradient && sums_.count(op.in[2])) return adapter_gradient(std::move(op));
    graph_.ops.push_back(std::move(op));
  }

  Op& push(OpKind kind, const Op& like, std::vector<ValueId> in, std::vector<ValueId> out) {
    Op op{.kind = kind, .layer = like.layer, .in = std::move(in), .out = std::move(out), .modules = like.modules};
    op.attributes = like.attributes;
    graph_.ops.push_back(std::move(op));
    return graph_.ops.back();
  }

  // Returns columns after a value that fills its buffer. Others may use the same columns earlier
  // and later.
  ValueId behind(ValueId id, int64_t ranks) {
    const Value value = graph_.value(id);
    FORGE_CHECK(value.column == 0 && value.width == buffers_[static_cast<size_t>(value.buffer)].width,
                value.name << " has no room behind it");
    int64_t& width = graph_.buffers[static_cast<size_t>(value.buffer)].width;
    width = std::max(width, value.width + spare_columns(ranks));
    return graph_.add_value(value.name + ".s", value.buffer, value.width, ranks);
  }

  void linear(Op op) {
    const int64_t ranks = ranks_of(graph_, op);
    const ValueId x = op.in[0], s = behind(x, ranks);
    std::vector<ValueId> made{s};
    if (const Op* gradient = reader_of(op.out[1])) {
      // If x is kept and no other columns are used after it, s stays there.
      const bool stays = gradient->in[1] == x && readers_[graph_.value(x).buffer] == 1;
      if (!stays) made.push_back(graph_.new_value(graph_.value(s).name + ".kept", graph_.buffer_of(x).rows, ranks));
      sums_[op.out[1]] = made.back();
    }
    push(&ops::adapter_sums, op, {x}, made);
    op.in.push_back(s);
    op.out.resize(1);
    op.attributes.folded = true;
    graph_.ops.push_back(std::move(op));
  }
  const Op* reader_of(ValueId sums) const {
    auto found = gradients_.find(sums);
    return found == gradients_.end() ? nullptr : &before_[found->second];
  }

  // Returns the gradient of the adapters that belong to an input gradient, if that is folded. It
  // comes before the next input gradient.
  const Op* gradient_behind(size_t at, const Op& op) const {
    for (size_t i = at + 1; i < before_.size() && before_[i].kind != &ops::linear_input_gradient; ++i) {
      const Op& other = before_[i];
      if (other.kind == &ops::adapter_gradient && other.modules == op.modules && sums_.count(other.in[2])) return &other;
    }
    return nullptr;
  }

  ValueId sums_gradient(const Op& adapter) {
    const ValueId d_y = adapter.in[0];
    auto [d_s, is_new] = d_sums_.try_emplace(adapter.in[2], kNoValue);
    if (is_new) {
      d_s->second = behind(d_y, ranks_of(graph_, adapter));
      push(&ops::adapter_sums_gradient, adapter, {d_y, sums_.at(adapter.in[2])}, {d_s->second});
      graph_.ops.back().attributes.accumulate = false;
    }
    return d_s->second;
  }
  void input_gradient(Op op, const Op& adapter) {
    op.in.insert(op.in.begin() + 1, sums_gradient(adapter));
    op.attributes.folded = true;
    graph_.ops.push_back(std::move(op));
  }
  void adapter_gradient(Op op) {
    const ValueId d_s = sums_gradient(op);
    if (!op.out.empty()) renamed_[op.out[0]] = op.in.back();  // d x has what would be added to it
    push(&ops::adapter_input_gradient, op, {d_s, op.in[1]}, {}).attributes.accumulate = false;
  }

  Graph& graph_;
  std::vector<Op> before_;  // those that were visited have moved on
  std::vector<bool> folds_;            // of those, by their index
  const std::vector<Buffer> buffers_;  // as they were
  std::map<ValueId, size_t> gradients_;                 // ops that make those of adapters, by the sums they read
  std::map<int32_t, int64_t> readers_;                  // folded linears, by their input's buffer
  std::map<ValueId, ValueId> sums_, d_sums_, renamed_;  // by the first s of the linear as it was
};

}  // namespace

int64_t spare_columns(int64_t ranks) { return (ranks + kSpareColumns - 1) / kSpareColumns * kSpareColumns; }

bool folds(const Graph& graph, const Op& op) {
  if (op.attributes.unscaled || ranks_of(graph, op) == 0 || !alone(graph, op.in[0])) return false;
  for (size_t i = 0; i < op.modules.size(); ++i)
    if (graph.module(op, i).dropout || graph.module(op, i).trained || graph.module(op, i).bias_trained || graph.module(op, i).bias != graph.module(op).bias) return false;
  return true;
}

void fold_adapters(Graph& graph) { Folding(graph).fold(); }

}  // namespace forge
