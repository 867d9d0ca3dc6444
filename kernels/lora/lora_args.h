#pragma once
// The adapter part of linear layers that read the same x: q, k and v, or gate and up, or one alone,
// on plain memory. The caller computes the frozen product x Wᵀ, one GEMM for the group; this adds
// to it (Hu et al., LoRA, 2021).
//
//   S      = drop(x) Aᵀ
//   y_i   += scale · S_i B_iᵀ
//
//   d S_i  = scale · d y_i B_i
//   d B_i += scale · d y_iᵀ S_i
//   d A   += d Sᵀ drop(x)
//   d x   += drop'(d S A)
//
// A [members · rank, width] holds the members' A one below the other. S is kept for the backward,
// which takes d S and d B in one pass over d y.
//
// drop(x) keeps an element with probability 1 − p and divides it by that. The mask is a function of
// (seed, step, stream, example, position, feature) as in kernels/dropout, so it is not stored.
// There is one mask for the group. x, y, A, B are in `type`; S (as a rule), d S and the gradients
// of A and B are fp32 (the gradients go to the optimizer's flat buffer). y and d x are rounded once
// more by the addition. Operations: forward 2 tokens rank Σ (width + out_i); backward twice that.
// Bytes: forward x once, y read and written; backward d y once, x once, d x read and written.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"

namespace forge {

constexpr int64_t kMaxLoraMembers = 3;

// Counters of each token's mask; the same words as counter_dropout's.
struct LoraDropout {
  double probability = 0;
  uint64_t seed = 0, stream = 0;  // stream_of(name of the group)
  const int64_t* step = nullptr;      // [1]
  const int64_t* example = nullptr;   // [tokens]
  const int32_t* position = nullptr;  // [tokens]
};

struct LoraMember {
  int64_t out = 0;          // features of y
  const void* b = nullptr;  // [out, rank]
  void* y = nullptr;        // forward: added to, or null, with all members: S alone; backward: d y, read
  int64_t y_stride = 0;
  float* d_b = nullptr;  // backward: [out, rank], added to
};

struct LoraGroup {
  Element type = Element::f32;
  int64_t tokens = 0, width = 0, rank = 0, members = 0;
  float scale = 1;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const void* a = nullptr;        // [members · rank, width]
  void* s = nullptr;              // [tokens, members · rank] of s_type
  Element s_type = Element::f32;  // on a GPU also `type`, in which its products write and read
  LoraDropout dropout;
  LoraMember member[kMaxLoraMembers];
};

struct LoraForward {
  LoraGroup group;
  void* workspace = nullptr;
};

struct LoraBackward {
  LoraGroup group;
  float* d_a = nullptr;  // [members · rank, width], added to
  void* d_x = nullptr;   // added to; or null
  int64_t d_x_stride = 0;
  void* workspace = nullptr;
};

int64_t lora_forward_cpu_workspace(const LoraForward& args);
void lora_forward_cpu(const LoraForward& args, CpuLevel level = cpu_level());
int64_t lora_backward_cpu_workspace(const LoraBackward& args);
void lora_backward_cpu(const LoraBackward& args, CpuLevel level = cpu_level());

}  // namespace forge
