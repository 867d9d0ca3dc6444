#include "providers/reference/rehearsed_layer.h"

#include <algorithm>
#include <memory>

namespace forge {
namespace {

// LibTorch's CPU flash attention works on blocks of keys and of queries, the latter by length.
constexpr int64_t kKeyBlock = 512;
int64_t query_block(int64_t length) {
  return std::min<int64_t>(length, length >= 768 ? 256 : length >= 192 ? 64 : 32);
}

struct Piece {
  Held input, output;
};

struct Saved {
  Piece attention, mlp;
  AttentionGraph attention_graph;
  MlpGraph mlp_graph;
  bool has_attention = false, has_mlp = false;
};

}  // namespace

ReferenceLayers::ReferenceLayers(const ActivationShape& shape, Ledger& ledger)
    : RehearsedLayers(shape, ledger),
      hidden_(shape.spec.hidden_size),
      inner_(shape.spec.intermediate_size),
      q_(shape.spec.num_heads * shape.spec.head_dim),
      kv_(shape.spec.num_kv_heads * shape.spec.head_dim),
      grouped_(shape.spec.num_heads != shape.spec.num_kv_heads),
      several_(shape.several_sequences),
      training_(shape.training) {}

Held ReferenceLayers::forward(const RehearsedLayer& layer, const Held& hidden, Held* saved) {
  if (!saved) {
    Held middle = attention(layer, Use::layer, nullptr);
    return mlp(layer, Use::layer, nullptr);
  }
  auto kept = std::make_shared<Saved>();
  kept->has_attention = shape_.checkpointing != Checkpointing::full;
  kept->has_mlp = shape_.checkpointing == Checkpointing::none;
  kept->attention.input = hidden;
  Held middle = attention(layer, Use::saved, kept->has_attention ? &kept->attention_graph : nullptr);
  if (kept->has_attention) kept->attention.output = middle;
  if (shape_.checkpointing != Checkpointing::full) kept->mlp.input = middle;
  Held output = mlp(layer, Use::saved, kept->has_mlp ? &kept->mlp_graph : nullptr);
  if (kept->has_mlp) kept->mlp.output = output;
  *saved = kept;
  return output;
}

Held ReferenceLayers::backward(const RehearsedLayer& layer, const Held&, Held saved, bool) {
  Saved& kept = *static_cast<Saved*>(saved.get());
  if (!kept.has_attention) {
    kept.attention.output = attention(layer, Use::layer, &kept.attention_graph);
    kept.mlp.input = kept.attention.output;
  }
  if (!kept.has_mlp) kept.mlp.output = mlp(layer, Use::layer, &kept.mlp_graph);
  Held middle = mlp_backward(layer, kept.mlp_graph);
  kept.mlp = {};
  return attention_backward(layer, kept.attention_graph);
}

// kernels/rms_norm
Held ReferenceLayers::norm(Use use, int64_t rows, NormGraph* graph) {
  const int64_t fp32 = 4 * rows * hidden_, own = element_ * rows * hidden_;
  Held wide = narrow() ? ledger_.hold(use, fp32) : Held();
  ledger_.hold(use, fp32);  // the squares
  Held inverse = ledger_.hold(use, 4 * rows);
  Held scaled = ledger_.hold(use, fp32);
  Held normed = narrow() ? ledger_.hold(use, own) : scaled;
  Held out = ledger_.hold(use, own);
  if (!graph) return out;
  graph->wide = wide;
  graph->inverse = inverse;
  if (graph->trained) graph->normed = normed;
  return out;
}

Held ReferenceLayers::norm_backward(Use use, int64_t rows, NormGraph& graph, Held grad, bool residual) {
  const int64_t fp32 = 4 * rows * hidden_, own = element_ * rows * hidden_;
  Held scaled = ledger_.hold(use, own);
  if (graph.trained) ledger_.hold(use, own);  // before its sum over rows
  grad.reset();
  graph.normed.reset();
  if (narrow()) scaled = ledger_.hold(use, fp32);
  Held sum = ledger_.hold(use, fp32);
  ledger_.hold(use, fp32);  // grad × wide before its sum over the features
  scaled.reset();
  if (residual && !narrow()) sum = ledger_.hold(use, fp32);
  {
    // d mean, then d square: grad · (2 · wide¹), each a tensor.
    Held mean = ledger_.hold(use, fp32), power = ledger_.hold(use, fp32), twice = ledger_.hold(use, fp32);
    ledger_.hold(use, fp32);
  }
  graph = {};
  if (!narrow()) return sum;
  Held out = ledger_.hold(use, own);
  sum.reset();
  return residual ? ledger_.hold(use, own) : out;
}

// kernels/linear
Held ReferenceLayers::linear(const RehearsedLinear& linear, const Held& x, Use use, LinearGraph* graph) {
  if (linear.rank == 0) {
    if (graph && linear.trained) graph->x = x;
    return product(use, linear.in, linear.out);
  }
  Held dropped = x;
  if (training_ && shape_.adapter.dropout > 0) {
    Held mask = ledger_.hold(use, 4 * tokens_ * linear.in);
    Held converted = narrow() ? wide(use, linear.in) : mask;
    dropped = wide(use, linear.in);
    if (graph) graph->mask = converted;
  }
  Held s = product(use, linear.in, linear.rank), y = product(use, linear.in, linear.out);
  if (graph) {
    graph->x = dropped;
    graph->s = s;
  }
  if (!shape_.adapter.use_dora) return y;
  // The whole weight in fp32 for its rows' norms; A and B too where they are not.
  const int64_t factors = narrow() ? linear.rank * (linear.in + linear.out) : 0;
  ledger_.hold(use, 4 * (linear.in * linear.out + factors));
  if (graph) graph->unscaled = y;
  return wide(use, linear.out);
}

Held ReferenceLayers::linear_backward(const RehearsedLinear& linear, LinearGraph& graph, Held grad, Held sum,
                                     std::vector<Held>& weight_grads) {
  if (graph.unscaled) {
    Held scaled = wide(Use::layer, linear.out);
    wide(Use::layer, linear.out);  // grad × y before its sum over the tokens
    grad = scaled;
    graph.unscaled.reset();
  }
  Held ds;
  if (linear.rank > 0) {
    Held unscaled = product(Use::layer, linear.out, linear.rank);
    ds = wide(Use::layer, linear.rank);
    weight_grads.push_back(weight_grad(linear.rank, linear.out));
    graph.s.reset();
  }
  Held dx = product(Use::layer, linear.out, linear.in);
  if (linear.trained) {
    weight_grads.push_back(weight_grad(linear.in, linear.out));
    graph.x.reset();
  }
  grad.reset();
  if (!sum) sum = dx;
  dx.reset();
  if (linear.rank == 0) return sum;
  dx = product(Use::layer, linear.rank, linear.in);
  weight_grads.push_back(weight_grad(linear.rank, linear.in));
  graph.x.reset();
  if (graph.mask) wide(Use::layer, linear.in);
  graph.mask.reset();
  return sum;
}

// kernels/rope: two products, a sum or difference, for each half; then both together.
Held ReferenceLayers::rope(int64_t width, Use use) {
  Held first = wide(use, width / 2);
  Held a = wide(use, width / 2), b = wide(use, width / 2), second = wide(use, width / 2);
  a.reset();
  b.reset();
  return wide(use, width);
}

Held ReferenceLayers::rope_backward(Held grad, int64_t width) {
  Held first = wide(Use::layer, width / 2), second = wide(Use::layer, width / 2);
  {
    Held negative = wide(Use::layer, width / 2);
    wide(Use::layer, width / 2);
  }
  grad.reset();
  // Each half's gradient in a zeroed tensor of the whole width.
  Held whole = wide(Use::layer, width);
  second.reset();
  wide(Use::layer, width);
  return whole;
}

int64_t ReferenceLayers::attention_forward_scratch() const {
  const int64_t rows = query_block(shape_.longest_sequence),
                keys = std::min(kKeyBlock, shape_.longest_sequence);
  return shape_.threads * rows * (4 * (keys + 2 + shape_.spec.head_dim) + (narrow() ? element_ * keys : 0));
}

int64_t ReferenceLayers::attention_backward_scratch() const {
  const int64_t rows = query_block(shape_.longest_sequence),
                keys = std::min(kKeyBlock, shape_.longest_sequence);
  return shape_.threads * (rows * keys * 2 * (4 + (narrow() ? element_ : 0)) + 4 * rows);
}

Held ReferenceLayers::attention(const RehearsedLayer& layer, Use use, AttentionGraph* graph) {
  if (graph) graph->norm.trained = layer.input_norm;
  Held x = norm(use, tokens_, graph ? &graph->norm : nullptr);
  Held q = linear(layer.q, x, use, graph ? &graph->q : nullptr);
  Held k = linear(layer.k, x, use, graph ? &graph->k : nullptr);
  Held v = linear(layer.v, x, use, graph ? &graph->v : nullptr);
  Held queries = rope(q_, use), keys = rope(kv_, use);
  q.reset();
  k.reset();
  Held mixed;
  {
    Held all_keys = grouped_ ? wide(use, q_) : keys, all_values = grouped_ ? wide(use, q_) : v;
    Held output = wide(use, q_), logsumexp = ledger_.hold(use, 4 * tokens_ * shape_.spec.num_heads);
    ledger_.hold(Use::layer, attention_forward_scratch());
    mixed = several_ ? wide(use, q_) : output;
    if (graph) {
      graph->queries = queries;
      graph->keys = all_keys;
      graph->values = all_values;
      graph->output = output;
      graph->logsumexp = logsumexp;
    }
  }
  Held y = linear(layer.o, mixed, use, graph ? &graph->o : nullptr);
  return wide(use, hidden_);
}

Held ReferenceLayers::attention_backward(const RehearsedLayer& layer, AttentionGraph& graph) {
  std::vector<Held> weight_grads;
  Held grad = linear_backward(layer.o, graph.o, {}, {}, weight_grads);
  Held dq = wide(Use::layer, q_), dk = wide(Use::layer, q_), dv = wide(Use::layer, q_);
  ledger_.hold(Use::layer, attention_backward_scratch());
  grad.reset();
  graph.queries.reset();
  graph.keys.reset();
  graph.values.reset();
  graph.output.reset();
  graph.logsumexp.reset();
  for (Held* part : {&dv, &dk, &dq})
    if (several_) *part = wide(Use::layer, q_);  // the sequences joined
  for (Held* part : {&dv, &dk})
    if (grouped_) *part = wide(Use::layer, kv_);
  dk = rope_backward(std::move(dk), kv_);
  dq = rope_backward(std::move(dq), q_);
  Held sum = linear_backward(layer.v, graph.v, std::move(dv), {}, weight_grads);
  sum = linear_backward(layer.k, graph.k, std::move(dk), std::move(sum), weight_grads);
  sum = linear_backward(layer.q, graph.q, std::move(dq), std::move(sum), weight_grads);
  return norm_backward(Use::layer, tokens_, graph.norm, std::move(sum), true);
}

Held ReferenceLayers::mlp(const RehearsedLayer& layer, Use use, MlpGraph* graph) {
  if (graph) graph->norm.trained = layer.post_norm;
  Held x = norm(use, tokens_, graph ? &graph->norm : nullptr);
  Held up = linear(layer.up, x, use, graph ? &graph->up : nullptr);
  Held gate = linear(layer.gate, x, use, graph ? &graph->gate : nullptr);
  Held silu = wide(use, inner_), product = wide(use, inner_);
  if (graph) {
    graph->gate_out = gate;
    graph->silu = silu;
    graph->up_out = up;
  }
  silu.reset();
  Held y = linear(layer.down, product, use, graph ? &graph->down : nullptr);
  gate.reset();
  up.reset();
  product.reset();
  return wide(use, hidden_);
}

Held ReferenceLayers::mlp_backward(const RehearsedLayer& layer, MlpGraph& graph) {
  std::vector<Held> weight_grads;
  Held product = linear_backward(layer.down, graph.down, {}, {}, weight_grads);
  Held silu = wide(Use::layer, inner_), up = wide(Use::layer, inner_);
  product.reset();
  graph.silu.reset();
  graph.up_out.reset();
  Held gate = wide(Use::layer, inner_);
  silu.reset();
  graph.gate_out.reset();
  Held sum = linear_backward(layer.gate, graph.gate, std::move(gate), {}, weight_grads);
  sum = linear_backward(layer.up, graph.up, std::move(up), std::move(sum), weight_grads);
  return norm_backward(Use::layer, tokens_, graph.norm, std::move(sum), true);
}

}  // namespace forge
