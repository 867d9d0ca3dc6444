// Decoding: the evaluation's list in an arena, with attention over a cache in pages, by the
// device's kernel or in ATen. An encoder reads a source once; what the decoder's ops read of it is
// kept.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "core/lib/base/error.h"
#include "kernels/attention/attention_op.h"
#include "kernels/call/run.h"
#include "kernels/device/device_of.h"
#include "kernels/linear/products.h"
#include "kernels/lm_head/lm_head.h"
#include "providers/aten/aten_ops.h"
#include "providers/aten/cached_rows.h"
#include "providers/aten/cached_states.h"
#include "providers/engine_providers.h"
#include "providers/fused/batch.h"
#include "providers/fused/fused_plan.h"
#include "providers/fused/kv_cache.h"
#include "providers/fused/modules.h"
#include "providers/fused/text_states.h"

namespace forge {
namespace {

// Weights in E4M3 are decoded, and rows are multiplied in the compute type: one row gains nothing
// by an 8-bit product. Adapters are multiplied beside their weights, on every device.
StepShape decoded(StepShape shape) {
  shape.training.fp8 = false;
  shape.folded_adapters = shape.folded_residuals = shape.fused_head = false;
  return shape;
}

bool of_source(const Graph& list, ValueId value) { return list.buffer_of(value).rows == Rows::source; }

// Returns the list with the ops over a source before all others.
Graph source_first(Graph list) {
  const auto head = list.ops.end() - 1;
  std::stable_partition(list.ops.begin(), head, [&](const Op& op) { return of_source(list, op.out[0]); });
  return list;
}

class FusedDecoder : public Decoder {
 public:
  FusedDecoder(const Model& model, TrainableSet& trainables, const StepOptions& options)
      : model_(model),
        device_(device_of(model.device)),
        by_kernels_(device_.has<CachedAttention>() && !options.aten && !model.spec.reads_source() && !model.spec.alibi),
        cache_(model.spec, model.type, model.device),
        states_(model.spec, model.type, model.device),
        list_(source_first(evaluation_step(decoded(options.shape)))),
        memory_(memory_of(list_, model, device_, options.aten)),
        modules_(device_, bind_modules(memory_.graph.modules, model, &trainables), memory_.graph.modules, memory_.type),
        aten_(device_, model, modules_.bound()),
        cached_(device_, model, modules_.bound(), cache_),
        cached_states_(device_, model, modules_.bound(), states_),
        batch_memory_(device_, list_, memory_.type) {
    if (by_kernels_) head_ = head_weight(model).contiguous();
    memory_.ratios = &ratios_;
    memory_.capacity.threads = at::get_num_threads();
    for (size_t i = 0; by_kernels_ && i < memory_.by_aten.size(); ++i)
      if (list_.ops[i].kind == &ops::attention) memory_.by_aten[i] = false;
    while (of_source(list_, list_.ops[once_].out[0])) ++once_;
    for (size_t i = once_; i + 1 < list_.ops.size(); ++i)
      for (ValueId in : list_.ops[i].in)
        if (of_source(list_, in) && std::find(kept_.begin(), kept_.end(), in) == kept_.end()) kept_.push_back(in);
  }

