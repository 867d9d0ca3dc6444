// The entries of kernels_bench. Memory-bound ops have operands larger than any cache; head and
// attention have the shapes of SmolLM2-135M on 1,024 packed tokens.
#include <torch/csrc/autograd/autograd.h>

#include <c10/core/GradMode.h>

#include <cmath>
#include <numeric>

#include "core/lib/base/format.h"
#include "kernels/attention/attention_args.h"
#include "kernels/delta_rule/delta_rule.h"
#include "kernels/delta_rule/delta_rule_args.h"
#include "kernels/lm_head/lm_head.h"
#include "kernels/lm_head/lm_head_args.h"
#include "kernels/lora/lora_args.h"
#include "kernels/optimizer/optimizer_args.h"
#include "kernels/product/multiply.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_args.h"
#include "kernels/short_conv/short_conv.h"
#include "kernels/short_conv/short_conv_args.h"
#include "kernels/swiglu/swiglu.h"
#include "kernels/swiglu/swiglu_args.h"
#include "tests/kernels/bench.h"

// MKL's product with a factor laid out once, exported by LibTorch; the wheel brings no header of
// it.
extern "C" {
size_t cblas_sgemm_pack_get_size(int identifier, int m, int n, int k);
void cblas_sgemm_pack(int layout, int identifier, int transpose, int m, int n, int k, float alpha,
                      const float* from, int ld, float* packed);
void cblas_sgemm_compute(int layout, int transpose_a, int transpose_b, int m, int n, int k, const float* a,
                         int lda, const float* b, int ldb, float beta, float* c, int ldc);
}

namespace forge::kernel_bench {
namespace {

struct Type {
  const char* name;
  at::ScalarType scalar;
  Element element;
};
constexpr Type kTypes[] = {{" fp32", at::kFloat, Element::f32}, {" bf16", at::kBFloat16, Element::bf16}};

class Bench {
 public:
  Bench(std::string filter, int rounds) : filter_(std::move(filter)), rounds_(rounds) {}
  bool wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }
  void add(const Entry& entry) const { measure(entry, rounds_); }

