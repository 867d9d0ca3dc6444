// Runs the lists of a step (core/model/families) op by op on forge's kernels, in one arena.
#include "providers/engine_providers.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <tuple>

#include "core/graph/op_record.h"
#include "core/lib/base/error.h"
#include "core/model/neftune.h"
#include "kernels/call/run.h"
#include "kernels/device/captures.h"
#include "kernels/device/device_of.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/experts/expert_balance.h"
#include "kernels/experts/experts_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/lm_head/head_op.h"
#include "kernels/lora/folded_op.h"
#include "kernels/offload/offload_op.h"
#include "kernels/rows/rows_args.h"
#include "providers/aten/aten_ops.h"
#include "providers/fused/batch.h"
#include "providers/fused/fused_plan.h"
#include "providers/fused/modules.h"

namespace forge {
namespace {

// The key of a list's captures, which distinguishes one micro-batch's work from another's: the
// number of its layout (places may have changed in the same memory), tokens, targets and arena, the
// batch's numbers and places, the modules.
//
// On the host, an op reads nothing else but its list. Everything that is not in the key is in the
// device's memory at fixed places: ids, angles, a dropout's step, weights, gradients.
using StepKey = std::tuple<int64_t, int64_t, int64_t, const char*, StepBatch, std::vector<OpModule>>;
using StepKeySeen = std::tuple<int64_t, int64_t, int64_t, const char*, const StepBatch&, const std::vector<OpModule>&>;
using StepGraphs = Captures<StepKey, StepKeySeen>;

// Returns the options with those that the device decides, whatever was chosen
// (core/plan/stages/inventory.h: folds_residuals).
StepOptions for_device(StepOptions options, const ComputeDevice& device) {
  options.shape.folded_residuals |= device.separate() && !options.aten;
  return options;
}

class FusedProvider : public StepProvider {
 public:
  FusedProvider(const Model& model, TrainableSet& trainables, const StepOptions& options)
      : model_(model),
        trainables_(trainables),
        device_(device_of(model.device)),
        options_(for_device(options, device_)),
        training_list_(training_step(options_.shape)),
        evaluation_list_(evaluation_step(options_.shape)),
        training_(memory_of(training_list_, model, device_, options.aten)),
        evaluation_(memory_of(evaluation_list_, model, device_, options.aten)),
        modules_(device_, bind_modules(training_.graph.modules, model, &trainables), training_.graph.modules, training_.type,
                 options.shape.folded_adapters, decodes_ahead(training_.graph, device_.separate())),
        aten_(device_, model, modules_.bound()),
        arena_(options.arena ? options.arena : std::make_shared<DeviceBlock>()),
        batch_memory_(device_, training_list_, training_.type) {
    FORGE_CHECK(options.shape.residual == Residual::compute || training_.type != Element::bf16, "kernels have no fp32 stream beside bf16");
    for (size_t i = 0; i < modules_.all().size(); ++i)
      FORGE_CHECK(modules_.all()[i].fp8 == training_.graph.modules[i].fp8, training_.graph.modules[i].path << " is not held as its list multiplies it");
    ask_for(training_, room_of(options.training));
    ask_for(evaluation_, room_of(options.evaluation));
  }

  HeadRows forward(const BatchTensors& batch, bool keep) override {
    c10::NoGradGuard no_grad;
    StepMemory& m = keep ? training_ : evaluation_;
    begin(m, batch);
    tensors_ = &batch;
    balance_.clear();
    const size_t head = head_of(m.graph);
    queue(m, keep ? forward_graphs_ : evaluation_graphs_, options_.neftune_alpha <= 0 || !batch.training, 0, head, [&](const Op& op) {
      if (op.kind == &ops::embed && !op.attributes.by_position) add_noise(m, op.out[0], batch);
      if (op.kind == &ops::route && op.attributes.route.balance) balance_.count(device_, m, op);
    });
    const Op& op = m.graph.ops[head];
    HeadRows rows{.rows = tensor(m, op.in[0])};
    rows.list = &m.graph, rows.op = &op;
    if (op.attributes.fused_head)
      rows.fused = head_args({m, op, m.workspace(head), modules_.all(), modules_.first(), batch_});
    if (keep) rows.d_rows = tensor(m, op.out[0]);
    if (void* scratch = m.workspace(head))
      rows.scratch = at::from_blob(scratch, {fused_workspace(m.graph, op, m.capacity)}, at::TensorOptions(model_.device).dtype(at::kByte));
    if (!keep) end_batch();
    return rows;
  }

