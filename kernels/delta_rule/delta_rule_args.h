#pragma once
// The gated delta rule (Yang et al., "Gated delta networks", 2024) on plain memory: attention that
// keeps one matrix a head instead of keys and values.
//
//   k̂_t = k_t / √(‖k_t‖² + 1e-6),  q̂_t = q_t / √(‖q_t‖² + 1e-6) / √key_dim
//   S_t  = e^{g_t} S_{t−1} + k̂_t ⊗ β_t (v_t − e^{g_t} S_{t−1}ᵀ k̂_t),  S_0 = 0 at each text's begin
//   y_t  = S_tᵀ q̂_t
//
// g ≤ 0 is the logarithm of the decay, β the share of the correction. A head of q and k serves
// value_heads / key_heads neighbouring heads of v. DeltaGates makes both gates of what a layer
// projects:
//
//   g = −e^{a_log} softplus(a + dt_bias),  β = σ(b)
//   d a      = d g · (−e^{a_log}) σ(a + dt_bias),  d b = d β · β (1 − β)
//   d a_log += Σ d g · g,  d dt_bias += Σ d a
//
// Mamba-2's state space (Dao and Gu, "Transformers are SSMs", 2024) is the same without the norms
// and without the correction: q is its C, k its B, v its x, and both gates are of one step size:
//
//   S_t = e^{g_t} S_{t−1} + k_t ⊗ β_t v_t,  y_t = S_tᵀ q_t + skip v_t
//   β = max(softplus(a + dt_bias), least_step),  g = −e^{a_log} β
//   d a = (d β − e^{a_log} d g) σ(a + dt_bias), or 0 below least_step,  d skip += Σ d y · v
//
// Arithmetic is in fp32, results are rounded once. Strides are elements from row to row. Bytes:
// each operand once; the backward reads q, k and v twice.
//
// In decoding a text goes on from its state, its matrices in fp32.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"

namespace forge {

constexpr float kDeltaEps = 1e-6f;  // of the norms of q and k

struct DeltaGatesForward {
  Element type = Element::f32;  // of a, b, a_log and dt_bias
  int64_t rows = 0, heads = 0;
  const void* b = nullptr;  // [rows, heads]; null for a state space
  int64_t b_stride = 0;
  const void* a = nullptr;
  int64_t a_stride = 0;
  const void* a_log = nullptr;  // [heads]
  const void* dt_bias = nullptr;
  float* gates = nullptr;  // [rows, 2 heads]: g, then β
  int64_t gates_stride = 0;
  float least_step = 0;  // of a state space
};

struct DeltaGatesBackward {
  Element type = Element::f32;
  int64_t rows = 0, heads = 0;
  const float* d_gates = nullptr;
  int64_t d_gates_stride = 0;
  const void* b = nullptr;
  int64_t b_stride = 0;
  const void* a = nullptr;
  int64_t a_stride = 0;
  const void* a_log = nullptr;
  const void* dt_bias = nullptr;
  void* d_b = nullptr;  // may be b
  int64_t d_b_stride = 0;
  void* d_a = nullptr;  // may be a
  int64_t d_a_stride = 0;
  float* d_a_log = nullptr;    // [heads], added to; or null
  float* d_dt_bias = nullptr;  // [heads], added to; or null
  float least_step = 0;        // of a state space
};

struct DeltaRuleShape {
  Element type = Element::f32;
  int64_t sequences = 0;
  const int32_t* cu_seqlens = nullptr;  // [sequences + 1]
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t tokens = 0;  // as many as a text may have
  bool erases = true;  // false: a state space
};

struct DeltaRuleForward {
  DeltaRuleShape shape;
  const void* q = nullptr;  // [tokens, key_heads · key_dim]
  int64_t q_stride = 0;
  const void* k = nullptr;
  int64_t k_stride = 0;
  const void* v = nullptr;  // [tokens, value_heads · value_dim]
  int64_t v_stride = 0;
  const float* gates = nullptr;  // [tokens, 2 value_heads]
  int64_t gates_stride = 0;
  void* y = nullptr;  // [tokens, value_heads · value_dim], may meet no operand
  int64_t y_stride = 0;
  const void* skip = nullptr;  // of a state space [value_heads]; or null
  // The matrices of each sequence, fp32 [value_heads, key_dim, value_dim]: read unless it begins,
  // and written; null in training. A text that goes on is computed token by token, so that its
  // results do not depend on how many come at once.
  char* const* states = nullptr;
  bool begins = true;
  void* workspace = nullptr;
};

struct DeltaRuleBackward {
  DeltaRuleShape shape;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  const void* q = nullptr;
  int64_t q_stride = 0;
  const void* k = nullptr;
  int64_t k_stride = 0;
  const void* v = nullptr;
  int64_t v_stride = 0;
  const float* gates = nullptr;
  int64_t gates_stride = 0;
  void* d_q = nullptr;  // the results may meet no operand
  int64_t d_q_stride = 0;
  void* d_k = nullptr;
  int64_t d_k_stride = 0;
  void* d_v = nullptr;
  int64_t d_v_stride = 0;
  float* d_gates = nullptr;
  int64_t d_gates_stride = 0;
  const void* skip = nullptr;
  float* d_skip = nullptr;  // [value_heads], added to; or null
  void* workspace = nullptr;
};

void delta_gates_forward_cpu(const DeltaGatesForward& args);
void delta_gates_backward_cpu(const DeltaGatesBackward& args);
int64_t delta_rule_forward_cpu_workspace(const DeltaRuleForward& args);
int64_t delta_rule_backward_cpu_workspace(const DeltaRuleBackward& args);
void delta_rule_forward_cpu(const DeltaRuleForward& args, CpuLevel level = cpu_level());
void delta_rule_backward_cpu(const DeltaRuleBackward& args, CpuLevel level = cpu_level());

}  // namespace forge
