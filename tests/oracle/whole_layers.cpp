#include "tests/oracle/whole_layers.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/model/families/step.h"
#include "core/model/forward.h"
#include "core/model/neftune.h"
#include "kernels/common/add_narrow.h"
#include "kernels/embedding/embedding_op.h"
#include "kernels/experts/experts.h"
#include "kernels/experts/experts_op.h"
#include "kernels/rows/rows_op.h"
#include "tests/oracle/segments.h"

namespace forge {
namespace {

// A segment in use: a detached input, and the output whose graph leads back to it; undefined while
// it is not kept.
struct Kept {
  at::Tensor input, output;
  std::vector<at::Tensor> probabilities;  // of its routers (Routed::probability), in the same graph
};

// Sums of all routers in a forward, over layers and tokens.
struct Balance {
  at::Tensor counts, probability;  // [experts], on the host
  double rows = 0;
  at::Tensor slope;  // of the loss in each probability, times its factor; undefined: no loss
};

// Returns the loss of kernels/experts/expert_balance.h. `counts` and `probability` are sums over
// layers [experts]; `rows` is tokens times layers.
double balance_loss(const at::Tensor& counts, const at::Tensor& probability, double rows) {
  const auto experts = static_cast<double>(counts.size(0));
  return experts * at::dot(counts.to(at::kDouble), probability.to(at::kDouble)).item<double>() / (rows * rows);
}

void add_gradient(Trainable& item, const at::Tensor& gradient) {
  if (gradient.scalar_type() == item.grad.scalar_type())
    item.grad.add_(gradient);
  else
    add_narrow(item.grad, gradient.contiguous());
}

class WholeLayers : public StepProvider {
 public:
  WholeLayers(const Model& model, TrainableSet& trainables, const StepOptions& options)
      : model_(model),
        neftune_alpha_(options.neftune_alpha),
        list_(forward_list(options.shape)),
        modules_(bind_modules(list_.modules, model, &trainables)),
        segments_(segments_of(list_, options.shape.recompute)),
        kept_(segments_.size()) {
    for (const Op& op : list_.ops) trains_embeddings_ |= op.kind == &ops::embed && module_of(op).weight;
    size_t gather = segments_.back().end;
    while (list_.ops[gather].kind != &ops::gather) ++gather;
    tail_ = {.begin = gather + 1, .end = list_.ops.size() - 1};
    tail_.input = list_.ops[gather].out[0], tail_.output = list_.ops.back().in[0];
    for (size_t i = 0; i < segments_.size(); ++i) trained_.push_back(trained_of(segments_[i]));
    lowest_ = lowest_segment(list_, segments_);
  }

  HeadRows forward(const BatchTensors& batch, bool keep) override {
    at::Tensor hidden;
    balance_ = {}, forward_done_ = false;
    source_ = at::Tensor();
    for (size_t i = 0; i < segments_.size(); ++i) {
      kept_[i] = {};
      if (i > 0 && segments_[i].first()) source_ = hidden.detach().requires_grad_(keep && lowest_ < i);
      if (segments_[i].first()) hidden = embed_tokens(segments_[i], batch);
      hidden = keep && i >= lowest_ ? run(i, hidden, batch, segments_[i].kept) : run_free(i, hidden, batch);
      if (keep && i >= lowest_ && !keeps_input(i)) kept_[i].input = at::Tensor();
    }
    forward_done_ = true;
    tokens_ = hidden.size(0);
    c10::AutoGradMode on(keep);
    rows_ = hidden.index_select(0, batch.loss_positions).detach();
    if (keep) rows_.requires_grad_(true);  // [targets, hidden]
    normed_ = run_ops(tail_, rows_, batch);
    HeadRows head{.rows = normed_.detach()};
    if (!keep) rows_ = normed_ = at::Tensor();
    return head;
  }

  double balance(double factor) override {
    if (balance_.rows == 0) return 0;
    balance_.slope = balance_.counts.to(at::kFloat) *
                     (factor * static_cast<double>(balance_.counts.size(0)) / (balance_.rows * balance_.rows));
    return balance_loss(balance_.counts, balance_.probability, balance_.rows);
  }