  double balance(double factor) override {
    if (balance_.rows == 0) return 0;
    const double loss = balance_.loss(factor);
    batch_.balance_slope = batch_memory_.on_device(balance_.slope);
    return loss;
  }

  void backward(at::Tensor d_rows, const BatchTensors& batch) override {
    c10::NoGradGuard no_grad;
    tensors_ = &batch;
    const size_t head = head_of(training_.graph);
    at::Tensor place = tensor(training_, training_.graph.ops[head].out[0]);
    if (d_rows.data_ptr() != place.data_ptr()) place.copy_(d_rows);
    if (const Op& op = training_.graph.ops[head]; !op.attributes.fused_head) by_library(training_, op);
    queue(training_, backward_graphs_, true, head + 1, training_.graph.micro_batch_ops, [](const Op&) {});
    end_batch();
  }

  UpdateOps update_ops() override {
    const Graph& list = training_.graph;
    const size_t norm = list.micro_batch_ops;
    FORGE_CHECK(norm + 2 == list.ops.size(), "an update of a list that trains nothing");
    if (training_.arena) training_.arena = arena_->as();  // another's may have replaced it
    return {&list, &list.ops[norm], &list.ops[norm + 1], training_.arena ? training_.workspace(norm) : nullptr};
  }

  void watch(const StepWatch& watch) override { watch_ = watch; }

 private:
  // Runs ops [first, end). Ops that read nothing on the host besides the graph's key are replayed
  // when they repeat. Experts are not: the host reads the number of rows of each.
  void queue(const StepMemory& m, StepGraphs& graphs, bool repeats, size_t first, size_t end, const std::function<void(const Op&)>& after) {
    const auto ops = [&] {
      modules_.begin(m.graph, first, end);
      for (size_t i = first; i < end; ++i) run(m, i), after(m.graph.ops[i]);
    };
    const bool captured = repeats && !asks_host(m.graph) && m.by_aten.empty() && !watch_;
    captured ? graphs.run(device_, {layouts_, m.tokens, m.targets, m.arena, batch_, modules_.all()}, ops) : ops();
  }
  void run(const StepMemory& m, size_t i) {
    if (!watch_) return compute(m, i);
    StepSpan span{name_of(m.graph.ops[i].kind), &m.graph, &m.graph.ops[i], m.tokens, m.targets};
    span.begin = device_.mark();
    compute(m, i);
    span.end = device_.mark();
    watch_(span);
  }

  void compute(const StepMemory& m, size_t i) {
    if (m.in_aten(i))
      aten_.run(m, m.graph.ops[i], *tensors_, batch_);
    else
      run_op(device_, m, i, modules_, batch_);
  }

  // Tells the device that LibTorch has read the head's rows and written their gradient.
  void by_library(const StepMemory& m, const Op& head) {
    m.touch(device_, head.in[0], /*writes=*/false), m.touch(device_, head.out[0], /*writes=*/true);
  }

  static size_t head_of(const Graph& graph) { return graph.forward_ops - 1; }

  // The micro-batches that a list is laid out for. An encoder-decoder's tokens are its answers',
  // which are all supervised.
  struct Room {
    int64_t tokens = 0, targets = 0, source = 0;
  };
  static Room room_of(const BatchRoom& batch) { return {batch.source > 0 ? batch.targets : batch.tokens, batch.targets, batch.source}; }