 private:
  std::string filter_;
  int rounds_;
};

at::Tensor bytes(int64_t count) { return at::empty({count + 1}, at::kByte); }

void norms(const Bench& bench, const Type& type) {
  if (!bench.wants("rms_norm")) return;
  const int64_t rows = 16384, width = 1536;
  double pass = static_cast<double>(rows * width * bytes_of(type.element));
  at::Tensor x = at::randn({rows, width}).to(type.scalar),
             residual = at::randn({rows, width}).to(type.scalar);
  at::Tensor h = at::empty_like(x), y = at::empty_like(x), weight = at::ones({width}).to(type.scalar),
             inverse = at::empty({rows});
  RmsNormForward a{type.element,      rows,  width,      pointer(x), width,
                   pointer(residual), width, pointer(x), width};  // the residual stream, in place
  a.weight = pointer(weight), a.y = pointer(y), a.y_stride = width, a.inverse = inverse.data_ptr<float>();
  bench.add({"rms_norm + residual forward 16384x1536" + std::string(type.name),
             {.bytes = 4 * pass},
             at::kFloat,
             [&] { rms_norm_forward_cpu(a); },
             [&] { rms_norm(x + residual, weight, 1e-6); }});
  at::Tensor d_y = at::randn({rows, width}).to(type.scalar), d_h = at::zeros_like(x);
  RmsNormBackward b{type.element, rows, width, pointer(d_y), width, pointer(h), width, pointer(weight)};
  b.inverse = inverse.data_ptr<float>(), b.d_h = pointer(d_h), b.d_h_stride = width, b.accumulate = true;
  bench.add({"rms_norm backward 16384x1536" + std::string(type.name),
             {.bytes = 4 * pass},
             at::kFloat,
             [&] { rms_norm_backward_cpu(b); },
             [&] {
               at::Tensor g = (d_y * weight).to(at::kFloat), hat = h.to(at::kFloat) * inverse.unsqueeze(1);
               d_h.add_(((g - hat * (g * hat).mean(-1, true)) * inverse.unsqueeze(1)).to(type.scalar));
             }});
}

void gates(const Bench& bench, const Type& type) {
  if (!bench.wants("swiglu")) return;
  const int64_t rows = 8192, width = 3072;
  double pass = static_cast<double>(rows * width * bytes_of(type.element));
  at::Tensor gate = at::randn({rows, width}).to(type.scalar), up = at::randn({rows, width}).to(type.scalar),
             y = at::empty_like(gate), d_y = at::randn({rows, width}).to(type.scalar);
  SwigluForward a{type.element, GateFunction::silu, rows,  width,      pointer(gate),
                  width,        pointer(up),        width, pointer(y), width};
  bench.add({"swiglu forward 8192x3072" + std::string(type.name),
             {.bytes = 3 * pass},
             at::kFloat,
             [&] { swiglu_forward_cpu(a); },
             [&] { swiglu(gate, up); }});
  // In place: the gradients of one round are the inputs of the next, small enough to stay finite.
  SwigluBackward b{type.element, GateFunction::silu, rows,  width,       pointer(d_y),
                   width,        pointer(gate),      width, pointer(up), width};
  bench.add({"swiglu backward 8192x3072" + std::string(type.name),
             {.bytes = 5 * pass},
             at::kFloat,
             [&] { swiglu_backward_cpu(b); },
             [&] { at::Tensor d_gate = at::silu_backward(d_y * up, gate), d_up = d_y * at::silu(gate); }});
}

// Two texts of 512 tokens through half of Qwen3-Next's heads. The composition is the form of
// transformers' torch path, under autograd.
void delta_rules(const Bench& bench, const Type& type) {
  if (!bench.wants("delta_rule")) return;
  const int64_t tokens = 1024, dim = 128;
  const DeltaHeads heads{8, 16, dim, dim};
  const std::vector<int32_t> cu{0, 512, 1024};
  const int64_t keys = heads.key_heads * dim, values = heads.value_heads * dim;
  const auto drawn = [&](int64_t width) { return at::randn({tokens, width}).to(type.scalar); };
  at::Tensor q = drawn(keys), k = drawn(keys), v = drawn(values), y = at::empty_like(v), d_y = drawn(values), d_q = at::empty_like(q),
             d_k = at::empty_like(k), d_v = at::empty_like(v),
             gates = at::cat({-at::rand({tokens, heads.value_heads}), at::rand({tokens, heads.value_heads})}, 1), d_gates = at::empty_like(gates);
  const DeltaRuleShape shape{type.element, 2, cu.data(), heads.key_heads, heads.value_heads, dim, dim, tokens};
  DeltaRuleForward a{.shape = shape, .q = pointer(q), .q_stride = keys, .k = pointer(k), .k_stride = keys, .v = pointer(v), .v_stride = values};
  a.gates = gates.data_ptr<float>(), a.gates_stride = gates.size(1), a.y = pointer(y), a.y_stride = values;
  const at::Tensor room = bytes(delta_rule_forward_cpu_workspace(a));
  a.workspace = pointer(room);
  const double state = static_cast<double>(tokens * values * dim);
  bench.add({"delta_rule forward 2x512, 8/16 heads of 128" + std::string(type.name),
             {.operations = 6 * state},
             at::kFloat,
             [&] { delta_rule_forward_cpu(a); },
             [&] { c10::NoGradGuard no_grad; delta_rule(q, k, v, gates, heads, cu); }});
  DeltaRuleBackward b{.shape = shape, .d_y = pointer(d_y), .d_y_stride = values, .q = pointer(q), .q_stride = keys, .k = pointer(k), .k_stride = keys};
  b.v = pointer(v), b.v_stride = values, b.gates = a.gates, b.gates_stride = a.gates_stride;
  b.d_q = pointer(d_q), b.d_q_stride = keys, b.d_k = pointer(d_k), b.d_k_stride = keys, b.d_v = pointer(d_v), b.d_v_stride = values;
  b.d_gates = d_gates.data_ptr<float>(), b.d_gates_stride = d_gates.size(1);
  const at::Tensor more = bytes(delta_rule_backward_cpu_workspace(b));
  b.workspace = pointer(more);
  bench.add({"delta_rule forward and backward 2x512, 8/16 heads of 128" + std::string(type.name),
             {.operations = 26 * state},
             at::kFloat,
             [&] { delta_rule_forward_cpu(a), delta_rule_backward_cpu(b); },
             [&] {
               at::AutoGradMode grad(true);
               std::vector<at::Tensor> leaves;
               for (const at::Tensor& x : {q, k, v, gates}) leaves.push_back(x.detach().requires_grad_(true));
               torch::autograd::grad({delta_rule(leaves[0], leaves[1], leaves[2], leaves[3], heads, cu)}, leaves, {d_y});
             }});
}

void short_convs(const Bench& bench, const Type& type) {
  if (!bench.wants("short_conv")) return;
  const int64_t tokens = 2048, channels = 8192, width = 4;
  const std::vector<int32_t> cu{0, 700, 2048};
  at::Tensor x = at::randn({tokens, channels}).to(type.scalar), weight = at::randn({channels, 1, width}).to(type.scalar), y = at::empty_like(x),
             d_y = at::randn({tokens, channels}).to(type.scalar), d_x = at::empty_like(x), d_weight = at::zeros({channels, width});
  const double pass = static_cast<double>(tokens * channels * bytes_of(type.element));
  const ShortConvShape shape{type.element, 2, cu.data(), channels, width, true};
  ShortConvForward a{.shape = shape, .x = pointer(x), .x_stride = channels, .weight = pointer(weight), .y = pointer(y), .y_stride = channels};
  bench.add({"short_conv forward 2048x8192, 4 taps" + std::string(type.name),
             {.bytes = 2 * pass},
             at::kFloat,
             [&] { short_conv_forward_cpu(a); },
             [&] { c10::NoGradGuard no_grad; short_conv(x, weight, {}, true, cu); }});
  ShortConvBackward b{.shape = shape, .d_y = pointer(d_y), .d_y_stride = channels, .x = pointer(x), .x_stride = channels, .weight = pointer(weight)};
  b.d_x = pointer(d_x), b.d_x_stride = channels, b.d_weight = d_weight.data_ptr<float>();
  bench.add({"short_conv backward 2048x8192, 4 taps" + std::string(type.name),
             {.bytes = 3 * pass},
             at::kFloat,
             [&] { short_conv_backward_cpu(b); },
             [&] {
               at::AutoGradMode grad(true);
               const at::Tensor leaf = x.detach().requires_grad_(true), filter = weight.detach().requires_grad_(true);
               torch::autograd::grad({short_conv(leaf, filter, {}, true, cu)}, {leaf, filter}, {d_y});
             }});
}

void ropes(const Bench& bench, const Type& type) {
  if (!bench.wants("rope")) return;
  const int64_t tokens = 16384, heads = 27, kv_heads = 9, dim = 64, row = (heads + 2 * kv_heads) * dim;
  double pass = static_cast<double>(tokens * (heads + kv_heads) * dim * bytes_of(type.element)),
         tables = static_cast<double>(tokens * dim * 4);
  at::Tensor qkv = at::randn({tokens, row}).to(type.scalar), angle = at::rand({tokens, dim / 2}),
             cosine = angle.cos(), sine = angle.sin();
  at::Tensor c = cosine.to(type.scalar), s = sine.to(type.scalar);
  Rope a{type.element,
         RopeLayout::half_split,
         false,
         tokens,
         heads,
         kv_heads,
         dim,
         dim,
         pointer(qkv),
         row,
         cosine.data_ptr<float>(),
         sine.data_ptr<float>()};
  at::Tensor q = qkv.narrow(1, 0, heads * dim).view({tokens, heads, dim}),
             k = qkv.narrow(1, heads * dim, kv_heads * dim).view({tokens, kv_heads, dim});
  bench.add({"rope 16384 x (27 + 9) x 64" + std::string(type.name),
             {.bytes = 2 * pass + tables},
             at::kFloat,
             [&] { rope_cpu(a); },
             [&] {
               rope(q, c, s);
               rope(k, c, s);
             }});
}

void updates(const Bench& bench) {
  const int64_t count = 1 << 24;
  at::Tensor weight = at::randn({count}), grad = at::randn({count}), mean = at::zeros({count}),
             square = at::zeros({count}), copy = at::empty({count}, at::kBFloat16);
  at::Tensor verdict = at::tensor({1.0f, 1.0f, 1.0f}), step = at::full({}, 5.0);
  double n = static_cast<double>(count);
  float* w = weight.data_ptr<float>();
  const float *g = grad.data_ptr<float>(), *v = verdict.data_ptr<float>();
  const UpdateNumbers now = update_numbers(1e-4, 0.9, 0.999, 1);
  if (bench.wants("gradient norm")) {
    FlatNorm a{count, g, v, 1, verdict.data_ptr<float>()};
    at::Tensor workspace = bytes(gradient_norm_cpu_workspace(a));
    a.workspace = pointer(workspace);
    bench.add({"gradient norm 16.8 M",
               {.bytes = 4 * n},
               at::kFloat,
               [&] { gradient_norm_cpu(a); },
               [&] { grad.norm(); }});
  }
  if (bench.wants("adamw")) {
    AdamWUpdate a{count,         w, g,   mean.data_ptr<float>(), square.data_ptr<float>(), Element::bf16,
                  pointer(copy), v, &now};
    bench.add({"adamw + bf16 copy 16.8 M",
               {.bytes = 30 * n},
               at::kFloat,
               [&] { adamw_cpu(a); },
               [&] {
                 at::_fused_adamw_({weight}, {grad}, {mean}, {square}, {}, {step}, 1e-4, 0.9, 0.999, 0.01,
                                   1e-8, false, false);
                 copy.copy_(weight);
               }});
  }
  if (bench.wants("lion")) {
    LionUpdate a{count, w, g, mean.data_ptr<float>(), Element::bf16, pointer(copy), v, &now};
    bench.add({"lion + bf16 copy 16.8 M",
               {.bytes = 22 * n},
               at::kFloat,
               [&] { lion_cpu(a); },
               [&] {
                 weight.mul_(0.999).add_((mean * 0.9).add_(grad, 0.1).sign_(), -1e-4);
                 mean.mul_(0.99).add_(grad, 0.01);
                 copy.copy_(weight);
               }});
  }
  if (bench.wants("8-bit adamw")) {
    at::Tensor mean8 = at::zeros({count}, at::kByte), square8 = at::zeros({count}, at::kByte),
               max1 = at::zeros({count / 256}), max2 = at::zeros({count / 256});
    AdamW8bitUpdate a{count,
                      w,
                      g,
                      mean8.data_ptr<uint8_t>(),
                      square8.data_ptr<uint8_t>(),
                      max1.data_ptr<float>(),
                      max2.data_ptr<float>(),
                      state_map(true),
                      state_map(false),
                      Element::bf16,
                      pointer(copy),
                      v,
                      &now};
    bench.add(
        {"8-bit adamw + bf16 copy 16.8 M", {.bytes = 18 * n}, at::kFloat, [&] { adamw_8bit_cpu(a); }, {}});
  }
}

void heads(const Bench& bench, const Type& type) {
  if (!bench.wants("head")) return;
  const int64_t positions = 1024, width = 576, vocab = 49152;
  at::Tensor hidden = at::randn({positions, width}).to(type.scalar),
             weight = (at::randn({vocab, width}) * 0.05).to(type.scalar), d_hidden = at::empty_like(hidden);
  at::Tensor targets = at::randint(vocab, {positions}, at::kLong), loss = at::empty({positions}),
             weights = at::full({positions}, 1.0f / 1024);
  LmHead a{type.element,    positions,       width,
           vocab,           pointer(hidden), width,
           pointer(weight), width,           targets.data_ptr<int64_t>()};
  a.loss = loss.data_ptr<float>(), a.loss_weight = weights.data_ptr<float>(), a.d_hidden = pointer(d_hidden),
  a.d_hidden_stride = width;
  at::Tensor workspace = bytes(lm_head_cpu_workspace(a));
  a.workspace = pointer(workspace);
  double operations = 4.0 * positions * width * vocab;
  auto composed = [&] {
    head_forward_backward(hidden, weight, targets, {},
                          [&](int64_t, const TokenOutputs& out) {
                            return TokenGrads{.logp = at::full_like(out.logp, -1.0 / 1024)};
                          },
                          {.chunk = 512}, {});
  };
  bench.add({"head + cross-entropy 1024x49152x576" + std::string(type.name),
             {.operations = operations},
             type.scalar,
             [&] { lm_head_cpu(a); },
             composed});
}

void attentions(const Bench& bench, const Type& type) {
  if (!bench.wants("attention")) return;
  const int64_t sequences = 12, length = 85, tokens = sequences * length, heads = 9, kv_heads = 3, dim = 64;
  std::vector<int32_t> cu;
  for (int64_t i = 0; i <= sequences; ++i) cu.push_back(static_cast<int32_t>(i * length));
  auto make = [&](int64_t n) { return at::randn({tokens, n * dim}).to(type.scalar); };
  at::Tensor q = make(heads), k = make(kv_heads), v = make(kv_heads), out = make(heads), d_out = make(heads),
             d_q = make(heads), d_k = make(kv_heads), d_v = make(kv_heads), lse = at::empty({tokens, heads});
  AttentionShape shape{type.element, sequences, cu.data(), heads, kv_heads, dim, 0.125f};
  const int64_t wide = heads * dim, narrow = kv_heads * dim;
  AttentionForward f{shape,      pointer(q), wide,         pointer(k), narrow,
                     pointer(v), narrow,     pointer(out), wide,       lse.data_ptr<float>()};
  AttentionBackward b{shape,          pointer(q),   wide,         pointer(k), narrow,
                      pointer(v),     narrow,       pointer(out), wide,       lse.data_ptr<float>(),
                      pointer(d_out), wide,         pointer(d_q), wide,       pointer(d_k),
                      narrow,         pointer(d_v), narrow};
  at::Tensor workspace =
      bytes(std::max(attention_forward_cpu_workspace(f), attention_backward_cpu_workspace(b)));
  f.workspace = b.workspace = pointer(workspace);
  // The composition does the same as the op: packed rows in, packed rows and the gradients of every
  // key head out. A batch of equal lengths has no padding; with a longest text of 128, a third is
  // padding.
  for (int64_t padded : {length, int64_t{128}}) {
    auto batch = [=](const at::Tensor& x, int64_t n) {
      at::Tensor rows = x.view({sequences, length, n, dim});
      if (padded > length) rows = at::constant_pad_nd(rows, {0, 0, 0, 0, 0, padded - length});
      return rows.transpose(1, 2);
    };
    auto sdpa = [=](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      at::Tensor y = at::scaled_dot_product_attention(batch(q, heads), batch(k, kv_heads), batch(v, kv_heads),
                                                      {}, 0.0, true, 0.125, true);
      return y.transpose(1, 2).slice(1, 0, length).reshape({tokens, heads * dim});
    };
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& x : {q, k, v}) leaves.push_back(x.clone().requires_grad_(true));
    double pairs = static_cast<double>(sequences * heads * length * (length + 1) / 2);
    std::string against = "SDPA padded to " + std::to_string(padded);
    bench.add({"attention forward 12 x 85, 9/3 x 64" + std::string(type.name),
               {.operations = 4 * pairs * dim},
               at::kFloat,
               [&] { attention_forward_cpu(f); },
               [&] { sdpa(q, k, v); },
               against});
    bench.add({"attention forward + backward" + std::string(type.name),
               {.operations = 14 * pairs * dim},
               at::kFloat,
               [&] {
                 attention_forward_cpu(f);
                 attention_backward_cpu(b);
               },
               [&] {
                 at::AutoGradMode grad(true);
                 at::Tensor y = sdpa(leaves[0], leaves[1], leaves[2]);
                 torch::autograd::grad({y}, {leaves[0], leaves[1], leaves[2]}, {d_out});
               },
               against});
  }
}