  at::Tensor next_logits(const std::vector<NewTokens>& tokens) override {
    c10::NoGradGuard no_grad;
    std::vector<int64_t> before;
    for (const NewTokens& t : tokens) before.push_back(cache_.length(t.sequence));
    const bool begins = std::all_of(before.begin(), before.end(), [](int64_t length) { return length == 0; });
    for (size_t i = 0; i < tokens.size(); ++i)
      FORGE_CHECK(begins || before[i] > 0, "sequence " << tokens[i].sequence << " begins beside others that go on");
    const ModelSpec& spec = model_.spec;
    const Batch batch = spec.reads_source() ? decoding_batch(tokens, before, spec.decoder_start_id) : decoding_batch(tokens, before);
    BatchTensors tensors = to_tensors(batch, spec, model_.type, model_.device);
    if (spec.reads_source() && !begins) recall_texts(tokens, tensors);
    for (size_t i = 0; i < tokens.size(); ++i) cache_.extend(tokens[i].sequence, batch.cu_seqlens[i + 1] - batch.cu_seqlens[i]);
    std::vector<int64_t> sequences;
    for (const NewTokens& t : tokens) states_.open(t.sequence), sequences.push_back(t.sequence);
    take_room(tensors);
    StepBatch step = batch_memory_.load(tensors);
    CachePlaces places;
    if (by_kernels_) {
      places = places_of(tokens, batch, before, begins);
      step.cache = &places;
    } else {
      cached_.begin(tokens, batch, before);
    }
    StatePlaces states;
    if (spec.recurrent()) states = states_.places(sequences, begins), step.states = &states;
    const size_t head = memory_.graph.forward_ops - 1;
    if (begins) {
      run(0, once_, tokens, tensors, step, begins);
      keep_sources(tokens, tensors);
    } else {
      recall_sources(tokens, tensors);
    }
    run(once_, head, tokens, tensors, step, begins);
    return logits_of(memory_.graph.ops[head], places);
  }

  void fork(int64_t from, int64_t to) override {
    cache_.fork(from, to);
    states_.fork(from, to);
    if (model_.spec.reads_source()) sources_of(std::max(from, to)), sources_of(to) = sources_of(from);  // shared, since they are only read
  }

  void forget(int64_t sequence, int64_t tokens) override {
    FORGE_CHECK(forgets(), "states cannot take tokens back");
    cache_.shorten(sequence, tokens);
  }
  bool forgets() const override { return !model_.spec.recurrent(); }

  void release(int64_t sequence) override {
    cache_.release(sequence);
    states_.release(sequence);
    if (model_.spec.reads_source()) sources_of(sequence).clear();
  }

  int64_t cache_bytes() const override { return cache_.bytes() + states_.bytes(); }

 private:
  void run(size_t first, size_t end, const std::vector<NewTokens>& tokens, const BatchTensors& tensors, const StepBatch& step, bool begins) {
    modules_.begin(list_, first, end);
    for (size_t i = first; i < end; ++i) {
      const Op& op = list_.ops[i];
      const bool cached = !by_kernels_ && op.kind == &ops::attention && op.attributes.sight == Sight::causal;
      // A prompt is attended to as in training.
      if (cached && !begins)
        cached_.attend(memory_, op, tensors);
      else if (memory_.in_aten(i) && CachedStates::reads(op))
        cached_states_.run(memory_, op, tokens, tensors, begins);
      else if (memory_.in_aten(i))
        aten_.run(memory_, op, tensors, step);
      else
        run_op(device_, memory_, i, modules_, step);
      if (cached && begins) cached_.store(memory_, op);
    }
  }

  void take_room(const BatchTensors& batch) {
    StepSizes& capacity = memory_.capacity;
    memory_.tokens = batch.tokens;
    memory_.targets = batch.loss_positions.size(0);
    memory_.source = model_.spec.reads_source() ? batch.source.cu_seqlens.back() : 0;
    if (memory_.tokens <= capacity.tokens && memory_.targets <= capacity.targets && memory_.source <= capacity.source) return;
    capacity.tokens = std::max(memory_.tokens, capacity.tokens), capacity.targets = std::max(memory_.targets, capacity.targets);
    capacity.source = std::max(memory_.source, capacity.source);
    memory_.layout = lay_out(memory_.graph, capacity, fused_workspace);
    arena_.reset();  // before the new one
    arena_ = DeviceBlock(device_, memory_.layout.bytes, "arena");
    memory_.arena = arena_.as();
    if (by_kernels_) logits_ = at::empty({capacity.targets, head_.size(0)}, at::kFloat);
  }

  // ---- an encoder-decoder's sources

