// The reference on tensors as a backend: each op's forward by the function that `provider:
// reference` calls, its backward by autograd through it. The tensors borrow the operands' memory;
// results are copied out at the end, since an operand may be input and output. It rounds between
// steps (composed ATen in 16 bits), and has no optimizer, no sampling and no scratch.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_args.h"
#include "kernels/device/gemm_tensors.h"
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/layer_norm/layer_norm_args.h"
#include "kernels/linear/linear.h"
#include "kernels/lm_head/lm_head.h"
#include "kernels/lm_head/lm_head_args.h"
#include "kernels/lora/lora_args.h"
#include "kernels/quantize/quantize.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope.h"
#include "kernels/rope/rope_args.h"
#include "kernels/swiglu/swiglu.h"
#include "kernels/swiglu/swiglu_args.h"
#include "tests/kernels/backend.h"
#include "tests/kernels/substitutes.h"

namespace forge::kernel_test {
namespace {

at::Tensor borrow(const void* data, at::IntArrayRef shape, at::IntArrayRef strides, c10::ScalarType type) {
  return at::from_blob(const_cast<void*>(data), shape, strides, type);
}
at::Tensor matrix(const void* data, int64_t rows, int64_t columns, int64_t stride, Element type) {
  return borrow(data, {rows, columns}, {stride, 1}, scalar_of(type));
}
at::Tensor vector(const void* data, int64_t count, c10::ScalarType type) {
  return borrow(data, {count}, {1}, type);
}
// Returns a tensor [tokens, heads, head_dim].
at::Tensor heads_of(const void* data, int64_t tokens, int64_t heads, int64_t head_dim, int64_t stride,
                    Element type) {
  return borrow(data, {tokens, heads, head_dim}, {stride, head_dim, 1}, scalar_of(type));
}

at::Tensor leaf(const at::Tensor& x) { return x.detach().requires_grad_(true); }

std::vector<at::Tensor> backward(const at::Tensor& y, const std::vector<at::Tensor>& leaves,
                                 const at::Tensor& d_y) {
  return torch::autograd::grad({y}, leaves, {d_y});
}

void rms_norm_forward(const RmsNormForward& a) {
  const Element stream = a.stream_type.value_or(a.type);
  at::Tensor h = matrix(a.x, a.rows, a.width, a.x_stride, a.residual ? a.type : stream);
  if (a.residual) {  // the decoder's addition
    h = h + matrix(a.residual, a.rows, a.width, a.residual_stride, stream);
    matrix(a.h, a.rows, a.width, a.h_stride, stream).copy_(h);
  }
  matrix(a.y, a.rows, a.width, a.y_stride, a.type)
      .copy_(rms_norm(h, vector(a.weight, a.width, scalar_of(a.type)), a.eps, a.weight_offset, scalar_of(a.type)));
}

// Returns eps, which the contract's backward is not given, from r: 1/r² − mean h², most exact where
// the mean is smallest.
double eps_of(const at::Tensor& h, const at::Tensor& inverse) {
  if (h.size(0) == 0) return 0;
  at::Tensor means = h.to(at::kDouble).square().mean(1);
  const int64_t row = means.argmin().item<int64_t>();
  return 1 / std::pow(inverse[row].item<double>(), 2) - means[row].item<double>();
}

void rms_norm_backward(const RmsNormBackward& a) {
  const Element stream = a.stream_type.value_or(a.type);
  at::Tensor h = leaf(matrix(a.h, a.rows, a.width, a.h_stride, stream));
  at::Tensor weight = leaf(vector(a.weight, a.width, scalar_of(a.type)));
  const double eps = eps_of(h.detach(), vector(a.inverse, a.rows, at::kFloat));
  const at::Tensor y = rms_norm(h, weight, eps, a.weight_offset, scalar_of(a.type));
  auto grads = backward(y, {h, weight}, matrix(a.d_y, a.rows, a.width, a.d_y_stride, a.type));
  if (a.y) matrix(a.y, a.rows, a.width, a.y_stride, a.type).copy_(y.detach());
  at::Tensor d_h = matrix(a.d_h, a.rows, a.width, a.d_h_stride, stream);
  if (a.accumulate)
    d_h.add_(grads[0]);
  else
    d_h.copy_(grads[0]);
  if (a.d_weight) vector(a.d_weight, a.width, at::kFloat).add_(grads[1]);
}

void layer_norm_forward(const LayerNormForward& a) {
  const auto type = scalar_of(a.type);
  matrix(a.y, a.rows, a.width, a.y_stride, a.type)
      .copy_(layer_norm(matrix(a.x, a.rows, a.width, a.x_stride, a.x_type.value_or(a.type)),
                        a.weight ? vector(a.weight, a.width, type) : at::Tensor(),
                        a.bias ? vector(a.bias, a.width, type) : at::Tensor(), a.eps, type, a.weight_offset));
}

// The statistics are one column each of the operand; eps follows from them.
void layer_norm_backward(const LayerNormBackward& a) {
  const Element x_type = a.x_type.value_or(a.type);
  at::Tensor x = leaf(matrix(a.x, a.rows, a.width, a.x_stride, x_type));
  const at::Tensor ones = at::ones({a.width}, scalar_of(a.type));
  at::Tensor weight = leaf(a.weight ? vector(a.weight, a.width, scalar_of(a.type)) : ones), bias = leaf(at::zeros_like(weight));
  const at::Tensor wide = x.detach().to(at::kDouble);
  const double inverse = a.rows > 0 ? a.statistics[1] : 1;
  const double eps = a.rows > 0 ? 1 / (inverse * inverse) - wide[0].var(false).item<double>() : 0;
  auto grads = backward(layer_norm(x, weight, bias, eps, scalar_of(a.type), a.weight_offset), {x, weight, bias},
                        matrix(a.d_y, a.rows, a.width, a.d_y_stride, a.type));
  at::Tensor d_x = matrix(a.d_x, a.rows, a.width, a.d_x_stride, x_type);
  d_x.copy_(a.accumulate ? d_x + grads[0] : grads[0]);
  if (a.d_weight) vector(a.d_weight, a.width, at::kFloat).add_(grads[1]);
  if (a.d_bias) vector(a.d_bias, a.width, at::kFloat).add_(grads[2]);
}

void activation_forward(const ActivationForward& a) {
  matrix(a.y, a.rows, a.width, a.y_stride, a.type)
      .copy_(activation(matrix(a.x, a.rows, a.width, a.x_stride, a.type), a.function, a.limit));
}

void activation_backward(const ActivationBackward& a) {
  at::Tensor x = leaf(matrix(a.x, a.rows, a.width, a.x_stride, a.type));
  auto grads = backward(activation(x, a.function, a.limit), {x}, matrix(a.d_y, a.rows, a.width, a.d_y_stride, a.type));
  matrix(a.d_x, a.rows, a.width, a.d_x_stride, a.type).copy_(grads[0]);
}

void swiglu_forward(const SwigluForward& a) {
  matrix(a.y, a.rows, a.width, a.y_stride, a.type)
      .copy_(swiglu(matrix(a.gate, a.rows, a.width, a.gate_stride, a.type),
                    matrix(a.up, a.rows, a.width, a.up_stride, a.type), a.function));
}

void pairs_forward(const ClampedGluForward& a) {
  matrix(a.y, a.rows, a.width, a.y_stride, a.type)
      .copy_(clamped_swiglu(matrix(a.pairs, a.rows, 2 * a.width, a.pairs_stride, a.type), a.limit, a.alpha));
}

void pairs_backward(const ClampedGluBackward& a) {
  at::Tensor pairs = leaf(matrix(a.pairs, a.rows, 2 * a.width, a.pairs_stride, a.type));
  at::Tensor y = clamped_swiglu(pairs, a.limit, a.alpha);
  auto grads = backward(y, {pairs}, matrix(a.d_y, a.rows, a.width, a.d_y_stride, a.type));
  pairs.detach().copy_(grads[0]);
  if (a.y) matrix(a.y, a.rows, a.width, a.y_stride, a.type).copy_(y.detach());
}

void swiglu_backward(const SwigluBackward& a) {
  at::Tensor gate = leaf(matrix(a.gate, a.rows, a.width, a.gate_stride, a.type));
  at::Tensor up = leaf(matrix(a.up, a.rows, a.width, a.up_stride, a.type));
  at::Tensor y = swiglu(gate, up, a.function);
  auto grads = backward(y, {gate, up}, matrix(a.d_y, a.rows, a.width, a.d_y_stride, a.type));
  const auto place = [&](void* own, int64_t stride, const at::Tensor& over) {
    return own ? matrix(own, a.rows, a.width, stride, a.type) : over.detach();
  };
  place(a.d_gate, a.d_gate_stride, gate).copy_(grads[0]);
  place(a.d_up, a.d_up_stride, up).copy_(grads[1]);
  if (a.y) matrix(a.y, a.rows, a.width, a.y_stride, a.type).copy_(y.detach());
}

void turn(const Rope& a) {
  at::Tensor x = heads_of(a.qkv, a.tokens, a.heads + a.kv_heads, a.head_dim, a.stride, a.type);
  const int64_t half = a.rotary_dim / 2;
  at::Tensor rows = a.positions ? vector(a.positions, a.tokens, at::kInt) : at::arange(a.tokens, at::kInt);
  const int64_t positions = a.tokens == 0 ? 0 : rows.max().item<int64_t>() + 1;
  auto table = [&](const float* values) {
    return matrix(values, positions, half, half, Element::f32).index_select(0, rows).to(scalar_of(a.type));
  };
  at::Tensor cosine = table(a.cosine), sine = table(a.sine);
  if (!a.backward) {
    x.copy_(rope(x, cosine, sine, a.layout));
    return;
  }
  at::Tensor any = at::zeros_like(x).requires_grad_(true);
  x.copy_(backward(rope(any, cosine, sine, a.layout), {any}, x)[0]);
}

std::vector<int32_t> offsets_of(const AttentionShape& s) {
  return {s.cu_seqlens, s.cu_seqlens + s.sequences + 1};
}

AttentionRule rule_of(const AttentionShape& s) {
  AttentionRule rule{.scale = s.scale, .softcap = s.softcap, .window = s.window};
  if (s.sinks) rule.sinks = leaf(vector(s.sinks, s.heads, scalar_of(s.type)));
  return rule;
}

void attend(const AttentionForward& a) {
  const AttentionShape& s = a.shape;
  const int64_t tokens = s.cu_seqlens[s.sequences];
  matrix(a.out, tokens, s.heads * s.head_dim, a.out_stride, s.type)
      .copy_(cross_attention(heads_of(a.q, tokens, s.heads, s.head_dim, a.q_stride, s.type),
                              heads_of(a.k, tokens, s.kv_heads, s.head_dim, a.k_stride, s.type),
                              heads_of(a.v, tokens, s.kv_heads, s.head_dim, a.v_stride, s.type),
                              offsets_of(s), offsets_of(s), rule_of(s)));
}

void attend_backward(const AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  const int64_t tokens = s.cu_seqlens[s.sequences];
  at::Tensor q = leaf(heads_of(a.q, tokens, s.heads, s.head_dim, a.q_stride, s.type));
  at::Tensor k = leaf(heads_of(a.k, tokens, s.kv_heads, s.head_dim, a.k_stride, s.type));
  at::Tensor v = leaf(heads_of(a.v, tokens, s.kv_heads, s.head_dim, a.v_stride, s.type));
  const AttentionRule rule = rule_of(s);
  std::vector<at::Tensor> leaves{q, k, v};
  if (s.sinks) leaves.push_back(rule.sinks);
  auto grads = backward(cross_attention(q, k, v, offsets_of(s), offsets_of(s), rule), leaves,
                        matrix(a.d_out, tokens, s.heads * s.head_dim, a.d_out_stride, s.type));
  if (a.d_sinks) vector(a.d_sinks, s.heads, at::kFloat).add_(grads[3]);
  heads_of(a.d_q, tokens, s.heads, s.head_dim, a.d_q_stride, s.type).copy_(grads[0]);
  heads_of(a.d_k, tokens, s.kv_heads, s.head_dim, a.d_k_stride, s.type).copy_(grads[1]);
  heads_of(a.d_v, tokens, s.kv_heads, s.head_dim, a.d_v_stride, s.type).copy_(grads[2]);
}

// The head's outputs at the positions that have a target. The others are left out before, like in
// training.
class Head {
 public:
  explicit Head(const LmHead& a)
      : a_(a),
        kept_(vector(a.targets, a.positions, at::kLong).ge(0).nonzero().squeeze(1)),
        targets_(vector(a.targets, a.positions, at::kLong).index_select(0, kept_)),
        hidden_(matrix(a.hidden, a.positions, a.width, a.hidden_stride, a.type).index_select(0, kept_)),
        weight_(matrix(a.weight, a.vocab, a.width, a.weight_stride, a.type)) {}