  void backward(at::Tensor d_rows, const BatchTensors& batch) override {
    at::Tensor grad = tail_backward(std::move(d_rows), batch);
    for (size_t i = segments_.size(); i-- > lowest_;) {
      compute_again(i, batch);
      const Segment& segment = segments_[i];
      grad = pull(i, grad, segment.first() ? trains_embeddings_ : i > lowest_);
      kept_[i] = {};
      if (!segment.first()) continue;
      for (size_t op = segment.begin - segment.stem; trains_embeddings_ && op < segment.begin; ++op)
        if (list_.ops[op].kind == &ops::embed && module_of(list_.ops[op]).weight) embed_backward(list_.ops[op], grad, batch);
      // The segment below it is the encoder, whose result is not read again.
      grad = std::exchange(d_source_, at::Tensor());
      source_ = at::Tensor();
    }
    source_ = at::Tensor();
  }

 private:
  const BoundModule& module_of(const Op& op) const { return modules_[static_cast<size_t>(op.modules[0])]; }

  void embed_backward(const Op& op, const at::Tensor& grad, const BatchTensors& batch) const {
    c10::NoGradGuard no_grad;
    at::Tensor table = module_of(op).weight->grad;
    const int64_t frozen = op.attributes.frozen_row;
    at::Tensor row = frozen < 0 ? at::Tensor() : table[frozen], before = frozen < 0 ? row : row.clone();
    table.index_add_(0, rows_read(op, list_.buffer_of(op.out[0]).rows == Rows::source, batch), grad.to(at::kFloat), rounded(op.attributes.scale, grad.scalar_type()));
    if (frozen >= 0) row.copy_(before);  // the gradient that a tied head has added to it stays
  }

  std::vector<Trainable*> trained_of(const Segment& segment) const {
    std::vector<Trainable*> trained;
    for (size_t i = segment.begin; i < segment.end; ++i)
      for (int32_t at : list_.ops[i].modules) {
        const BoundModule& m = modules_[static_cast<size_t>(at)];
        for (Trainable* item : {m.weight, m.bias, m.lora_a, m.lora_b, m.magnitude})
          if (item && std::find(trained.begin(), trained.end(), item) == trained.end()) trained.push_back(item);
      }
    return trained;
  }

  // A segment whose graph is kept holds its input too. No segment below the lowest is computed
  // again.
  bool keeps_input(size_t i) const {
    return segments_[i].kept || segments_[i].first() || i == lowest_ || segments_[i - 1].keeps_output;
  }

  at::Tensor embed_tokens(const Segment& first, const BatchTensors& batch) const {
    c10::NoGradGuard no_grad;
    ForwardRun run{list_, model_, modules_, batch, {}};
    run_forward(run, first.begin - first.stem, first.begin, first.input);
    at::Tensor hidden = run.values[static_cast<size_t>(first.input)];
    if (neftune_alpha_ <= 0 || !batch.training) return hidden;
    return hidden + neftune_noise(batch, hidden.size(1), neftune_alpha_).to(hidden.options());
  }

  // `probabilities` receives those of routers.
  at::Tensor run_ops(const Segment& segment, const at::Tensor& input, const BatchTensors& batch,
                     std::vector<at::Tensor>* probabilities = nullptr) {
    ForwardRun run{list_, model_, modules_, batch, packed_attend(batch)};
    run.values[static_cast<size_t>(segment.input)] = input;
    if (segment.source != kNoValue) run.values[static_cast<size_t>(segment.source)] = source_;
    run_forward(run, segment.begin, segment.end, segment.output);
    const auto value = [&](ValueId id) { return run.values[static_cast<size_t>(id)]; };
    for (size_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = list_.ops[i];
      if (op.kind != &ops::route || !op.attributes.route.balance) continue;
      if (!forward_done_) count(value(op.out[2]), value(op.out[3]), input.size(0));
      if (probabilities) probabilities->push_back(value(op.out[3]));
    }
    return value(segment.output);
  }
  void count(const at::Tensor& ends, const at::Tensor& probability, int64_t tokens) {
    c10::NoGradGuard no_grad;
    at::Tensor counts = ends.clone(), sums = probability.detach().cpu();
    counts.narrow(0, 1, counts.size(0) - 1).sub_(ends.narrow(0, 0, ends.size(0) - 1));
    balance_.counts = balance_.rows > 0 ? balance_.counts + counts : counts;
    balance_.probability = balance_.rows > 0 ? balance_.probability + sums : sums;
    balance_.rows += static_cast<double>(tokens);
  }
  at::Tensor run_free(size_t i, const at::Tensor& input, const BatchTensors& batch) {
    c10::NoGradGuard no_grad;
    return run_ops(segments_[i], input, batch);
  }
  // Runs a segment on a detached copy of the input, with `keep` under autograd. Returns the output,
  // detached.
  at::Tensor run(size_t i, const at::Tensor& input, const BatchTensors& batch, bool keep) {
    c10::AutoGradMode mode(keep);
    Kept& kept = kept_[i];
    kept.input = input.detach();
    if (!keep) return run_ops(segments_[i], kept.input, batch);
    kept.input.requires_grad_(true);
    kept.probabilities.clear();
    kept.output = run_ops(segments_[i], kept.input, batch, &kept.probabilities);
    return kept.output.detach();
  }

