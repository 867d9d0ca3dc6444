#pragma once
// The arguments of kernels for the ops of a list, one function a kernel: see call.h. Functions that
// have the name of an op (core/model/graph/graph.h) make the arguments of the one kernel that
// computes it. No torch.
#include <vector>

#include "kernels/activation/activation_args.h"
#include "kernels/attention/attention_args.h"
#include "kernels/device/gemm.h"
#include "kernels/dora/dora_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/fp8/fp8_args.h"
#include "kernels/latent/latent_args.h"
#include "kernels/layer_norm/layer_norm_args.h"
#include "kernels/lora/folded_args.h"
#include "kernels/lora/gated_args.h"
#include "kernels/lora/lora_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/rows/rows_args.h"
#include "kernels/swiglu/swiglu_args.h"
#include "providers/fused/call.h"

namespace forge::bind {

// ---- rows

EmbeddingForward embed(const Call& c);
EmbeddingBackward embed_backward(const Call& c);
CopyRows gather(const Call& c);
// The rows that are not supervised must be zeros before.
CopyRows scatter(const Call& c);
// Returns add or add_gradient. The first output is in the memory of the second input (add) or of
// the first (add_gradient); if the types differ, in its own.
AddRows add(const Call& c);
// Returns scale or cast, forward or backward: in place, from one type to the other, or added to a
// gradient.
ScaleRows scale(const Call& c);
CopyRows copy(const Call& c, int64_t rows, const Part& from, const Part& to);

// ---- norms

// Returns norm or add_norm. Each head is normalised by itself; a head has the width of the whole
// row, except in norms of q and k.
RmsNormForward norm(const Call& c);
RmsNormBackward norm_backward(const Call& c);
LayerNormForward layer_norm(const Call& c);
LayerNormBackward layer_norm_backward(const Call& c);

// ---- attention

AttentionForward attention(const Call& c);
AttentionBackward attention_backward(const Call& c);
// Returns the sinks of the op's heads; null if it has none.
const void* sinks(const Call& c);
// Returns one rotation of q and k if they are consecutive in one row, otherwise one of each.
std::vector<Rope> rope(const Call& c);
RegroupHeads regroup(const Call& c);
// Assembles the heads, or in the backward splits their gradients.
LatentHeads latent_heads(const Call& c);
TrimHeads trim_heads(const Call& c);

// ---- activations

ActivationForward activation(const Call& c);
ActivationBackward activation_backward(const Call& c);
SwigluForward glu(const Call& c);
SwigluBackward glu_backward(const Call& c);
// Return a glu whose gate is clamped.
ClampedGluForward clamped_glu(const Call& c);
ClampedGluBackward clamped_glu_backward(const Call& c);

// ---- products

// A weight [rows, in] in the compute type; `across`: it is [in, rows].
struct Weight {
  const void* data = nullptr;
  int64_t rows = 0, stride = 0;
  bool across = false;
  const DequantizeBlocks* blocks = nullptr;  // in the place of data
};

// Returns y = x Wᵀ; y += x Wᵀ if there is a bias, which has been written to y before.
Gemm product(const Call& c, int64_t rows, const Part& y, const Part& x, const Weight& weight, bool biased);
// Returns the product that also adds a stream, if `h` has data.
Gemm plus(Gemm product, const Part& h, void* workspace);
// Returns the value that the op's product adds to its result: the op's last input, if it adds one.
Part added(const Call& c);
// Returns d x = d y W, or adds it.
Gemm input_gradient(const Call& c, int64_t rows, const Part& d_x, const Part& d_y, const Weight& weight,
                    bool accumulate);
// Returns gradient [d_y.width, x.width] += d yᵀ x.
Gemm weight_gradient(const Call& c, int64_t rows, float* gradient, const Part& d_y, const Part& x);
// Returns the gradients of the op's trained weights.
std::vector<Gemm> linear_weight_gradient(const Call& c);

// ---- adapters beside their weights

// Calls visit(module, number among the adapted ones).
template <class Visit>
void each_adapter(const Call& c, Visit visit) {
  for (size_t i = 0, adapter = 0; i < c.op.modules.size(); ++i)
    if (c.use(i).rank > 0) visit(i, adapter++);
}

// Returns the mask of a module's adapter, for rows whose keys are `example` and `position` [rows].
LoraDropout dropout_of(const Call& c, const FusedModule& m, const int64_t* example, const int32_t* position);

// Return the adapter of one of the op's modules, which is number `adapter` of the adapted ones. It
// is alone in its group: its dropout has a mask of its own, unlike that of modules that share x.
LoraForward lora_forward(const Call& c, size_t module, size_t adapter);
LoraBackward lora_backward(const Call& c, size_t module, size_t adapter);
// `weight` is the module's, in the compute type.
DoraRatio dora_ratio(const Call& c, size_t module, const void* weight, float* ratio, float* inverse);

// ---- adapters folded into the products of their weights (core/model/graph/fold_adapters.h)

// A packed weight [N + R, K + R]: W with B beside it, and A below them.
struct Packed {
  char* data = nullptr;
  int64_t stride = 0, outs = 0, ranks = 0, in = 0, element_bytes = 0;

