#pragma once
// Linear layers that read the same x, whole: the frozen weights and their adapters, q-k-v, gate-up or one
// alone.
//
//   S      = x Aᵀ
//   y_i    = x W_iᵀ + scale · S_i B_iᵀ
//
//   d S_i  = scale · d y_i B_i
//   d x    = d y W + d S A
//   d A   += d Sᵀ x
//   d B_i += scale · d y_iᵀ S_i
//
// Weights lie in one buffer of N + R rows and K + R columns (N = Σ out, K = width, R = members · rank), and x
// and y have R spare columns, so that a product can run on into the adapter's part:
//
//   packed = [ W   s·B ]      s·B: block-diagonal, [out_i, rank] for each member
//            [ A   any ]
//   separate:      y = x Wᵀ, then y += S (s·B)ᵀ;            d x = d y W, then d x += d S A
//   concatenated:  y = [x, S] [W, s·B]ᵀ;                     d x = [d y, d S] [W; A]
//
// The second schedule saves a pass over y and over d x, and costs K and N rounded up to what the library's
// product likes. S and d S are rounded to the type, as its factors are. Products sum in fp32 and are rounded
// once, in `separate` once more by the addition. Dropout is not here: its mask lies between x and A but not
// between x and W (lora_args.h has it).
#include <cstdint>

#include "kernels/device/gemm.h"
#include "kernels/lora/lora_args.h"

namespace forge {

enum class LoraSchedule { separate, concatenated };

struct LoraLinear {
  Element type = Element::f32;
  LoraSchedule schedule = LoraSchedule::concatenated;
  int64_t tokens = 0, width = 0, rank = 0, members = 0;
  int64_t out[kMaxLoraMembers] = {};
  float scale = 1;
  const void* packed = nullptr;  // [N + R, K + R]
  int64_t packed_stride = 0;
  void* x = nullptr;  // [tokens, K + R]; the forward writes S into the spare columns
  int64_t x_stride = 0;
  void* y = nullptr;  // [tokens, N + R]: written; in the backward d y, whose spare columns become d S
  int64_t y_stride = 0;

  int64_t outs() const {
    int64_t sum = 0;
    for (int64_t i = 0; i < members; ++i) sum += out[i];
    return sum;
  }
  int64_t ranks() const { return members * rank; }
};

struct LoraLinearForward {
  LoraLinear linear;
};

struct LoraLinearBackward {
  LoraLinear linear;
  void* d_x = nullptr;  // [tokens, K], written; or null
  int64_t d_x_stride = 0;
  float* d_a = nullptr;  // [R, K], added to
  float* d_b = nullptr;  // [N, rank], the members' one below the other; added to
};

void lora_linear_forward_cpu(const LoraLinearForward& args);
void lora_linear_backward_cpu(const LoraLinearBackward& args);
void lora_linear_forward_cuda(const LoraLinearForward& args, CudaStream stream);
void lora_linear_backward_cuda(const LoraLinearBackward& args, CudaStream stream);

}  // namespace forge
