#include <ATen/ATen.h>

#include <cmath>

#include "core/train/optim/rules.h"
#include "kernels/optimizer/optimizer_args.h"

namespace forge {
namespace {

// One range of a stretch: fp32 weights, gradients that are scaled already, and its settings.
struct Range {
  at::Tensor weight, grad;
  double rate = 0, decay = 0;
  int64_t begin = 0, count = 0, number = 1;
  double average_share = 0;
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
  if (s.kind == StateKind::plain) return update(static_cast<const AdamW&>(rule), r, s);
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

// Updates like torch.optim.SGD: the decay is part of the gradient, and of the momentum.
void update(const Sgd& rule, const Range& r, const UpdateStretch& s) {
  at::Tensor grad = r.grad;
  if (r.decay > 0) grad.add_(r.weight, r.decay);
  if (!s.state.empty()) grad = s.state[0].narrow(0, r.begin, r.count).mul_(rule.momentum).add_(grad);
  r.weight.sub_(grad, r.rate);
}

// Updates like transformers' Adafactor (Shazeer & Stern, 2018) without relative steps: β₂ₜ = 1 −
// t^−0.8, an update whose root mean square is at most 1, no first moment. The gradient's buffer is
// overwritten with the update; padding has gradient 0 and stays.
void update(const Adafactor&, const Range& r, const UpdateStretch& s) {
  constexpr double kDecayRate = -0.8, kSmallest = 1e-30, kLargestUpdate = 1;
  const double fresh = std::pow(static_cast<double>(r.number), kDecayRate);  // 1 − β₂ₜ
  at::Tensor grad = r.grad;
  int64_t count = s.elements;
  if (s.kind == StateKind::matrix) {
    grad = grad.narrow(0, 0, count).view({s.rows, s.columns});
    const auto average = [&](const at::Tensor& state, int64_t dim) {
      const at::Tensor norms = at::linalg_vector_norm(grad, 2, dim);
      state.mul_(1 - fresh).add_(norms.square_().div_(static_cast<double>(grad.size(dim))).add_(kSmallest), fresh);
    };
    const at::Tensor rows = s.state[0].narrow(0, 0, s.rows), columns = s.state[1].narrow(0, 0, s.columns);
    average(rows, 1), average(columns, 0);
    grad.mul_((rows / rows.mean()).rsqrt_().unsqueeze(1)).mul_(columns.rsqrt().unsqueeze(0));
  } else {
    const at::Tensor square = s.state[0];
    square.mul_(1 - fresh).addcmul_(grad, grad, fresh).add_(kSmallest * fresh);
    grad.mul_(square.rsqrt());
  }
  const double norm = at::linalg_vector_norm(grad).item<double>();
  const double size = std::sqrt(norm * norm / static_cast<double>(count)) / kLargestUpdate;
  r.weight.mul_(1 - r.rate * r.decay).sub_(r.grad, r.rate / std::max(1.0, size));
}

// Returns approximately the zeroth power of a matrix, U Vᵀ of its U S Vᵀ: five Newton–Schulz steps
// with the coefficients of Jordan (2024). `matrix` is overwritten. On a CPU it computes in fp32,
// where torch.optim.Muon takes bf16: without instructions for bf16 that is slower.
at::Tensor orthogonalized(at::Tensor matrix) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kSmallest = 1e-7;
  if (matrix.is_cuda()) matrix = matrix.to(at::kBFloat16);
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix, next = at::empty_like(x);
  x.div_(at::linalg_vector_norm(x).clamp_min(kSmallest));
  const int64_t shorter = x.size(0);
  at::Tensor gram = at::empty({shorter, shorter}, x.options()), update = at::empty_like(gram);
  for (int step = 0; step < 5; ++step) {
    at::mm_out(gram, x, x.t());
    at::addmm_out(update, gram, gram, gram, kB, kC);
    at::addmm_out(next, x, update, x, kA, 1);
    std::swap(x, next);
  }
  return tall ? x.t() : x;
}

// Updates like torch.optim.Muon with adjust_lr_fn "match_rms_adamw": the rate times 0.2 √(longer
// side) moves weights as far as AdamW would, so that one learning_rate serves both. LoRA's A and B
// are orthogonalised each by itself, not their product.
void update(const Muon& rule, const Range& r, const UpdateStretch& s) {
  if (s.kind == StateKind::plain) return update(rule.other, r, s);
  const auto matrix = [&](const at::Tensor& flat) { return flat.narrow(0, 0, s.elements).view({s.rows, s.columns}); };
  const at::Tensor grad = matrix(r.grad), momentum = matrix(s.state[0]);
  momentum.lerp_(grad, 1 - rule.momentum);
  const double rate = r.rate * 0.2 * std::sqrt(static_cast<double>(std::max(s.rows, s.columns)));
  const at::Tensor direction = orthogonalized(grad.lerp_(momentum, rule.momentum));
  matrix(r.weight).mul_(1 - r.rate * r.decay).sub_(direction.to(at::kFloat), rate);
}

// Updates like schedulefree.AdamWScheduleFree (Defazio et al., 2024): the gradient is taken at y =
// β₁ x + (1 − β₁) z, which the weights hold in training; z takes the steps, and x is the average of
// its points, weighted by their largest rate squared.
void update(const ScheduleFree& rule, const Range& r, const UpdateStretch& s) {
  const double second = 1 - std::pow(rule.beta2, r.number), share = r.average_share;
  for (int64_t begin = 0; begin < r.count; begin += kUpdateChunk) {
    const int64_t count = std::min(kUpdateChunk, r.count - begin);
    const auto part = [&](const at::Tensor& flat, int64_t from) { return flat.narrow(0, from + begin, count); };
    const at::Tensor y = part(r.weight, 0), grad = part(r.grad, 0), z = part(s.state[0], r.begin), square = part(s.state[1], r.begin);
    square.mul_(rule.beta2).addcmul_(grad, grad, 1 - rule.beta2);
    grad.div_(square.div(second).sqrt_().add_(rule.eps));
    if (r.decay > 0) grad.add_(y, r.decay);
    y.lerp_(z, share).add_(grad, r.rate * (rule.beta1 * (1 - share) - 1));
    z.sub_(grad, r.rate);
  }
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
                      step.number,          step.average_share};
    std::visit([&](const auto& r) { update(r, range, stretch); }, rule);
    if (!range.weight.is_same(stored)) stored.copy_(range.weight);
    begin = stretch.ends[i];
  }
  if (stretch.copy.defined()) at::Tensor(stretch.copy).copy_(stretch.weight);
}

}  // namespace forge
