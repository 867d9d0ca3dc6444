// Decoding by forge's kernels: the evaluation's list in an arena, with attention over a cache.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "core/lib/base/error.h"
#include "core/model/element.h"
#include "kernels/attention/attention_op.h"
#include "kernels/call/run.h"
#include "kernels/device/device_of.h"
#include "kernels/linear/products.h"
#include "kernels/lm_head/lm_head.h"
#include "providers/aten/aten_ops.h"
#include "providers/aten/aten_plan.h"
#include "providers/fused/batch.h"
#include "providers/fused/fused.h"
#include "providers/fused/fused_plan.h"
#include "providers/fused/kv_cache.h"
#include "providers/fused/modules.h"

namespace forge {
namespace {

// Weights in E4M3 are decoded, and rows are multiplied in the compute type: one row gains nothing
// by an 8-bit product.
StepShape decoded(StepShape shape) {
  shape.training.fp8 = false;
  return shape;
}

class FusedDecoder : public Decoder {
 public:
  FusedDecoder(const Model& model, TrainableSet& trainables, const StepOptions& options)
      : model_(model),
        device_(device_of(model.device)),
        head_(head_weight(model).contiguous()),
        cache_(model.spec, model.type),
        list_(evaluation_step(decoded(options.shape))),
        memory_{.graph = list_, .type = element_of(model.type), .ratios = &ratios_},
        modules_(device_, bind_modules(memory_.graph.modules, model, &trainables), memory_.graph.modules, memory_.type),
        aten_(device_, model, modules_.bound()),
        batch_memory_(device_) {
    // Attention is the kernel's, over the cache.
    if (asks_aten(list_, {}))
      for (const Op& op : list_.ops) memory_.by_aten.push_back(op.kind != &ops::attention && !aten_reason(list_, op, {}).empty());
  }

  at::Tensor next_logits(const std::vector<NewTokens>& tokens) override {
    c10::NoGradGuard no_grad;
    std::vector<int64_t> before;
    for (const NewTokens& t : tokens) before.push_back(cache_.length(t.sequence));
    const Batch batch = decoding_batch(tokens, before);
    const BatchTensors tensors = to_tensors(batch, model_.spec, model_.type, model_.device);
    take_room(tensors);
    CachePlaces places = places_of(tokens, batch, before);
    StepBatch step = batch_memory_.load(tensors);
    step.cache = &places;
    const size_t head = memory_.graph.forward_ops - 1;
    for (size_t i = 0; i < head; ++i) {
      if (!memory_.by_aten.empty() && memory_.by_aten[i])
        aten_.run(memory_, list_.ops[i], tensors, step);
      else
        run_op(device_, memory_, i, modules_, step);
    }
    return logits_of(memory_.graph.ops[head], places);
  }

  void fork(int64_t from, int64_t to) override { cache_.fork(from, to); }

  void forget(int64_t sequence, int64_t tokens) override { cache_.shorten(sequence, tokens); }

  void release(int64_t sequence) override { cache_.release(sequence); }

  int64_t cache_bytes() const override { return cache_.bytes(); }

 private:
  void take_room(const BatchTensors& batch) {
    StepSizes& capacity = memory_.capacity;
    memory_.tokens = batch.tokens;
    memory_.targets = batch.loss_positions.size(0);
    if (memory_.tokens <= capacity.tokens && memory_.targets <= capacity.targets) return;
    capacity = {std::max(memory_.tokens, capacity.tokens), std::max(memory_.targets, capacity.targets),
                bytes_of(memory_.type), at::get_num_threads()};
    memory_.layout = lay_out(memory_.graph, capacity, fused_workspace);
    arena_.reset();  // before the new one
    arena_ = DeviceBlock(device_, memory_.layout.bytes, "arena");
    memory_.arena = arena_.as();
    logits_ = at::empty({capacity.targets, head_.size(0)}, at::kFloat);
  }

  CachePlaces places_of(const std::vector<NewTokens>& tokens, const Batch& batch, const std::vector<int64_t>& before) {
    CachePlaces places{.scratch = &scratch_};
    places.begins = std::all_of(before.begin(), before.end(), [](int64_t length) { return length == 0; });
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto fresh = static_cast<int64_t>(tokens[i].ids.size());
      FORGE_CHECK(places.begins || before[i] > 0, "sequence " << tokens[i].sequence << " begins beside others that go on");
      cache_.extend(tokens[i].sequence, fresh);
      // A prompt is one row of pages. A sequence that continues has one row for each token, so that
      // a token attends to those before it as it would alone.
      for (int64_t t = places.begins ? fresh - 1 : 0; t < fresh; ++t) {
        numbers.push_back(tokens[i].sequence);
        places.lengths.push_back(static_cast<int32_t>(before[i] + t + 1));
      }
      for (int64_t t = 0; t < fresh; ++t) places.sequences.push_back(static_cast<int32_t>(places.begins ? i : places.sequences.size()));
    }
    places.positions = batch.positions;
    places.shape = cache_.shape(numbers);
    places.pages = cache_.pages(), places.part_bytes = cache_.part_bytes();
    return places;
  }

  at::Tensor logits_of(const Op& head, const CachePlaces& places) {
    const ValueId rows = head.in[0];
    at::Tensor logits = logits_.narrow(0, 0, memory_.targets);
    RowProduct product{memory_.type,      Element::f32,           memory_.targets,
                       memory_.width(rows), head_.size(0),        memory_.data(rows),
                       memory_.stride(rows), head_.const_data_ptr()};
    if (model_.head_blocks.defined()) product.w = nullptr, product.blocks = blocks_of(model_.head_blocks), product.blocks.type = Element::f32;
    product.y = logits.data_ptr(), product.y_stride = logits.stride(0);
    row_product(device_, product, *places.scratch);
    cap_logits(logits, head.attributes.softcap);
    return logits;
  }

  const Model& model_;
  ComputeDevice& device_;
  at::Tensor head_;  // [vocab, hidden]
  KvCache cache_;
  DoraRatios ratios_;
  const Graph list_;
  StepMemory memory_;
  FusedModules modules_;
  AtenOps aten_;
  BatchMemory batch_memory_;
  DeviceBlock arena_;
  at::Tensor logits_;  // [sequences, vocab]
  std::vector<char> scratch_;
};

}  // namespace

std::unique_ptr<Decoder> fused_decoder(const Model& model, TrainableSet& trainables, const StepOptions& options) {
  FORGE_CHECK(device_of(model.device).has<CachedAttention>(), "a device without attention over a cache decodes with fused");
  return std::make_unique<FusedDecoder>(model, trainables, options);
}

}  // namespace forge
