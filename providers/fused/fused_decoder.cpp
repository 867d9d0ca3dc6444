// Decoding by our kernels: the evaluation's list in an arena, its attention over a cache.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "core/base/error.h"
#include "kernels/lm_head/lm_head.h"
#include "kernels/product/product_args.h"
#include "providers/fused/cpu_ops.h"
#include "providers/fused/fused.h"
#include "providers/fused/fused_plan.h"
#include "providers/fused/kv_cache.h"

namespace forge {
namespace {

class FusedDecoder : public Decoder {
 public:
  FusedDecoder(const Model& model, TrainableSet& trainables, const StepOptions& options)
      : model_(model), head_(head_weight(model).contiguous()), cache_(model.spec, model.type) {
    memory_.graph = evaluation_step(options.shape);
    memory_.type = model.type;
    modules_ = bind_modules(memory_.graph.modules, model, &trainables);
    memory_.ratios = &ratios_;
  }

  at::Tensor next_logits(const std::vector<NewTokens>& tokens) override {
    c10::NoGradGuard no_grad;
    std::vector<int64_t> before;
    for (const NewTokens& t : tokens) before.push_back(cache_.length(t.sequence));
    const Batch batch = decoding_batch(tokens, before);
    const BatchTensors tensors = to_tensors(batch, model_.spec, model_.type, model_.device);
    take_room(tensors);
    CachePlaces places = places_of(tokens, batch, before);
    const StepBatch step{&tensors, tensors.cos.to(at::kFloat), tensors.sin.to(at::kFloat), &places};
    const size_t head = memory_.graph.forward_ops - 1;
    for (size_t i = 0; i < head; ++i) run_cpu_op(memory_, i, modules_, step);
    return logits_of(memory_.graph.ops[head], places);
  }

  void release(int64_t sequence) override { cache_.release(sequence); }

 private:
  void take_room(const BatchTensors& batch) {
    StepSizes& capacity = memory_.capacity;
    memory_.tokens = batch.tokens;
    memory_.targets = batch.loss_positions.size(0);
    if (memory_.tokens <= capacity.tokens && memory_.targets <= capacity.targets) return;
    capacity = {std::max(memory_.tokens, capacity.tokens), std::max(memory_.targets, capacity.targets),
                bytes_of(element_of(model_.type)), at::get_num_threads()};
    memory_.layout = lay_out(memory_.graph, capacity, cpu_workspace);
    arena_ = at::Tensor();  // before the new one
    arena_ = at::empty({memory_.layout.bytes}, at::kByte);
    memory_.arena = static_cast<char*>(arena_.data_ptr());
    logits_ = at::empty({capacity.targets, head_.size(0)}, at::kFloat);
  }

  CachePlaces places_of(const std::vector<NewTokens>& tokens, const Batch& batch, const std::vector<int64_t>& before) {
    CachePlaces places{.cache = &cache_, .scratch = &scratch_};
    places.begins = std::all_of(before.begin(), before.end(), [](int64_t length) { return length == 0; });
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto fresh = static_cast<int64_t>(tokens[i].ids.size());
      FORGE_CHECK(places.begins || (before[i] > 0 && fresh == 1),
                  "sequence " << tokens[i].sequence << " has " << before[i] << " tokens and gets " << fresh);
      cache_.extend(tokens[i].sequence, fresh);
      numbers.push_back(tokens[i].sequence);
      places.lengths.push_back(static_cast<int32_t>(cache_.length(tokens[i].sequence)));
      places.sequences.insert(places.sequences.end(), tokens[i].ids.size(), static_cast<int32_t>(i));
    }
    places.positions = batch.positions;
    places.shape = cache_.shape(numbers);
    return places;
  }

  at::Tensor logits_of(const Op& head, const CachePlaces& places) {
    const at::Tensor rows = memory_.tensor(head.in[0]);
    at::Tensor logits = logits_.narrow(0, 0, memory_.targets);
    row_product(logits, rows, head_, {}, *places.scratch);
    cap_logits(logits, head.attributes.softcap);
    return logits;
  }

  const Model& model_;
  at::Tensor head_;  // [vocab, hidden]
  KvCache cache_;
  StepMemory memory_;
  std::vector<BoundModule> modules_;
  at::Tensor arena_, logits_;  // uint8; [sequences, vocab]
  DoraRatios ratios_;
  std::vector<char> scratch_;
};

}  // namespace

std::unique_ptr<Decoder> fused_decoder(const Model& model, TrainableSet& trainables, const StepOptions& options) {
  return std::make_unique<FusedDecoder>(model, trainables, options);
}

}  // namespace forge
