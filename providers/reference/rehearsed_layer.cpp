#include "providers/reference/rehearsed_layer.h"

#include <algorithm>
#include <string>

#include "core/base/text.h"
#include "core/plan/modules.h"

namespace forge {
namespace {

RehearsedLinear* find_linear(RehearsedLayer& layer, const std::string& module) {
  struct Row {
    const char* name;
    RehearsedLinear RehearsedLayer::*member;
  };
  constexpr Row kRows[] = {{"q_proj", &RehearsedLayer::q},       {"k_proj", &RehearsedLayer::k},
                           {"v_proj", &RehearsedLayer::v},       {"o_proj", &RehearsedLayer::o},
                           {"gate_proj", &RehearsedLayer::gate}, {"up_proj", &RehearsedLayer::up},
                           {"down_proj", &RehearsedLayer::down}};
  for (const Row& row : kRows)
    if (ends_with(module, row.name)) return &(layer.*row.member);
  return nullptr;
}

void mark_trained(LayerTable& table, const Module& module) {
  if (module.layer < 0) {
    if (module.role == Role::embedding) table.embedding = true;
    if (module.role == Role::norm) table.final_norm = true;
    if (module.role == Role::head) table.head = true;
    return;
  }
  table.lowest = std::min(table.lowest, module.layer);
  RehearsedLayer& layer = table.layers[static_cast<size_t>(module.layer)];
  if (RehearsedLinear* linear = find_linear(layer, module.path))
    linear->trained = true;
  else
    (ends_with(module.path, "input_layernorm") ? layer.input_norm : layer.post_norm) = true;
}

// LibTorch's CPU flash attention works on blocks of keys and of queries, the latter by length.
constexpr int64_t kKeyBlock = 512;
int64_t query_block(int64_t length) {
  return std::min<int64_t>(length, length >= 768 ? 256 : length >= 192 ? 64 : 32);
}

}  // namespace

LayerTable layer_table(const ActivationShape& shape) {
  const ModelSpec& s = shape.spec;
  const int64_t q = s.num_heads * s.head_dim, kv = s.num_kv_heads * s.head_dim;
  RehearsedLayer plain;
  plain.q = {s.hidden_size, q};
  plain.k = plain.v = {s.hidden_size, kv};
  plain.o = {q, s.hidden_size};
  plain.gate = plain.up = {s.hidden_size, s.intermediate_size};
  plain.down = {s.intermediate_size, s.hidden_size};
  LayerTable table{std::vector<RehearsedLayer>(static_cast<size_t>(s.num_layers), plain), s.num_layers};
  for (const AdapterSite& site : shape.sites) {
    if (site.layer < 0) continue;
    table.lowest = std::min(table.lowest, site.layer);
    if (RehearsedLinear* linear = find_linear(table.layers[static_cast<size_t>(site.layer)], site.module))
      linear->rank = site.rank;
  }
  for (const Module& module : shape.trains_base ? modules_of(s) : saved_modules(s, shape.adapter))
    mark_trained(table, module);
  if (table.embedding) table.lowest = -1;
  return table;
}

LayerRehearsal::LayerRehearsal(const ActivationShape& shape, Ledger& ledger)
    : shape_(shape),
      ledger_(ledger),
      tokens_(shape.micro_batch_tokens),
      element_(bytes_of(shape.precision)),
      hidden_(shape.spec.hidden_size),
      inner_(shape.spec.intermediate_size),
      q_(shape.spec.num_heads * shape.spec.head_dim),
      kv_(shape.spec.num_kv_heads * shape.spec.head_dim),
      grouped_(shape.spec.num_heads != shape.spec.num_kv_heads),
      several_(shape.several_sequences),
      training_(shape.training) {}

// kernels/rms_norm
Held LayerRehearsal::norm(Use use, int64_t rows, NormGraph* graph) {
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

Held LayerRehearsal::norm_backward(Use use, int64_t rows, NormGraph& graph, Held grad, bool residual) {
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
Held LayerRehearsal::linear(const RehearsedLinear& linear, const Held& x, Use use, LinearGraph* graph) {
  if (linear.rank == 0) {
    if (graph && linear.trained) graph->x = x;
    return product(use, linear.out);
  }
  Held dropped = x;
  if (training_ && shape_.adapter.dropout > 0) {
    Held mask = ledger_.hold(use, 4 * tokens_ * linear.in);
    Held converted = narrow() ? wide(use, linear.in) : mask;
    dropped = wide(use, linear.in);
    if (graph) graph->mask = converted;
  }
  Held s = product(use, linear.rank), y = product(use, linear.out);
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

Held LayerRehearsal::linear_backward(const RehearsedLinear& linear, LinearGraph& graph, Held grad, Held sum,
                                     std::vector<Held>& weight_grads) {
  if (graph.unscaled) {
    Held scaled = wide(Use::layer, linear.out);
    wide(Use::layer, linear.out);  // grad × y before its sum over the tokens
    grad = scaled;
    graph.unscaled.reset();
  }
  Held ds;
  if (linear.rank > 0) {
    Held unscaled = product(Use::layer, linear.rank);
    ds = wide(Use::layer, linear.rank);
    weight_grads.push_back(weight_grad(linear.rank, linear.out));
    graph.s.reset();
  }
  Held dx = product(Use::layer, linear.in);
  if (linear.trained) {
    weight_grads.push_back(weight_grad(linear.in, linear.out));
    graph.x.reset();
  }
  grad.reset();
  if (!sum) sum = dx;
  dx.reset();
  if (linear.rank == 0) return sum;
  dx = product(Use::layer, linear.in);
  weight_grads.push_back(weight_grad(linear.rank, linear.in));
  graph.x.reset();
  if (graph.mask) wide(Use::layer, linear.in);
  graph.mask.reset();
  return sum;
}

// kernels/rope: two products, a sum or difference, for each half; then both together.
Held LayerRehearsal::rope(int64_t width, Use use) {
  Held first = wide(use, width / 2);
  Held a = wide(use, width / 2), b = wide(use, width / 2), second = wide(use, width / 2);
  a.reset();
  b.reset();
  return wide(use, width);
}

Held LayerRehearsal::rope_backward(Held grad, int64_t width) {
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

int64_t LayerRehearsal::attention_forward_scratch() const {
  const int64_t rows = query_block(shape_.longest_sequence),
                keys = std::min(kKeyBlock, shape_.longest_sequence);
  return shape_.threads * rows * (4 * (keys + 2 + shape_.spec.head_dim) + (narrow() ? element_ * keys : 0));
}

int64_t LayerRehearsal::attention_backward_scratch() const {
  const int64_t rows = query_block(shape_.longest_sequence),
                keys = std::min(kKeyBlock, shape_.longest_sequence);
  return shape_.threads * (rows * keys * 2 * (4 + (narrow() ? element_ : 0)) + 4 * rows);
}

Held LayerRehearsal::attention(const RehearsedLayer& layer, Use use, AttentionGraph* graph, Use out) {
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
  return wide(out, hidden_);
}

Held LayerRehearsal::attention_backward(const RehearsedLayer& layer, AttentionGraph& graph) {
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

Held LayerRehearsal::mlp(const RehearsedLayer& layer, Use use, MlpGraph* graph, Use out) {
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
  return wide(out, hidden_);
}

Held LayerRehearsal::mlp_backward(const RehearsedLayer& layer, MlpGraph& graph) {
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
