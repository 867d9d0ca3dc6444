#include <ATen/ATen.h>

#include <cmath>

#include "core/optim/rules.h"
#include "kernels/optimizer/optimizer_args.h"

namespace forge {
namespace {

// One range of a stretch: fp32 weights, gradients that are scaled already, and its settings.
struct Range {
  at::Tensor weight, grad;
  double rate = 0, decay = 0;
  int64_t begin = 0, count = 0, number = 1;
};

// An ascending map of 256 values, and the middles between them.
struct StateMap {
  at::Tensor values, middles;

  StateMap(bool with_sign, const at::Device& device)
      : values(at::from_blob(const_cast<float*>(state_map(with_sign)), {256}, at::kFloat).to(device)),
        middles((values.slice(0, 0, 255) + values.slice(0, 1, 256)) / 2) {}

  // codes uint8 [n], absmax fp32 [n / 256] → fp32 [n]
  at::Tensor decode(const at::Tensor& codes, const at::Tensor& absmax) const {
    return (values.index_select(0, codes.to(at::kLong)).view({-1, kStateBlock}) * absmax.unsqueeze(1)).view(-1);
  }
  void encode(const at::Tensor& state, at::Tensor codes, at::Tensor absmax) const {
    const at::Tensor blocks = state.view({-1, kStateBlock});
    absmax.copy_(blocks.abs().amax(1));
    const at::Tensor unit = blocks / absmax.clamp_min(1e-38).unsqueeze(1);
    codes.copy_(at::bucketize(unit, middles).view(-1));
  }
};

void step(const Range& r, const at::Tensor& mean, const at::Tensor& square, double beta1, double beta2, double eps) {
  mean.lerp_(r.grad, 1 - beta1);
  square.mul_(beta2).addcmul_(r.grad, r.grad, 1 - beta2);
  const double first = 1 - std::pow(beta1, r.number), second = 1 - std::pow(beta2, r.number);
  r.weight.mul_(1 - r.rate * r.decay).addcdiv_(mean, (square.sqrt() / std::sqrt(second)).add_(eps), -r.rate / first);
}

void update(const AdamW& rule, const Range& r, const UpdateStretch& s) {
  step(r, s.state[0].narrow(0, r.begin, r.count), s.state[1].narrow(0, r.begin, r.count), rule.beta1, rule.beta2, rule.eps);
}

void update(const AdamW8bit& rule, const Range& r, const UpdateStretch& s) {
  if (!s.coded) return update(AdamW{rule.beta1, rule.beta2, rule.eps}, r, s);
  const auto part = [&](size_t i, int64_t block) { return s.state[i].narrow(0, r.begin / block, r.count / block); };
  const StateMap with_sign(true, r.weight.device()), without(false, r.weight.device());
  at::Tensor mean = with_sign.decode(part(0, 1), part(2, kStateBlock)),
             square = without.decode(part(1, 1), part(3, kStateBlock));
  step(r, mean, square, rule.beta1, rule.beta2, rule.eps);
  with_sign.encode(mean, part(0, 1), part(2, kStateBlock));
  without.encode(square, part(1, 1), part(3, kStateBlock));
}

void update(const Lion& rule, const Range& r, const UpdateStretch& s) {
  at::Tensor mean = s.state[0].narrow(0, r.begin, r.count);
  const at::Tensor direction = (mean * rule.beta1).add_(r.grad, 1 - rule.beta1).sign_();
  r.weight.mul_(1 - r.rate * r.decay).sub_(direction, r.rate);
  mean.mul_(rule.beta2).add_(r.grad, 1 - rule.beta2);
}

// As torch.optim.SGD: the decay is part of the gradient, and of the momentum.
void update(const Sgd& rule, const Range& r, const UpdateStretch& s) {
  at::Tensor grad = r.grad;
  if (r.decay > 0) grad.add_(r.weight, r.decay);
  if (!s.state.empty()) grad = s.state[0].narrow(0, r.begin, r.count).mul_(rule.momentum).add_(grad);
  r.weight.sub_(grad, r.rate);
}

}  // namespace

void update_composed(const OptimizerRule& rule, const UpdateStep& step, const UpdateStretch& stretch) {
  if (step.verdict[1] != 1) at::Tensor(stretch.grad).mul_(static_cast<double>(step.verdict[1]));
  int64_t begin = 0;
  for (size_t i = 0; i < stretch.ends.size(); ++i) {
    const int64_t count = stretch.ends[i] - begin;
    at::Tensor stored = stretch.weight.narrow(0, begin, count);
    // Without fp32 masters the update still happens in fp32, on a copy.
    const Range range{stored.to(at::kFloat), stretch.grad.narrow(0, begin, count), step.learning_rate * stretch.rate_factors[i],
                      stretch.decays[i],     begin,                                count,
                      step.number};
    std::visit([&](const auto& r) { update(r, range, stretch); }, rule);
    if (!range.weight.is_same(stored)) stored.copy_(range.weight);
    begin = stretch.ends[i];
  }
  if (stretch.copy.defined()) at::Tensor(stretch.copy).copy_(stretch.weight);
}

}  // namespace forge
