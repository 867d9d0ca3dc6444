// The head's hand-written gradients against autograd of the plain composition, in the same precision and in fp64.
#include "kernels/lm_head/lm_head.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/test.h"

using namespace forge;

namespace {

struct Case {
  int64_t positions, vocab, hidden, chunk;
  double temperature;
};

double worst(const at::Tensor& a, const at::Tensor& b) {
  double scale = b.abs().max().item<double>();
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>() / std::max(scale, 1e-12);
}

}  // namespace

TEST_CASE("head outputs and gradients equal autograd's for every need") {
  at::manual_seed(1);
  auto shape = GENERATE(Case{7, 33, 8, 3, 1.0}, Case{1, 5, 4, 512, 0.7}, Case{64, 300, 16, 64, 1.3});
  at::Tensor hidden = at::randn({shape.positions, shape.hidden}), weight = at::randn({shape.vocab, shape.hidden});
  at::Tensor targets = at::randint(shape.vocab, {shape.positions}, at::kLong);
  TokenNeeds needs{.logp = true, .logsumexp = true, .mean_logit = true, .entropy = true, .temperature = shape.temperature};
  TokenGrads grads{at::randn({shape.positions}), at::randn({shape.positions}), at::randn({shape.positions}), at::randn({shape.positions})};

  // fp64, differentiated by LibTorch.
  at::Tensor h = hidden.to(at::kDouble).requires_grad_(true), w = weight.to(at::kDouble).requires_grad_(true);
  at::Tensor z = at::mm(h, w.t()) / shape.temperature;
  at::Tensor lse = at::logsumexp(z, {1}), logp = z.gather(1, targets.unsqueeze(1)).squeeze(1) - lse;
  at::Tensor p = at::softmax(z, 1), entropy = lse - (p * z).sum(1), mean = z.mean(1);
  at::Tensor total = (logp * grads.logp + lse * grads.logsumexp + mean * grads.mean_logit + entropy * grads.entropy).sum();
  auto expected = torch::autograd::grad({total}, {h, w});

  TokenOutputs outputs = head_forward(hidden, weight, targets, needs, {.chunk = shape.chunk});
  CHECK(worst(outputs.logp, logp.detach()) < 1e-5);
  CHECK(worst(outputs.logsumexp, lse.detach()) < 1e-5);
  CHECK(worst(outputs.mean_logit, mean.detach()) < 1e-4);
  CHECK(worst(outputs.entropy, entropy.detach()) < 1e-4);

  at::Tensor weight_grad = at::zeros_like(weight);
  auto cotangents = [&](int64_t begin, const TokenOutputs& chunk) {
    int64_t count = chunk.logsumexp.size(0);
    auto part = [&](const at::Tensor& g) { return g.narrow(0, begin, count); };
    return TokenGrads{part(grads.logp), part(grads.logsumexp), part(grads.mean_logit), part(grads.entropy)};
  };
  at::Tensor d_hidden = head_forward_backward(hidden, weight, targets, needs, cotangents, {.chunk = shape.chunk}, weight_grad);
  CHECK(worst(d_hidden, expected[0]) < 2e-5);  // fp32 sums over the vocabulary
  CHECK(worst(weight_grad, expected[1]) < 2e-5);
}

TEST_CASE("logits of a thousand do not overflow the head") {
  at::Tensor hidden = at::full({2, 1}, 1000.0f), weight = at::linspace(-1, 1, 9).unsqueeze(1);
  at::Tensor targets = at::zeros({2}, at::kLong);
  TokenOutputs out = head_forward(hidden, weight.contiguous(), targets, {.logp = true}, {.chunk = 8});
  CHECK(out.logp[0].item<float>() == Approx(-2000).epsilon(1e-5));
}
