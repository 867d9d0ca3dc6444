#pragma once
// The gated activation of an MLP (kernels/swiglu) together with the thin products of folded
// adapters (folded_args.h) that read or make its operands, so that these products need no pass over
// memory of their own:
//
//   GatedSums        y = f(gate) · up                                  S    = scale · y Aᵀ, of the layer that reads y
//
//   GatedGradients   d gate = d y · up · f'(gate),  d up = d y · f(gate), in the places of gate and up
//                    d A   += d Sᵀ y                                   of the layer that reads y, which is made again and not stored
//                    d S_i  = scale_i · d x_i B_i                      of the layers that made x_i, gate and up
//                    d B_i += d x_iᵀ S_i
//
// y, d gate and d up are rounded to `type` before they are multiplied, as if they had been stored
// and read. S includes its scale. Gradients of A and B are fp32, everything else is in `type`; sums
// are in fp32, rounded once. The bits are the same in every order of the device's blocks, and on
// every GPU of as many multiprocessors. S and d S may follow y, d y, gate and up, in columns of
// their rows past `width`. Bytes: GatedSums 3 passes of rows · width elements, GatedGradients 5; S
// and d S; partial sums beside them (gated_space.h).
#include <cstdint>

#include "kernels/lora/folded_args.h"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {

struct GatedSums {
  Element type = Element::bf16;
  GateFunction function = GateFunction::silu;
  int64_t tokens = 0, planned = 0;  // the most tokens that the workspace is for; 0: these
  int64_t multiprocessors = 128;    // the GPU's; with `planned` they decide the partial sums
  int64_t width = 0;
  const void* gate = nullptr;  // [tokens, width]
  int64_t gate_stride = 0;
  const void* up = nullptr;
  int64_t up_stride = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
  int64_t rank = 0;
  float scale = 1;
  const void* a = nullptr;  // [rank, width]
  int64_t a_stride = 0;
  void* s = nullptr;  // [tokens, rank]
  int64_t s_stride = 0;
  void* kept = nullptr;  // a second copy of s; null: not wanted
  int64_t kept_stride = 0;
  uint32_t* counters = nullptr;  // [kFoldedCounters], zeros before and after
  void* workspace = nullptr;
};

// The adapter of the layer of gate or of up. Rank 0: it has no adapter, and the other members are
// not read.
struct GatedSide {
  int64_t rank = 0;
  float scale = 1;
  const void* b = nullptr;  // [width, rank]
  int64_t b_stride = 0;
  const void* s = nullptr;  // [tokens, rank]
  int64_t s_stride = 0;
  void* d_s = nullptr;  // [tokens, rank]
  int64_t d_s_stride = 0;
  float* d_b = nullptr;  // [width, rank], added to
};

struct GatedGradients {
  Element type = Element::bf16;
  GateFunction function = GateFunction::silu;
  int64_t tokens = 0, planned = 0, multiprocessors = 128, width = 0;
  const void* d_y = nullptr;  // [tokens, width]
  int64_t d_y_stride = 0;
  void* gate = nullptr;  // in: gate; out: d gate
  int64_t gate_stride = 0;
  void* up = nullptr;  // in: up; out: d up
  int64_t up_stride = 0;
  int64_t rank = 0;           // of the layer that reads y; 0: it has no adapter
  const void* d_s = nullptr;  // [tokens, rank]
  int64_t d_s_stride = 0;
  float* d_a = nullptr;  // [rank, width], added to
  GatedSide side[2];     // of gate, of up
  uint32_t* counters = nullptr;
  void* workspace = nullptr;
};

}  // namespace forge
