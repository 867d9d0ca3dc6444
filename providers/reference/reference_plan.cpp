// What autograd saves is read off core/model/decoder.cpp and the plain ATen ops under kernels/: a tensor is
// kept when some saved operand needs it. Bytes per token; e is the element size of the compute type, H, I the
// hidden and intermediate size, Q and K the widths of queries and keys.
#include "providers/reference/reference_plan.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/config/names.h"

namespace forge {
namespace {

// What measurement replaces: how many tensors of each width are alive beside the saved ones at a phase's
// peak.
struct Coefficients {
  double mlp_backward = 3;        // of I: gradients of product, gate and up together
  double mlp_recompute = 1;       // of H: the half's input gradient while it is pulled
  double attention_backward = 4;  // of Q: gradients of output, queries, repeated keys and values
  double hidden_fp32 = 2;         // of H in fp32: the norm's backward
  double head_hidden = 4;         // of H per supervised token: rows, normed, their gradients
};
constexpr Coefficients kMeasured;

struct Width {
  int64_t hidden, inner, q, kv, heads, element, layers;
};

Width width_of(const ActivationShape& shape) {
  const ModelSpec& s = shape.spec;
  return {s.hidden_size,
          s.intermediate_size,
          s.num_heads * s.head_dim,
          s.num_kv_heads * s.head_dim,
          s.num_heads,
          bytes_of(shape.precision),
          s.num_layers};
}

// Adapted modules of one layer, by the layer that has most of them.
struct LayerSites {
  bool qkv = false, o = false, gate_up = false, down = false;
  int64_t attention_ranks = 0, mlp_ranks = 0;    // sum of ranks: the saved S = xA
  int64_t attention_inputs = 0, mlp_inputs = 0;  // sum of in_features: copies that dropout makes
};

void add_site(const AdapterSite& site, LayerSites& sites) {
  const bool mlp = site.module.find(".mlp.") != std::string::npos;
  (mlp ? sites.mlp_ranks : sites.attention_ranks) += site.rank;
  (mlp ? sites.mlp_inputs : sites.attention_inputs) += site.in_features;
  if (ends_with(site.module, "o_proj"))
    sites.o = true;
  else if (ends_with(site.module, "down_proj"))
    sites.down = true;
  else if (mlp)
    sites.gate_up = true;
  else
    sites.qkv = true;
}

LayerSites sites_of(const ActivationShape& shape, int64_t layer) {
  LayerSites sites;
  if (shape.trains_base) sites.qkv = sites.o = sites.gate_up = sites.down = true;
  for (const AdapterSite& site : shape.sites)
    if (site.layer == layer) add_site(site, sites);
  return sites;
}

// Norm: the fp32 copy (fp32 input is its own), and with a trained norm weight the normalised rows.
int64_t norm_bytes(const ActivationShape& shape, const Width& w) {
  return (shape.precision == Precision::fp32 ? 0 : 4 * w.hidden) + 4 +
         (shape.trains_base ? w.element * w.hidden : 0);
}

// Dropout keeps a dropped input and its mask for every adapted linear.
int64_t dropout_bytes(const ActivationShape& shape, const Width& w, int64_t inputs) {
  return shape.adapter.dropout > 0 ? 2 * w.element * inputs : 0;
}

int64_t attention_saved(const ActivationShape& shape, const Width& w, const LayerSites& sites) {
  const bool grouped = w.q != w.kv;
  int64_t bytes = norm_bytes(shape, w) + w.element * sites.attention_ranks;
  if (sites.qkv) bytes += w.element * w.hidden;  // the linears' input
  bytes +=
      w.element * (w.q + (grouped ? 2 * w.q : 2 * w.kv));  // queries, keys and values as attention sees them
  bytes += w.element * w.q + 4 * w.heads;                  // its output and logsumexp
  if (sites.o) bytes += w.element * w.q;                   // sequences joined again
  return bytes + dropout_bytes(shape, w, sites.attention_inputs);
}

int64_t mlp_saved(const ActivationShape& shape, const Width& w, const LayerSites& sites) {
  int64_t bytes = norm_bytes(shape, w) + w.element * sites.mlp_ranks;
  if (sites.gate_up) bytes += w.element * w.hidden;
  bytes += w.element * 3 * w.inner;              // gate, silu(gate), up
  if (sites.down) bytes += w.element * w.inner;  // their product
  return bytes + dropout_bytes(shape, w, sites.mlp_inputs);
}

// The lowest layer that anything trained sits in: below it nothing is kept.
int64_t first_kept_layer(const ActivationShape& shape) {
  if (shape.trains_base) return 0;
  int64_t lowest = shape.spec.num_layers;
  for (const AdapterSite& site : shape.sites)
    if (site.layer >= 0) lowest = std::min(lowest, site.layer);
  for (const std::string& module : shape.adapter.modules_to_save)
    if (ends_with("model.embed_tokens", module)) lowest = 0;
  return lowest;
}

struct LayerBytes {
  int64_t kept = 0;  // between forward and backward, per token
  int64_t all = 0;   // with everything of the layer recomputed
};

LayerBytes layer_bytes(const ActivationShape& shape, const Width& w, int64_t layer) {
  const LayerSites sites = sites_of(shape, layer);
  const int64_t attention = attention_saved(shape, w, sites), mlp = mlp_saved(shape, w, sites);
  const int64_t input = w.element * w.hidden, middle = w.element * w.hidden;
  LayerBytes bytes;
  bytes.all = input + middle + attention + mlp;
  bytes.kept = shape.checkpointing == Checkpointing::none        ? bytes.all
               : shape.checkpointing == Checkpointing::selective ? input + middle + attention
                                                                 : input;
  return bytes;
}

int64_t of(double coefficient, int64_t width) {
  return static_cast<int64_t>(coefficient * static_cast<double>(width));
}

// Gradients of one layer's backward, and what was recomputed for it.
int64_t layer_workspace(const ActivationShape& shape, const Width& w, const LayerBytes& layer) {
  const int64_t recomputed = layer.all - layer.kept;
  const int64_t mlp =
      w.element * (of(kMeasured.mlp_backward, w.inner) + of(kMeasured.mlp_recompute, w.hidden));
  const int64_t attention = w.element * of(kMeasured.attention_backward, w.q);
  const int64_t norms = shape.precision == Precision::fp32 ? 0 : 4 * of(kMeasured.hidden_fp32, w.hidden);
  return shape.micro_batch_tokens * (recomputed + std::max(mlp, attention) + norms);
}

// Gradients of one layer's weights before they are added to the fp32 buffers.
int64_t weight_grads(const ActivationShape& shape, const Width& w) {
  if (!shape.trains_base) return 0;
  return w.element * (2 * w.hidden * (w.q + w.kv) + 3 * w.hidden * w.inner);
}

// Logits are fp32 for one chunk of positions; other compute types hold them in their own type beside that.
int64_t head_workspace(const ActivationShape& shape, const Width& w) {
  const int64_t chunk = std::min(kReferenceHeadChunk, shape.supervised_tokens);
  const int64_t logit =
      4 + (shape.precision == Precision::fp32 ? 0 : w.element) + (shape.needs_entropy ? 8 : 0);
  const int64_t rows = shape.supervised_tokens * w.hidden;
  const int64_t norm = shape.precision == Precision::fp32 ? 0 : 4 * rows;
  const int64_t weight = shape.trains_head && shape.precision != Precision::fp32
                             ? w.element * shape.spec.vocab_size * w.hidden
                             : 0;
  return chunk * shape.spec.vocab_size * logit + w.element * of(kMeasured.head_hidden, rows) + norm + weight +
         shape.micro_batch_tokens * w.element * w.hidden;
}

// A weight that is not held in the compute type is converted for the product it takes part in, one at a time.
int64_t conversion_scratch(const ActivationShape& shape, const Width& w) {
  const int64_t linear = std::max(w.hidden * w.inner, w.hidden * std::max(w.q, w.kv));
  int64_t largest = shape.quantization != Quantization::none ? linear : 0;
  if (shape.storage != shape.precision)
    largest = std::max({largest, linear, w.hidden * shape.spec.vocab_size});
  return largest * w.element;
}

}  // namespace

std::vector<std::string> reference_faults(const ActivationShape&) { return {}; }

std::vector<MemoryLine> reference_activation_lines(const ActivationShape& shape) {
  const Width w = width_of(shape);
  int64_t kept = 0, layers = 0;
  LayerBytes largest;
  for (int64_t layer = first_kept_layer(shape); layer < w.layers; ++layer, ++layers) {
    const LayerBytes bytes = layer_bytes(shape, w, layer);
    kept += bytes.kept;
    if (bytes.all >= largest.all) largest = bytes;
  }
  // Without a trained layer only the running hidden state lives.
  if (layers == 0) kept = 2 * w.element * w.hidden;
  const std::string tokens = format_count(shape.micro_batch_tokens) + " tokens";
  std::vector<MemoryLine> lines;
  lines.push_back({"saved activations", shape.micro_batch_tokens * kept,
                   tokens + " × " + format_count(kept) + " B (" + std::to_string(layers) +
                       " layers, checkpointing " + name_of(shape.checkpointing) + ", " +
                       name_of(shape.precision) + ")"});
  const int64_t layer = layers == 0 ? 0 : layer_workspace(shape, w, largest) + weight_grads(shape, w);
  const int64_t head = head_workspace(shape, w);
  const std::string smaller = head >= layer
                                  ? "a layer's backward needs " + format_bytes(layer) + " at another time"
                                  : "the head needs " + format_bytes(head) + " at another time";
  if (head >= layer)
    lines.push_back({"logits chunk", head,
                     format_count(std::min(kReferenceHeadChunk, shape.supervised_tokens)) + " positions × " +
                         format_count(shape.spec.vocab_size) + " logits and their gradient, " +
                         format_count(shape.supervised_tokens) + " supervised rows; " + smaller});
  else
    lines.push_back(
        {"layer workspace", layer, tokens + ": gradients and recomputed tensors of one layer; " + smaller});
  const int64_t scratch = conversion_scratch(shape, w);
  if (scratch > 0)
    lines.push_back({"weight conversion", scratch,
                     "the largest weight in " + name_of(shape.precision) + " while it is used"});
  return lines;
}

}  // namespace forge