// Measures whether laying a frozen weight out once pays. It does not: cblas_sgemm_compute on a
// packed factor takes 1.08 to 1.10 times at::mm's time for 1,024 tokens, 1.3 for 128 and 1.5 to 2.7
// for 32, and a step has a thousand tokens and more. Forward and backward need layouts of their
// own, each 1.2 to 9 times as large as the weight (MKL adds some 9 MB to every one), beside the
// weight itself. The entry's name says how much larger it becomes.
void packed_products(const Bench& bench) {
#if defined(__x86_64__)
  if (!bench.wants("packed product")) return;
  constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112, kPacked = 151, kFactorB = 162;
  for (const auto& [k, n] : {std::pair{576, 3072}, std::pair{2048, 11264}}) {
    at::Tensor weight = at::randn({n, k});
    for (const int m : {32, 128, 1024}) {
      at::Tensor x = at::randn({m, k}), y = at::empty({m, n});
      const size_t size = cblas_sgemm_pack_get_size(kFactorB, m, n, k);
      at::Tensor packed = at::empty({static_cast<int64_t>(size / sizeof(float)) + 1});
      cblas_sgemm_pack(kRowMajor, kFactorB, kTransposed, m, n, k, 1.0f, weight.data_ptr<float>(), k,
                       packed.data_ptr<float>());
      const double larger = static_cast<double>(size) / (4.0 * n * k);
      bench.add({fmt::format("packed product {} x {} x {}, weight x {:.2f}", m, k, n, larger),
                 {.operations = 2.0 * m * n * k},
                 at::kFloat,
                 [=, k = k, n = n] {
                   cblas_sgemm_compute(kRowMajor, kPlain, kPacked, m, n, k, x.data_ptr<float>(), k,
                                       packed.data_ptr<float>(), k, 0, y.data_ptr<float>(), n);
                 },
                 [=]() mutable { at::mm_out(y, x, weight.t()); },
                 "at::mm"});
    }
  }
#endif
}

