#include "kernels/delta_rule/delta_rule.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/test.h"

using namespace forge;

// Texts end within, at and after a chunk of 64 tokens; one is empty.
TEST_CASE("gradients of the delta rule chunk by chunk are those through all of it") {
  at::manual_seed(3);
  const std::vector<int32_t> cu_seqlens{0, 1, 65, 130, 130, 335};
  const DeltaHeads heads{.key_heads = 2, .value_heads = 4, .key_dim = 5, .value_dim = 3};
  const int64_t tokens = cu_seqlens.back();
  const auto random = [](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); };
  for (const bool space : {false, true}) {
    INFO((space ? "state space" : "delta rule"));
    const at::Tensor gates = at::cat({-random({tokens, 4}).abs(), random({tokens, 4}).sigmoid()}, 1);
    DeltaTensors in{random({tokens, 10}), random({tokens, 10}), random({tokens, 12}), gates};
    if (space) in.skip = random({4});
    const at::Tensor d_y = random({tokens, 12});
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& x : {in.q, in.k, in.v, in.gates, in.skip})
      if (x.defined()) leaves.push_back(x.detach().requires_grad_(true));
    const at::Tensor y = delta_rule(leaves[0], leaves[1], leaves[2], leaves[3], heads, cu_seqlens, nullptr,
                                    space ? leaves[4] : at::Tensor());
    const std::vector<at::Tensor> expected = torch::autograd::grad({y}, leaves, {d_y});
    DeltaTensors d{at::empty_like(in.q), at::empty_like(in.k), at::empty_like(in.v), at::empty_like(in.gates)};
    if (space) d.skip = at::ones({4}, at::kDouble);
    delta_rule_gradients(in, d_y, heads, cu_seqlens, d);
    const std::vector<at::Tensor> got{d.q, d.k, d.v, d.gates};
    for (size_t i = 0; i < got.size(); ++i) CHECK(at::allclose(got[i], expected[i], 1e-10, 1e-12));
    if (space) CHECK(at::allclose(d.skip - 1, expected[4], 1e-10, 1e-12));
  }
}