  std::vector<at::Tensor>& sources_of(int64_t sequence) {
    if (sequence >= static_cast<int64_t>(sources_.size())) sources_.resize(static_cast<size_t>(sequence) + 1);
    return sources_[static_cast<size_t>(sequence)];
  }
  at::Tensor rows(ValueId id, bool writes) const {
    memory_.touch(device_, id, writes);
    return tensor_of(memory_, id, model_.device);
  }
  void keep_sources(const std::vector<NewTokens>& tokens, const BatchTensors& batch) {
    for (ValueId id : kept_)
      for (size_t i = 0; i < tokens.size(); ++i) {
        const int64_t first = batch.source.cu_seqlens[i], count = batch.source.cu_seqlens[i + 1] - first;
        sources_of(tokens[i].sequence).push_back(rows(id, /*writes=*/false).narrow(0, first, count).clone());
      }
  }
  // Says where each text's source lies among those that recall_sources() writes.
  void recall_texts(const std::vector<NewTokens>& tokens, BatchTensors& batch) {
    batch.source.cu_seqlens = {0};
    for (const NewTokens& t : tokens)
      batch.source.cu_seqlens.push_back(batch.source.cu_seqlens.back() + static_cast<int32_t>(sources_of(t.sequence)[0].size(0)));
    batch.source.groups = single_texts(batch.source.cu_seqlens), batch.source.answer_groups = single_texts(batch.cu_seqlens);
  }
  void recall_sources(const std::vector<NewTokens>& tokens, const BatchTensors& batch) {
    for (size_t value = 0; value < kept_.size(); ++value) {
      const at::Tensor place = rows(kept_[value], /*writes=*/true);
      for (size_t i = 0; i < tokens.size(); ++i)
        place.narrow(0, batch.source.cu_seqlens[i], batch.source.cu_seqlens[i + 1] - batch.source.cu_seqlens[i]).copy_(sources_of(tokens[i].sequence)[value]);
    }
  }

  CachePlaces places_of(const std::vector<NewTokens>& tokens, const Batch& batch, const std::vector<int64_t>& before, bool begins) {
    CachePlaces places{.scratch = &scratch_};
    places.begins = begins;
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto fresh = static_cast<int64_t>(tokens[i].ids.size());
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
    places.pages = cache_.pages(), places.layers = cache_.layers().data();
    return places;
  }

  at::Tensor logits_of(const Op& head, const CachePlaces& places) {
    const ValueId id = head.in[0];
    if (!by_kernels_) {
      at::Tensor logits = at::mm(rows(id, /*writes=*/false), head_weight(model_).t()).to(at::kFloat);
      add_bias(logits);
      cap_logits(logits, head.attributes.softcap);
      return logits;
    }
    at::Tensor logits = logits_.narrow(0, 0, memory_.targets);
    RowProduct product{memory_.type,      Element::f32,           memory_.targets,
                       memory_.width(id), head_.size(0),        memory_.data(id),
                       memory_.stride(id), head_.const_data_ptr()};
    if (model_.head_blocks.defined()) product.w = nullptr, product.blocks = blocks_of(model_.head_blocks), product.blocks.type = Element::f32;
    product.y = logits.data_ptr(), product.y_stride = logits.stride(0);
    row_product(device_, product, *places.scratch);
    add_bias(logits);
    cap_logits(logits, head.attributes.softcap);
    return logits;
  }
  void add_bias(at::Tensor& logits) const {
    if (model_.head_bias.defined()) logits.add_(model_.head_bias);
  }

  const Model& model_;
  ComputeDevice& device_;
  const bool by_kernels_;  // attention over the cache and the head are the device's
  at::Tensor head_;        // [vocab, hidden]
  KvCache cache_;
  TextStates states_;
  DoraRatios ratios_;
  const Graph list_;
  StepMemory memory_;
  FusedModules modules_;
  AtenOps aten_;
  CachedRows cached_;
  CachedStates cached_states_;
  BatchMemory batch_memory_;
  DeviceBlock arena_;
  at::Tensor logits_;  // [sequences, vocab]
  std::vector<char> scratch_;
  size_t once_ = 0;                               // ops over a source, at the beginning of the list
  std::vector<ValueId> kept_;                     // what the others read of them
  std::vector<std::vector<at::Tensor>> sources_;  // kept_, by sequence
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const std::string& name, const Model& model, TrainableSet& trainables,
                                      const StepOptions& options) {
  return std::make_unique<FusedDecoder>(model, trainables, provider_options(name, options));
}

}  // namespace forge
