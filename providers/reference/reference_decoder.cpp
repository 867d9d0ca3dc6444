// Decoding in plain ATen, on every device: a sequence's keys and values are tensors of its own.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/base/error.h"
#include "core/model/forward.h"
#include "kernels/attention/attention.h"
#include "kernels/lm_head/lm_head.h"
#include "providers/reference/reference.h"

namespace forge {
namespace {

// Rows of a sequence; the memory behind them doubles.
class Rows {
 public:
  // → all rows
  at::Tensor append(const at::Tensor& fresh) {
    const int64_t all = length_ + fresh.size(0);
    if (!memory_.defined() || all > memory_.size(0)) {
      std::vector<int64_t> shape = fresh.sizes().vec();
      shape[0] = std::max<int64_t>(2 * length_, all);
      at::Tensor larger = at::empty(shape, fresh.options());
      if (length_ > 0) larger.narrow(0, 0, length_).copy_(memory_.narrow(0, 0, length_));
      memory_ = larger;
    }
    memory_.narrow(0, length_, fresh.size(0)).copy_(fresh);
    length_ = all;
    return memory_.narrow(0, 0, all);
  }

  void drop(int64_t count) { length_ -= count; }

  Rows copy() const {
    Rows rows = *this;
    if (length_ > 0) rows.memory_ = memory_.narrow(0, 0, length_).clone();
    return rows;
  }

 private:
  at::Tensor memory_;
  int64_t length_ = 0;
};

struct Sequence {
  int64_t length = 0;
  std::vector<Rows> keys, values;  // by layer, [tokens, kv_heads, head_dim]
};

class ReferenceDecoder : public Decoder {
 public:
  ReferenceDecoder(const Model& model, TrainableSet& trainables, const StepOptions& options)
      : model_(model),
        list_(forward_list(options.shape)),
        modules_(bind_modules(list_.modules, model, &trainables)) {}

  at::Tensor next_logits(const std::vector<NewTokens>& tokens) override {
    c10::NoGradGuard no_grad;
    std::vector<int64_t> before;
    for (const NewTokens& t : tokens) before.push_back(at(t.sequence).length);
    const BatchTensors batch =
        to_tensors(decoding_batch(tokens, before), model_.spec, model_.type, model_.device);
    const auto attend = [&](const Op& op, const AttentionRule& rule, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      std::vector<at::Tensor> mixed;
      for (size_t i = 0; i < tokens.size(); ++i) {
        Sequence& s = at(tokens[i].sequence);
        const int64_t first = batch.cu_seqlens[i], count = batch.cu_seqlens[i + 1] - first;
        const auto layer = static_cast<size_t>(op.layer);
        mixed.push_back(cached_attention(q.narrow(0, first, count), s.keys[layer].append(k.narrow(0, first, count)),
                                         s.values[layer].append(v.narrow(0, first, count)), rule));
      }
      return at::cat(mixed, 0);
    };
    ForwardRun run{list_, model_, modules_, batch, attend};
    const Op& head = list_.ops.back();
    run_forward(run, 0, list_.ops.size() - 1, head.in[0]);
    for (const NewTokens& t : tokens) at(t.sequence).length += static_cast<int64_t>(t.ids.size());
    at::Tensor logits =
        at::mm(run.values[static_cast<size_t>(head.in[0])], head_weight(model_).t()).to(at::kFloat);
    cap_logits(logits, head.attributes.softcap);
    return logits;
  }

  void fork(int64_t from, int64_t to) override {
    at(std::max(from, to));  // both are there before either is named
    const Sequence& source = at(from);
    Sequence& copy = at(to);
    FORGE_CHECK(copy.length == 0, "sequence " << to << " has tokens of its own");
    copy.length = source.length;
    for (size_t layer = 0; layer < source.keys.size(); ++layer) {
      copy.keys[layer] = source.keys[layer].copy();
      copy.values[layer] = source.values[layer].copy();
    }
  }

  void forget(int64_t sequence, int64_t tokens) override {
    Sequence& s = at(sequence);
    FORGE_CHECK(tokens < s.length, "sequence " << sequence << " has " << s.length << " tokens and loses " << tokens);
    s.length -= tokens;
    for (auto* rows : {&s.keys, &s.values})
      for (Rows& layer : *rows) layer.drop(tokens);
  }

  void release(int64_t sequence) override { at(sequence) = {}; }

 private:
  Sequence& at(int64_t sequence) {
    const auto index = static_cast<size_t>(sequence);
    if (index >= sequences_.size()) sequences_.resize(index + 1);
    Sequence& s = sequences_[index];
    if (s.keys.empty())
      for (auto* rows : {&s.keys, &s.values}) rows->resize(static_cast<size_t>(model_.spec.num_layers));
    return s;
  }

  const Model& model_;
  Graph list_;
  std::vector<BoundModule> modules_;
  std::vector<Sequence> sequences_;
};

}  // namespace

std::unique_ptr<Decoder> reference_decoder(const Model& model, TrainableSet& trainables,
                                           const StepOptions& options) {
  return std::make_unique<ReferenceDecoder>(model, trainables, options);
}

}  // namespace forge