  // Makes room for micro-batches of that size, from the next call on.
  void ask_for(StepMemory& m, const Room& room) {
    const StepSizes& now = m.capacity;
    if (room.tokens <= now.tokens && room.targets <= now.targets && room.source <= now.source) return;
    set_room(m, {std::max(room.tokens, now.tokens), std::max(room.targets, now.targets), std::max(room.source, now.source)});
  }
  void set_room(StepMemory& m, const Room& room) {
    m.capacity.tokens = room.tokens, m.capacity.targets = room.targets, m.capacity.source = room.source;
    m.capacity.threads = at::get_num_threads();
    m.layout = lay_out(m.graph, m.capacity, fused_workspace);
    ++layouts_;
    place_on_host(device_, m);
  }

  void take_arena() {
    const int64_t bytes = std::max(training_.layout.bytes, evaluation_.layout.bytes);
    if (arena_->bytes() >= bytes) return;
    arena_->reset();  // before the new one
    *arena_ = DeviceBlock(device_, bytes, "arena");
  }

  void begin(StepMemory& m, const BatchTensors& batch) {
    m.tokens = batch.tokens;
    m.targets = batch.loss_positions.size(0);
    m.source = batch.source.token_ids.defined() ? batch.source.token_ids.size(0) : 0;
    ask_for(m, {m.tokens, m.targets, m.source});
    try {
      take_arena();
    } catch (const c10::OutOfMemoryError&) {
      // Less memory than was planned may do for this micro-batch, which is smaller after running
      // out once.
      set_room(m, {m.tokens, m.targets, m.source});
      set_room(&m == &training_ ? evaluation_ : training_, {});
      take_arena();
    }
    training_.arena = evaluation_.arena = arena_->as();
    modules_.refresh();
    if (options_.shape.folded_adapters && placed_ != trainables_.changes()) {
      placing_graphs_.run(device_, {layouts_, 0, 0, m.arena, StepBatch{}, modules_.all()}, [&] { place_all_adapters(); });
      placed_ = trainables_.changes();
    }
    batch_ = batch_memory_.load(batch);
  }

  // Copies adapters that the list has folded to the matrices that its products read.
  void place_all_adapters() {
    const StepBatch none;
    for (size_t i = 0; i < training_list_.forward_ops; ++i)
      if (const Op& op = training_list_.ops[i]; op.kind == &ops::linear && op.attributes.folded)
        bind::place_adapters(OpRun(device_, training_, op, nullptr, modules_, none));
  }

  void end_batch() {
    batch_ = {};
    batch_memory_.release();
  }

  void add_noise(const StepMemory& m, ValueId embedded, const BatchTensors& batch) {
    if (options_.neftune_alpha <= 0 || !batch.training) return;
    const at::Tensor noise = neftune_noise(batch, m.width(embedded), options_.neftune_alpha).to(tensor(m, embedded).scalar_type()).to(model_.device);
    device_.run(AddRows{m.element(embedded), m.tokens, m.width(embedded), noise.const_data_ptr(), noise.stride(0), m.data(embedded),
                        m.stride(embedded)});
  }

  at::Tensor tensor(const StepMemory& m, ValueId id) const { return tensor_of(m, id, model_.device); }

  const Model& model_;
  const TrainableSet& trainables_;
  ComputeDevice& device_;
  StepOptions options_;
  const Graph training_list_, evaluation_list_;
  StepMemory training_, evaluation_;
  FusedModules modules_;
  AtenOps aten_;
  std::shared_ptr<DeviceBlock> arena_;
  BatchMemory batch_memory_;
  StepBatch batch_;
  const BatchTensors* tensors_ = nullptr;  // of the micro-batch at hand
  ExpertBalance balance_;  // of the last forward
  StepWatch watch_;
  StepGraphs forward_graphs_, backward_graphs_, evaluation_graphs_, placing_graphs_;
  int64_t layouts_ = 0;  // made so far
  int64_t placed_ = -1;  // changes of the weights that the folded adapters have seen
};

}  // namespace

std::unique_ptr<StepProvider> make_step_provider(const std::string& name, const Model& model, TrainableSet& trainables,
                                                 const StepOptions& options) {
  return std::make_unique<FusedProvider>(model, trainables, provider_options(name, options));
}

}  // namespace forge