// Measures the benefit of adjacent weights over one input: one product for q, k and v, one for gate
// and up, in SmolLM2's shapes.
void merged_products(const Bench& bench, const Type& type) {
  if (!bench.wants("merged product")) return;
  struct Group {
    const char* name;
    std::vector<int64_t> widths;
  };
  constexpr int64_t kIn = 576;
  for (const Group& group : {Group{"q-k-v", {576, 192, 192}}, Group{"gate-up", {1536, 1536}}}) {
    const int64_t out = std::accumulate(group.widths.begin(), group.widths.end(), int64_t{0});
    const at::Tensor weight = at::randn({out, kIn}).to(type.scalar);
    const std::vector<at::Tensor> weights = weight.split_with_sizes(group.widths);
    for (const int64_t rows : {1, 32, 512, 2048}) {
      const at::Tensor x = at::randn({rows, kIn}).to(type.scalar), d_y = at::randn({rows, out}).to(type.scalar);
      const double operations = 2.0 * rows * kIn * out;
      const auto add = [&](const char* pass, Run merged, Run apart) {
        bench.add({fmt::format("merged product {} {} {} rows{}", group.name, pass, rows, type.name), {.operations = operations},
                   type.scalar, std::move(merged), std::move(apart), "apart"});
      };
      at::Tensor y = at::empty({rows, out}, x.options()), d_x = at::empty_like(x);
      std::vector<at::Tensor> parts, cotangents;
      for (const int64_t width : group.widths) parts.push_back(at::empty({rows, width}, x.options()));
      for (const at::Tensor& part : d_y.split_with_sizes(group.widths, 1)) cotangents.push_back(part.contiguous());
      add("forward", [=] { multiply(y, x, weight.t(), false); },
          [=] {
            for (size_t i = 0; i < parts.size(); ++i) multiply(parts[i], x, weights[i].t(), false);
          });
      add("backward", [=] { multiply(d_x, d_y, weight, false); },
          [=] {
            for (size_t i = 0; i < cotangents.size(); ++i) multiply(d_x, cotangents[i], weights[i], i > 0);
          });
    }
  }
}

