// Compares the head's hand-written gradients with autograd of the plain composition, in the same
// precision and in fp64.
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

  // The head is also computed in fp64 and differentiated by LibTorch.
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

TEST_CASE("a head's bias is part of the logits, and its gradient is that of all positions") {
  at::manual_seed(3);
  const double softcap = GENERATE(0.0, 2.5);
  constexpr int64_t kPositions = 21, kVocab = 90, kWidth = 16;
  const at::Tensor hidden = at::randn({kPositions, kWidth}), weight = at::randn({kVocab, kWidth}), bias = at::randn({kVocab});
  const at::Tensor targets = at::randint(kVocab, {kPositions}, at::kLong), g = at::randn({kPositions});
  const TokenNeeds needs{.logp = true, .logsumexp = true, .temperature = 0.8};

  const auto leaf = [](const at::Tensor& x) { return x.to(at::kDouble).requires_grad_(true); };
  at::Tensor h = leaf(hidden), w = leaf(weight), b = leaf(bias);
  at::Tensor z = at::mm(h, w.t()) + b;
  if (softcap != 0) z = softcap * (z / softcap).tanh();
  const at::Tensor logp = at::log_softmax(z / needs.temperature, 1).gather(1, targets.unsqueeze(1)).squeeze(1);
  const auto expected = torch::autograd::grad({(logp * g).sum()}, {h, w, b});

  HeadMemory memory{.chunk = 8, .softcap = softcap, .bias = bias};
  CHECK(worst(head_forward(hidden, weight, targets, needs, memory).logp, logp.detach()) < 1e-5);
  at::Tensor weight_grad = at::zeros_like(weight);
  memory.bias_grad = at::ones_like(bias);  // it is added to
  const auto cotangents = [&](int64_t begin, const TokenOutputs& chunk) {
    return TokenGrads{.logp = g.narrow(0, begin, chunk.logp.size(0))};
  };
  const at::Tensor d_hidden = head_forward_backward(hidden, weight, targets, needs, cotangents, memory, weight_grad);
  CHECK(worst(d_hidden, expected[0]) < 2e-5);
  CHECK(worst(weight_grad, expected[1]) < 2e-5);
  CHECK(worst(memory.bias_grad - 1, expected[2]) < 2e-5);
}

TEST_CASE("logits of a thousand do not overflow the head") {
  at::Tensor hidden = at::full({2, 1}, 1000.0f), weight = at::linspace(-1, 1, 9).unsqueeze(1);
  at::Tensor targets = at::zeros({2}, at::kLong);
  TokenOutputs out = head_forward(hidden, weight.contiguous(), targets, {.logp = true}, {.chunk = 8});
  CHECK(out.logp[0].item<float>() == Approx(-2000).epsilon(1e-5));
}

TEST_CASE("a head on a CPU works on the logits where the product left them") {
  at::manual_seed(2);
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(type));
  const double softcap = GENERATE(0.0, 3.0);
  constexpr int64_t kPositions = 21, kVocab = 300, kWidth = 16, kChunk = 8;
  const at::Tensor hidden = at::randn({kPositions, kWidth}).to(type), weight = at::randn({kVocab, kWidth}).to(type);
  at::Tensor targets = at::randint(kVocab, {kPositions}, at::kLong);
  targets[0] = at::mm(hidden, weight.t())[0].argmax();
  const TokenNeeds needs{.logp = true, .logsumexp = true, .mean_logit = true, .entropy = true, .top1 = true, .temperature = 0.7};
  const TokenGrads grads{at::randn({kPositions}), at::randn({kPositions}), at::randn({kPositions}), at::randn({kPositions})};

  // The expected values are computed in fp64 from the rounded logits.
  at::Tensor x = at::mm(hidden, weight.t()).to(at::kDouble).requires_grad_(true);
  at::Tensor z = (softcap == 0 ? x : softcap * (x / softcap).tanh()) / needs.temperature;
  at::Tensor lse = at::logsumexp(z, {1}), logp = z.gather(1, targets.unsqueeze(1)).squeeze(1) - lse;
  at::Tensor entropy = lse - (at::softmax(z, 1) * z).sum(1), mean = z.mean(1);
  at::Tensor total = (logp * grads.logp + lse * grads.logsumexp + mean * grads.mean_logit + entropy * grads.entropy).sum();
  const at::Tensor d_x = torch::autograd::grad({total}, {x})[0].to(type).to(at::kDouble);

  constexpr int64_t kPast = 64;
  const int64_t bytes = head_scratch_bytes(kChunk, kVocab, element_bytes, softcap != 0, false);
  CHECK(bytes == kChunk * kVocab * element_bytes);
  at::Tensor scratch = at::full({bytes + kPast}, 77, at::kByte);
  const HeadMemory memory{.chunk = kChunk, .scratch = scratch.narrow(0, 0, bytes), .softcap = softcap};
  const TokenOutputs outputs = head_forward(hidden, weight, targets, needs, memory);
  CHECK(worst(outputs.logp, logp.detach()) < 1e-5);
  CHECK(worst(outputs.logsumexp, lse.detach()) < 1e-5);
  CHECK(worst(outputs.mean_logit, mean.detach()) < 1e-4);
  CHECK(worst(outputs.entropy, entropy.detach()) < 1e-4);
  CHECK(at::equal(outputs.top1, logp.ge((z - lse.unsqueeze(1)).amax(1)).to(at::kFloat)));
  CHECK(outputs.top1[0].item<float>() == 1);

  at::Tensor weight_grad = at::zeros({kVocab, kWidth});
  const auto cotangents = [&](int64_t begin, const TokenOutputs& chunk) {
    const auto part = [&](const at::Tensor& g) { return g.narrow(0, begin, chunk.logsumexp.size(0)); };
    return TokenGrads{part(grads.logp), part(grads.logsumexp), part(grads.mean_logit), part(grads.entropy)};
  };
  const at::Tensor d_hidden = head_forward_backward(hidden, weight, targets, needs, cotangents, memory, weight_grad);
  const double rounding = type == at::kFloat ? 1e-5 : type == at::kHalf ? 1e-3 : 8e-3;
  CHECK(worst(d_hidden, d_x.mm(weight.to(at::kDouble))) < rounding);
  CHECK(worst(weight_grad, d_x.t().mm(hidden.to(at::kDouble))) < 2 * rounding);  // of each chunk
  CHECK(scratch.narrow(0, bytes, kPast).eq(77).all().item<bool>());
}
