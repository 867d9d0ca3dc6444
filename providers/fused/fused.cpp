#include "providers/fused/fused.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include "core/base/error.h"
#include "core/graph/ops.h"
#include "core/model/neftune.h"
#include "providers/fused/cpu_ops.h"
#include "providers/fused/fused_plan.h"

namespace forge {
namespace {

class FusedProvider : public StepProvider {
 public:
  FusedProvider(const Model& model, TrainableSet& trainables, const StepOptions& options)
      : model_(model), trainables_(trainables), options_(options) {
    training_.graph = training_step(options.shape);
    evaluation_.graph = evaluation_step(options.shape);
    modules_ = bind_modules(training_.graph.modules, model, &trainables);
    ask_for(training_, options.training);
    ask_for(evaluation_, options.evaluation);
  }

  HeadRows forward(const BatchTensors& batch, bool keep) override {
    c10::NoGradGuard no_grad;
    StepMemory& m = keep ? training_ : evaluation_;
    begin(m, batch);
    const size_t head = head_of(m.graph);
    for (size_t i = 0; i < head; ++i) {
      run(m, i);
      if (m.graph.ops[i].kind == OpKind::embed) add_noise(m, m.graph.ops[i].out[0]);
    }
    const Op& op = m.graph.ops[head];
    const int64_t next = m.layout.workspaces[head], space = cpu_workspace(m.graph, op, m.capacity);
    HeadRows rows{.rows = m.tensor(op.in[0])};
    rows.list = &m.graph, rows.op = &op;
    if (keep) rows.d_rows = m.tensor(op.out[0]);
    if (next >= 0)
      rows.scratch = at::from_blob(m.arena + next, {space}, at::TensorOptions().dtype(at::kByte));
    if (!keep) batch_ = {};
    return rows;
  }

  void backward(const at::Tensor& d_rows, const BatchTensors&) override {
    c10::NoGradGuard no_grad;
    const size_t head = head_of(training_.graph);
    at::Tensor place = training_.tensor(training_.graph.ops[head].out[0]);
    if (d_rows.data_ptr() != place.data_ptr()) place.copy_(d_rows);
    for (size_t i = head + 1; i < training_.graph.micro_batch_ops; ++i) run(training_, i);
    batch_ = {};
  }

  UpdateOps update_ops() override {
    const Graph& list = training_.graph;
    const size_t norm = list.micro_batch_ops;
    FORGE_CHECK(norm + 2 == list.ops.size(), "an update of a list that trains nothing");
    return {&list, &list.ops[norm], &list.ops[norm + 1], training_.arena ? training_.workspace(norm) : nullptr};
  }

  void watch(const StepWatch& watch) override { watch_ = watch; }

 private:
  void run(const StepMemory& m, size_t i) {
    if (!watch_) return run_cpu_op(m, i, modules_, batch_);
    StepSpan span{name_of(m.graph.ops[i].kind), &m.graph, &m.graph.ops[i], m.tokens, m.targets};
    span.begin = std::chrono::steady_clock::now();
    run_cpu_op(m, i, modules_, batch_);
    span.end = std::chrono::steady_clock::now();
    watch_(span);
  }

  static size_t head_of(const Graph& graph) { return graph.forward_ops - 1; }

  // Room for micro-batches of that size, from the next call on.
  void ask_for(StepMemory& m, const BatchRoom& room) {
    if (room.tokens <= m.capacity.tokens && room.targets <= m.capacity.targets) return;
    set_room(m, {std::max(room.tokens, m.capacity.tokens), std::max(room.targets, m.capacity.targets)});
  }
  void set_room(StepMemory& m, const BatchRoom& room) {
    m.type = model_.type;
    m.capacity = {room.tokens, room.targets, bytes_of(element_of(model_.type)), at::get_num_threads()};
    m.layout = lay_out(m.graph, m.capacity, cpu_workspace);
  }

  void take_arena() {
    const int64_t bytes = std::max(training_.layout.bytes, evaluation_.layout.bytes);
    if (arena_.defined() && arena_.numel() >= bytes) return;
    arena_ = at::Tensor();  // before the new one
    arena_ = at::empty({bytes}, at::kByte);
  }

  void begin(StepMemory& m, const BatchTensors& batch) {
    m.tokens = batch.tokens;
    m.targets = batch.loss_positions.size(0);
    ask_for(m, {m.tokens, m.targets});
    try {
      take_arena();
    } catch (const c10::OutOfMemoryError&) {
      // Less than was planned may do for this one: the micro-batch is smaller after running out once.
      set_room(m, {m.tokens, m.targets});
      set_room(&m == &training_ ? evaluation_ : training_, {});
      take_arena();
    }
    training_.arena = evaluation_.arena = static_cast<char*>(arena_.data_ptr());
    batch_ = {&batch, batch.cos.to(at::kFloat), batch.sin.to(at::kFloat)};
  }

  void add_noise(const StepMemory& m, ValueId embedded) {
    if (options_.neftune_alpha <= 0 || !batch_.tensors->training) return;
    at::Tensor hidden = m.tensor(embedded);
    hidden.add_(
        neftune_noise(*batch_.tensors, hidden.size(1), options_.neftune_alpha).to(hidden.scalar_type()));
  }

  const Model& model_;
  TrainableSet& trainables_;
  StepOptions options_;
  StepMemory training_, evaluation_;
  std::vector<BoundModule> modules_;
  at::Tensor arena_;  // uint8
  StepBatch batch_;
  StepWatch watch_;
};

}  // namespace

std::unique_ptr<StepProvider> fused_provider(const Model& model, TrainableSet& trainables,
                                             const StepOptions& options) {
  return std::make_unique<FusedProvider>(model, trainables, options);
}

}  // namespace forge