  void run() {
    TokenOutputs numbers = head_forward(hidden_, weight_, targets_, needs(), {.chunk = kChunk, .softcap = a_.softcap});
    put(a_.logp, numbers.logp);
    put(a_.logsumexp, numbers.logsumexp);
    put(a_.mean_logit, numbers.mean_logit);
    put(a_.entropy, numbers.entropy);
    put(a_.loss, loss(numbers));
    if (!a_.d_hidden && !a_.d_weight) return;
    at::Tensor weight_grad =
        a_.d_weight ? matrix(a_.d_weight, a_.vocab, a_.width, a_.width, Element::f32) : at::Tensor();
    auto cotangents = [&](int64_t begin, const TokenOutputs& chunk) { return grads(begin, chunk); };
    at::Tensor d_hidden =
        head_forward_backward(hidden_, weight_, targets_, needs(), cotangents, {.chunk = kChunk, .softcap = a_.softcap},
                              weight_grad);
    if (a_.d_hidden)
      matrix(a_.d_hidden, a_.positions, a_.width, a_.d_hidden_stride, a_.type)
          .zero_()
          .index_copy_(0, kept_, d_hidden);
  }

 private:
  static constexpr int64_t kChunk = 64;

  TokenNeeds needs() const {
    return {
        .logp = true, .logsumexp = true, .mean_logit = true, .entropy = true, .temperature = a_.temperature};
  }
  void put(float* to, const at::Tensor& numbers) const {
    if (!to) return;
    at::Tensor out = vector(to, a_.positions, at::kFloat).zero_();
    if (numbers.defined()) out.index_copy_(0, kept_, numbers);
  }
  // Returns an objective's loss from the head's outputs.
  at::Tensor loss(const TokenOutputs& n) const {
    if (!n.logp.defined()) return {};
    return n.logp * (a_.label_smoothing - 1) - (n.mean_logit - n.logsumexp) * a_.label_smoothing +
           n.logsumexp.square() * a_.z_loss;
  }
  TokenGrads grads(int64_t begin, const TokenOutputs& chunk) const {
    auto given = [&](const float* values) {
      if (!values) return at::zeros_like(chunk.logp);
      return vector(values, a_.positions, at::kFloat)
          .index_select(0, kept_)
          .narrow(0, begin, chunk.logp.size(0));
    };
    at::Tensor of_loss = given(a_.loss_weight);
    TokenGrads result{
        .logp = given(a_.g_logp) - of_loss * (1 - a_.label_smoothing),
        .logsumexp = given(a_.g_logsumexp) + of_loss * (a_.label_smoothing + 2 * a_.z_loss * chunk.logsumexp),
        .mean_logit = given(a_.g_mean_logit) - of_loss * a_.label_smoothing};
    if (a_.g_entropy) result.entropy = given(a_.g_entropy);
    return result;
  }