  void* at(int64_t row, int64_t column) const { return data + (row * stride + column) * element_bytes; }
};
Packed packed(const Call& c);
Gemm folded_linear(const Call& c);
Gemm folded_input_gradient(const Call& c);
AdapterSums adapter_sums(const Call& c);
AdapterSumsGradient adapter_sums_gradient(const Call& c);
// Return the products that compute the same on a device without these kernels, or where they
// refuse.
std::vector<Gemm> adapter_sums_products(const Call& c);
std::vector<Gemm> adapter_sums_gradient_products(const Call& c);
std::vector<Gemm> adapter_input_gradient(const Call& c);
// Return a gated activation with the adapters beside it.
GatedSums glu_sums(const Call& c);
GatedGradients glu_adapters_backward(const Call& c);
// Returns the copies of A and B to the packed weight.
std::vector<CopyRows> placed_adapters(const Call& c);

// ---- weights in E4M3

bool any_fp8(const Graph& graph, const Op& op);

// Offsets in bytes from the beginning of the op's workspace, which holds the codes. Its products
// share one workspace.
struct Fp8Space {
  int64_t scales = 0, product = 0, bytes = 0;
};
// Returns the space of a linear or linear_input_gradient; no bytes if none of its weights is in
// E4M3.
Fp8Space fp8_space(const Call& c);
// Returns x or d y quantised into the workspace. `factors` multiply its columns; null: none.
QuantizeRows fp8_rows(const Call& c, const Part& x, const float* factors);
// Return the product of one of the op's modules with these rows. d x is added if the op adds to it,
// or if the module is not the first.
ScaledProduct fp8_linear(const Call& c, size_t module, const QuantizeRows& x);
ScaledProduct fp8_input_gradient(const Call& c, size_t module, const QuantizeRows& d_y,
                                 const uint8_t* transposed, const float* ones);

// ---- experts

// Rows of experts in a value, one after the other.
struct ExpertsOf {
  char* data = nullptr;
  int64_t width = 0;
};
ExpertsOf expert_rows(const Call& c, ValueId id);

// The rows [begin, begin + count) of one expert.
struct Range {
  size_t expert;
  int64_t begin, count;
};
Part range_of(const Call& c, const ExpertsOf& rows, const Range& range);

// True if one tensor holds all experts.
inline bool joined(const Call& c) { return c.use().experts > 0; }
inline const ModuleUse& expert_use(const Call& c, size_t expert) { return c.use(joined(c) ? 0 : expert); }
// Returns an expert's own module, or its part of the op's one module. B of a joined module stays
// that of the whole module: the experts' columns alternate in it.
FusedModule expert_module(const Call& c, size_t expert);

// The workspace of an op over experts' rows with adapters, as offsets in bytes: the dropout keys of
// its rows, and B and d B of one expert of a tensor in which the experts' columns alternate.
struct ExpertSpace {
  int64_t examples = 0, positions = 0, b = 0, d_b = 0;
  int64_t adapter = 0;  // for kernels/lora
  int64_t bytes = 0;

  bool has_keys() const { return examples != positions; }
};
ExpertSpace expert_space(const Call& c);
// Return the adapter of one expert. B of a joined module must be in its place of the workspace, d B
// is written there.
LoraForward expert_lora_forward(const Call& c, const ExpertSpace& space, const Range& range);
LoraBackward expert_lora_backward(const Call& c, const ExpertSpace& space, const Range& range);

}  // namespace forge::bind