  // Computes the graph of a segment that was not kept, and of those before it in the layer if not
  // even its input was kept.
  void compute_again(size_t i, const BatchTensors& batch) {
    if (kept_[i].output.defined()) return;
    if (!kept_[i].input.defined()) {
      compute_again(i - 1, batch);
      kept_[i].input = kept_[i - 1].output;
    }
    run(i, kept_[i].input, batch, true);
  }

  // Returns d input of a segment from d output, or nothing if no segment below needs it. Gradients
  // of the segment's trained tensors are added to their buffers.
  at::Tensor pull(size_t i, const at::Tensor& grad, bool needs_input_grad) {
    std::vector<at::Tensor> inputs;
    if (needs_input_grad) inputs.push_back(kept_[i].input);
    const bool needs_source_grad = segments_[i].source != kNoValue && source_.requires_grad();
    if (needs_source_grad) inputs.push_back(source_);
    const std::vector<Trainable*>& items = trained_[i];
    for (Trainable* item : items) inputs.push_back(item->leaf);
    if (inputs.empty()) return {};
    std::vector<at::Tensor> outputs{kept_[i].output}, slopes{grad};
    for (const at::Tensor& probability : kept_[i].probabilities)
      if (balance_.slope.defined() && probability.requires_grad())
        outputs.push_back(probability), slopes.push_back(balance_.slope.to(probability.device()));
    // An expert without tokens has no gradient.
    auto grads = torch::autograd::grad(outputs, inputs, slopes, {}, false, true);
    c10::NoGradGuard no_grad;
    const size_t first = static_cast<size_t>(needs_input_grad) + needs_source_grad;
    if (needs_source_grad) d_source_ = d_source_.defined() ? d_source_ + grads[first - 1] : grads[first - 1];
    for (size_t j = 0; j < items.size(); ++j)
      if (grads[first + j].defined()) add_gradient(*items[j], grads[first + j]);
    return needs_input_grad ? grads[0] : at::Tensor();
  }

  // Turns d rows of the head into d of the last layer's result, with zeros at unsupervised tokens.
  // [tokens, hidden]
  at::Tensor tail_backward(at::Tensor d_rows, const BatchTensors& batch) {
    std::vector<at::Tensor> inputs{rows_};
    const std::vector<Trainable*> trained = trained_of(tail_);
    for (Trainable* item : trained) inputs.push_back(item->leaf);
    auto grads = torch::autograd::grad({normed_}, inputs, {d_rows});
    c10::NoGradGuard no_grad;
    for (size_t i = 0; i < trained.size(); ++i) add_gradient(*trained[i], grads[i + 1]);
    rows_ = normed_ = at::Tensor();
    return at::zeros({tokens_, d_rows.size(1)}, grads[0].options())
        .index_copy_(0, batch.loss_positions, grads[0]);
  }

  const Model& model_;
  double neftune_alpha_;
  Graph list_;
  std::vector<BoundModule> modules_;
  std::vector<Segment> segments_;
  std::vector<std::vector<Trainable*>> trained_;  // tensors that a piece's ops read, by segment
  bool trains_embeddings_ = false;
  Segment tail_;                                  // from the supervised rows to the head's input
  size_t lowest_ = 0;  // the first segment that keeps anything: nothing below is trained
  // State of the current forward.
  std::vector<Kept> kept_;    // by segment
  at::Tensor rows_, normed_;  // under autograd, [targets, hidden]
  // An encoder's result, detached, and its gradient from the decoder's segments so far.
  at::Tensor source_, d_source_;
  int64_t tokens_ = 0;
  Balance balance_;
  bool forward_done_ = false;  // later runs are recomputations
};

}  // namespace

std::unique_ptr<StepProvider> whole_layers(const Model& model, TrainableSet& trainables, const StepOptions& options) {
  return std::make_unique<WholeLayers>(model, trainables, options);
}

}  // namespace forge