  const LmHead& a_;
  at::Tensor kept_, targets_, hidden_, weight_;
};


void quantize_blocks(const QuantizeBlocks& a) {
  auto format = !a.four_bit ? QuantizedFormat::int8 : is_nf4(a) ? QuantizedFormat::nf4 : QuantizedFormat::fp4;
  QuantizedWeight weight = quantize(borrow(a.values, {1, a.count}, {a.count, 1}, at::kFloat), {format});
  vector(a.codes, weight.codes.size(0), at::kByte).copy_(weight.codes);
  vector(a.absmax, weight.absmax.size(0), at::kFloat).copy_(weight.absmax);
}

void dequantize_blocks(const DequantizeBlocks& a) {
  const bool four_bit = a.coding == BlockCoding::four_bits;
  auto format = !four_bit ? QuantizedFormat::int8 : is_nf4(a) ? QuantizedFormat::nf4 : QuantizedFormat::fp4;
  const int64_t count = a.rows * a.columns, blocks = (count + kQuantizedBlock - 1) / kQuantizedBlock;
  QuantizedWeight weight{format, a.rows, a.columns,
                         vector(a.codes, four_bit ? (count + 1) / 2 : count, at::kByte)};
  if (a.absmax) {
    weight.absmax = vector(a.absmax, blocks, at::kFloat);
  } else {
    weight.absmax = vector(a.absmax_codes, blocks, at::kByte);
    weight.absmax_scale = vector(a.absmax_scale, (blocks + kNestedBlock - 1) / kNestedBlock, at::kFloat);
    weight.absmax_mean = a.absmax_mean;
  }
  matrix(a.out, a.rows, a.columns, a.out_stride, a.type)
      .copy_(dequantize_composed(weight, scalar_of(a.type)));
}

RowKeys row_keys(uint64_t seed, int64_t step, const int64_t* example, const int32_t* position, int64_t rows) {
  return {seed, step, {example, example + rows}, {position, position + rows}};
}

void drop(const CounterDropout& a) {
  const RowKeys rows = row_keys(a.seed, *a.step, a.example, a.position, a.rows);
  matrix(a.y, a.rows, a.features, a.y_stride, a.type)
      .copy_(counter_dropout(matrix(a.x, a.rows, a.features, a.x_stride, a.type), a.probability, a.module,
                             rows));
}

// Returns the positions that have an id.
at::Tensor present(const int64_t* ids, int64_t tokens) {
  return vector(ids, tokens, at::kLong).ge(0).nonzero().squeeze(1);
}

void embed(const EmbeddingForward& a) {
  at::Tensor kept = present(a.ids, a.tokens), ids = vector(a.ids, a.tokens, at::kLong).index_select(0, kept);
  matrix(a.y, a.tokens, a.width, a.y_stride, a.type)
      .zero_()
      .index_copy_(0, kept, at::embedding(matrix(a.table, a.vocab, a.width, a.width, a.type), ids) * a.scale);
}

// Computes the gradient in fp32: the table is an fp32 master, looked up and then converted.
void embed_backward(const EmbeddingBackward& a) {
  at::Tensor kept = present(a.ids, a.tokens), ids = vector(a.ids, a.tokens, at::kLong).index_select(0, kept);
  at::Tensor table = at::zeros({a.vocab, a.width}, at::kFloat).requires_grad_(true);
  at::Tensor d_y = matrix(a.d_y, a.tokens, a.width, a.d_y_stride, a.type).index_select(0, kept);
  matrix(a.d_table, a.vocab, a.width, a.width, Element::f32)
      .add_(backward(at::embedding(table, ids) * a.scale, {table}, d_y.to(at::kFloat))[0]);
}

// Returns one member of a group as a layer whose frozen weight is zero: the contract leaves x Wᵀ to
// the caller.
LinearSpec member_of(const LoraGroup& g, int64_t i) {
  const LoraMember& m = g.member[i];
  LinearSpec spec;
  spec.weight = at::zeros({m.out, g.width}, scalar_of(g.type));
  spec.lora_a = leaf(matrix(g.a, g.members * g.rank, g.width, g.width, g.type).narrow(0, i * g.rank, g.rank));
  spec.lora_b = leaf(matrix(m.b, m.out, g.rank, g.rank, g.type));
  spec.scale = g.scale, spec.dropout = g.dropout.probability, spec.dropout_stream = g.dropout.stream;
  return spec;
}

RowKeys row_keys(const LoraGroup& g) {
  const LoraDropout& d = g.dropout;
  if (d.probability <= 0) return {};
  return row_keys(d.seed, *d.step, d.example, d.position, g.tokens);
}

void lora_forward(const LoraForward& a) {
  const LoraGroup& g = a.group;
  c10::NoGradGuard no_grad;
  const RowKeys rows = row_keys(g);
  at::Tensor x = matrix(g.x, g.tokens, g.width, g.x_stride, g.type);
  for (int64_t i = 0; i < g.members; ++i)
    matrix(g.member[i].y, g.tokens, g.member[i].out, g.member[i].y_stride, g.type)
        .add_(linear(member_of(g, i), x, &rows));
}

void lora_backward(const LoraBackward& a) {
  const LoraGroup& g = a.group;
  const RowKeys rows = row_keys(g);
  at::Tensor x = leaf(matrix(g.x, g.tokens, g.width, g.x_stride, g.type));
  at::Tensor d_a = matrix(a.d_a, g.members * g.rank, g.width, g.width, Element::f32);
  for (int64_t i = 0; i < g.members; ++i) {
    const LoraMember& m = g.member[i];
    const LinearSpec spec = member_of(g, i);
    auto grads = backward(linear(spec, x, &rows), {x, spec.lora_a, spec.lora_b},
                          matrix(m.y, g.tokens, m.out, m.y_stride, g.type));
    if (a.d_x) matrix(a.d_x, g.tokens, g.width, a.d_x_stride, g.type).add_(grads[0]);
    d_a.narrow(0, i * g.rank, g.rank).add_(grads[1]);
    matrix(m.d_b, m.out, g.rank, g.rank, Element::f32).add_(grads[2]);
  }
}

}  // namespace

Backend reference_backend() {
  Backend reference("reference");
  auto add = [&]<class Args>(void (*run)(const Args&), Restrictions<Args> restrictions = {}) {
    reference.add<Args>(run, {}, /*rounds_between=*/true, restrictions);
  };
  const auto one_head = [](const auto& a) -> std::string { return a.heads == 1 ? "" : "the reference views heads as rows"; };
  add(rms_norm_forward, {.refusal = one_head, .without = {"inverse"}});
  add(rms_norm_backward, {.refusal = one_head});
  add(layer_norm_forward, {.without = {"statistics"}});
  add(layer_norm_backward);
  add(activation_forward);
  add(activation_backward);
  add(swiglu_forward);
  add(swiglu_backward);
  const auto narrow_pairs = [](const auto& a) -> std::string {
    return a.type == Element::f32 ? "" : "in 16 bits the reference rounds every step of pairs";
  };
  add(pairs_forward, {.refusal = narrow_pairs});
  add(pairs_backward, {.refusal = narrow_pairs});
  add(turn);
  const auto rounds_scores = [](const auto& a) -> std::string {
    if (a.shape.type == Element::f32) return "";
    if (a.shape.sinks) return "in 16 bits the reference rounds scores beside sinks, as transformers does";
    return a.shape.softcap != 0
               ? "in 16 bits the reference rounds scores on both sides of a cap, as transformers does"
               : "";
  };
  add(attend, {.refusal = rounds_scores, .without = {"lse"}});
  add(attend_backward, {.refusal = rounds_scores});
  add(+[](const LmHead& a) { Head(a).run(); });
  add(
      +[](const LogitsChunk& a) { Head(LogitsAsHead(a).head).run(); },
      Restrictions<LogitsChunk>{.refusal = [](const LogitsChunk& a) { return LogitsAsHead::refusal(a); }});
  add(quantize_blocks, {.refusal = [](const QuantizeBlocks& a) -> std::string {
        if (a.count == 0) return "the reference takes no empty matrix";
        return a.block == kQuantizedBlock && a.subtract == 0 ? "" : "the reference nests inside quantize()";
      }});
  add(dequantize_blocks, {.refusal = [](const DequantizeBlocks& a) -> std::string {
        if (!by_book(a.coding)) return "no composed decoder of GGUF's blocks";
        return a.block == kQuantizedBlock ? "" : "the composed decoder has blocks of 64";
      }});
  add(drop, {.refusal = [](const CounterDropout& a) -> std::string { return a.add ? "the reference does not add" : ""; }});
  add(embed, {.refusal = [](const EmbeddingForward& a) -> std::string {
        return a.table_type.value_or(a.type) == a.type ? "" : "the reference reads tables of the compute type";
      }});
  add(embed_backward, {.refusal = [](const EmbeddingBackward& a) -> std::string {
        return a.frozen < 0 ? "" : "the reference leaves no row out";
      }});
  add(lora_forward, {.without = {"s"}});
  add(lora_backward);
  return reference;
}

}  // namespace forge::kernel_test
