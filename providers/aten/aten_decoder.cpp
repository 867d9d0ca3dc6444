#include "providers/aten/aten_decoder.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/lib/base/error.h"
#include "core/model/forward.h"
#include "kernels/attention/attention.h"
#include "kernels/lm_head/lm_head.h"

namespace forge {
namespace {

// Rows of a sequence, in memory that doubles when it is full.
class CachedRows {
 public:
  // Appends rows and returns all rows.
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

  int64_t bytes() const { return memory_.defined() ? static_cast<int64_t>(memory_.nbytes()) : 0; }

  CachedRows copy() const {
    CachedRows rows = *this;
    if (length_ > 0) rows.memory_ = memory_.narrow(0, 0, length_).clone();
    return rows;
  }

 private:
  at::Tensor memory_;
  int64_t length_ = 0;
};

struct Sequence {
  int64_t length = 0;
  std::vector<CachedRows> keys, values;  // by layer, [tokens, kv_heads, head_dim]
  // Keys and values of an encoder-decoder's source (SourcePart::read).
  std::vector<at::Tensor> source;
};

// The ops of a list that run once a sequence, on its source, and those of every step, with the
// values that the latter read from the former.
struct SourcePart {
  std::vector<size_t> once, each;  // ops
  std::vector<ValueId> read;       // by `each`
};

SourcePart source_part(const Graph& list) {
  SourcePart part;
  const auto of_source = [&](ValueId value) { return list.buffer_of(value).rows == Rows::source; };
  for (size_t i = 0; i + 1 < list.ops.size(); ++i) {
    const Op& op = list.ops[i];
    const bool once = of_source(op.out[0]);
    (once ? part.once : part.each).push_back(i);
    if (once) continue;
    for (ValueId in : op.in)
      if (of_source(in)) part.read.push_back(in);
  }
  return part;
}

class AtenDecoder : public Decoder {
 public:
  AtenDecoder(const Model& model, TrainableSet& trainables, const StepOptions& options)
      : model_(model),
        list_(forward_list(options.shape)),
        modules_(bind_modules(list_.modules, model, &trainables)),
        source_(source_part(list_)) {}

  at::Tensor next_logits(const std::vector<NewTokens>& tokens) override {
    c10::NoGradGuard no_grad;
    std::vector<int64_t> before;
    for (const NewTokens& t : tokens) before.push_back(at(t.sequence).length);
    const ModelSpec& spec = model_.spec;
    BatchTensors batch = to_tensors(spec.reads_source() ? decoding_batch(tokens, before, spec.decoder_start_id) : decoding_batch(tokens, before),
                                    spec, model_.type, model_.device);
    if (spec.reads_source()) read_sources(tokens, batch);
    const auto attend = [&](const Op& op, const AttentionRule& rule, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      if (op.attributes.sight == Sight::source) return cross_attention(q, k, v, batch.cu_seqlens, batch.source.cu_seqlens, rule);
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
    if (spec.reads_source()) {
      recall_sources(run, tokens);
      run_ops(run, source_.each);
    } else {
      run_forward(run, 0, list_.ops.size() - 1, head.in[0]);
    }
    for (size_t i = 0; i < tokens.size(); ++i) at(tokens[i].sequence).length += batch.cu_seqlens[i + 1] - batch.cu_seqlens[i];
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
    copy.source = source.source;  // shared, since it is only read
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
      for (CachedRows& layer : *rows) layer.drop(tokens);
  }

  void release(int64_t sequence) override { at(sequence) = {}; }

  int64_t cache_bytes() const override {
    int64_t bytes = 0;
    for (const Sequence& s : sequences_)
      for (const auto* rows : {&s.keys, &s.values})
        for (const CachedRows& layer : *rows) bytes += layer.bytes();
    return bytes;
  }

 private:
  Sequence& at(int64_t sequence) {
    const auto index = static_cast<size_t>(sequence);
    if (index >= sequences_.size()) sequences_.resize(index + 1);
    Sequence& s = sequences_[index];
    if (s.keys.empty())
      for (auto* rows : {&s.keys, &s.values})
        rows->resize(static_cast<size_t>(model_.spec.encoder_layers + model_.spec.num_layers));
    return s;
  }

  // Runs the encoder for sequences that begin here, to which all of `batch.source` belongs;
  // afterwards `batch.source` describes the sources of all sequences.
  void read_sources(const std::vector<NewTokens>& tokens, BatchTensors& batch) {
    std::vector<NewTokens> fresh;
    for (const NewTokens& t : tokens)
      if (at(t.sequence).length == 0) fresh.push_back(t);
    if (!fresh.empty()) {
      ForwardRun run{list_, model_, modules_, batch, packed_attend(batch)};
      run_ops(run, source_.once);
      for (size_t i = 0; i < fresh.size(); ++i) {
        const int64_t first = batch.source.cu_seqlens[i], count = batch.source.cu_seqlens[i + 1] - first;
        Sequence& s = at(fresh[i].sequence);
        for (ValueId value : source_.read) s.source.push_back(run.values[static_cast<size_t>(value)].narrow(0, first, count).clone());
      }
    }
    batch.source.cu_seqlens = {0};
    for (const NewTokens& t : tokens)
      batch.source.cu_seqlens.push_back(batch.source.cu_seqlens.back() + static_cast<int32_t>(at(t.sequence).source[0].size(0)));
  }

  void recall_sources(ForwardRun& run, const std::vector<NewTokens>& tokens) {
    for (size_t value = 0; value < source_.read.size(); ++value) {
      std::vector<at::Tensor> parts;
      for (const NewTokens& t : tokens) parts.push_back(at(t.sequence).source[value]);
      run.values[static_cast<size_t>(source_.read[value])] = parts.size() == 1 ? parts[0] : at::cat(parts, 0);
    }
  }

  const Model& model_;
  Graph list_;
  std::vector<BoundModule> modules_;
  SourcePart source_;
  std::vector<Sequence> sequences_;
};

}  // namespace

std::unique_ptr<Decoder> aten_decoder(const Model& model, TrainableSet& trainables,
                                           const StepOptions& options) {
  return std::make_unique<AtenDecoder>(model, trainables, options);
}

}  // namespace forge