// Measures adapters of rank 16 beside products of SmolLM2's shapes.
void adapters(const Bench& bench, const Type& type) {
  if (!bench.wants("adapter")) return;
  constexpr int64_t kTokens = 1024, kRank = 16;
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{576, 192}, {576, 576}, {576, 1536}, {1536, 576}}) {
    const at::Tensor x = at::randn({kTokens, in}).to(type.scalar), y = at::randn({kTokens, out}).to(type.scalar);
    const at::Tensor a = at::randn({kRank, in}).to(type.scalar), b = at::randn({out, kRank}).to(type.scalar);
    const at::Tensor s = at::empty({kTokens, kRank}), d_x = at::zeros_like(x), d_a = at::zeros({kRank, in}), d_b = at::zeros({out, kRank});
    LoraGroup group{.type = type.element, .tokens = kTokens, .width = in, .rank = kRank, .members = 1, .scale = 2};
    group.x = pointer(x), group.x_stride = in, group.a = pointer(a), group.s = pointer(s);
    group.member[0] = {.out = out, .b = pointer(b), .y = pointer(y), .y_stride = out, .d_b = d_b.data_ptr<float>()};
    const auto space = [](int64_t bytes) { return at::empty({bytes}, at::kByte); };
    const LoraForward forward{group};
    const LoraBackward backward{group, d_a.data_ptr<float>(), pointer(d_x), in};
    const at::Tensor first = space(lora_forward_cpu_workspace(forward)), second = space(lora_backward_cpu_workspace(backward));
    const double operations = 2.0 * kTokens * kRank * static_cast<double>(in + out);
    bench.add({fmt::format("adapter forward {} to {}{}", in, out, type.name), {.operations = operations}, at::kFloat,
               [=, args = forward]() mutable { args.workspace = pointer(first), lora_forward_cpu(args); },
               [=]() mutable { y.addmm_(at::mm(x, a.t()), b.t(), 1, 2); }});
    bench.add({fmt::format("adapter backward {} to {}{}", in, out, type.name), {.operations = 2 * operations}, at::kFloat,
               [=, args = backward]() mutable { args.workspace = pointer(second), lora_backward_cpu(args); },
               [=]() mutable {
                 const at::Tensor d_s = at::mm(y, b).mul_(2), kept = at::mm(x, a.t());
                 d_b.add_(at::mm(y.t(), kept), 2), d_a.add_(at::mm(d_s.t(), x)), d_x.addmm_(d_s, a);
               }});
  }
}

}  // namespace

void run_entries(const std::string& filter, int rounds) {
  at::manual_seed(1);
  Bench bench(filter, rounds);
  for (const Type& type : kTypes) {
    norms(bench, type);
    gates(bench, type);
    ropes(bench, type);
    delta_rules(bench, type);
    short_convs(bench, type);
  }
  updates(bench);
  for (const Type& type : kTypes) {
    attentions(bench, type);
    heads(bench, type);
  }
  packed_products(bench);
  for (const Type& type : kTypes) merged_products(bench, type), adapters(bench, type);
}

}  // namespace forge::kernel_bench
