#pragma once
// The work of adapters on a GPU in its order, as the launchers enqueue it (lora_cuda.cpp) and a
// plan counts it (lora_cuda.h): run() takes a Gemm, a CounterDropout or a ConvertElements.
#include "kernels/device/gemm.h"
#include "kernels/dropout/dropout_args.h"
#include "kernels/lora/lora_args.h"
#include "kernels/lora/lora_cuda_space.h"
#include "kernels/rows/rows_args.h"

namespace forge {
namespace lora_work {

inline int64_t ranks(const LoraGroup& g) { return g.members * g.rank; }

inline CounterDropout mask_of(const LoraGroup& g, const void* x, int64_t x_stride, void* y, int64_t y_stride) {
  const LoraDropout& d = g.dropout;
  CounterDropout args{g.type, g.tokens, g.width, x, y, x_stride, y_stride};
  args.probability = d.probability;
  args.seed = d.seed, args.module = d.stream, args.step = d.step;
  args.example = d.example, args.position = d.position;
  return args;
}

// Returns drop(x) as the products read it.
template <class Run>
GemmOperand dropped(const LoraGroup& g, const LoraCudaSpace& space, Run run) {
  if (!space.dropped) return {g.x, g.x_stride};
  run(mask_of(g, g.x, g.x_stride, space.dropped, g.width));
  return {space.dropped, g.width};
}

// Returns S as the products read it.
template <class Run>
const void* narrow_sums(const LoraGroup& g, const LoraCudaSpace& space, Run run) {
  if (!space.s) return g.s;
  run(ConvertElements{Element::f32, g.type, g.tokens * ranks(g), g.s, space.s});
  return space.s;
}

// Returns member i's columns of S or d S.
inline GemmOperand of_member(const LoraGroup& g, const void* sums, int64_t i, bool transposed = false) {
  return {static_cast<const char*>(sums) + i * g.rank * bytes_of(g.type), ranks(g), transposed};
}

}  // namespace lora_work

template <class Run>
void each_work(const LoraForward& args, Run run) {
  using namespace lora_work;
  const LoraGroup& g = args.group;
  const LoraCudaSpace space = lora_cuda_space(g, false, args.workspace);
  const GemmOperand x = dropped(g, space, run);
  run(Gemm{g.type, g.tokens, ranks(g), g.width, x, {g.a, g.width, true}, g.s_type, g.s, ranks(g)});
  const void* sums = narrow_sums(g, space, run);
  for (int64_t i = 0; i < g.members; ++i) {
    const LoraMember& m = g.member[i];
    run(Gemm{g.type, g.tokens, m.out, g.rank, of_member(g, sums, i), {m.b, g.rank, true}, g.type, m.y,
             m.y_stride, g.scale, /*add=*/true});
  }
}

template <class Run>
void each_work(const LoraBackward& args, Run run) {
  using namespace lora_work;
  const LoraGroup& g = args.group;
  const LoraCudaSpace space = lora_cuda_space(g, true, args.workspace);
  const GemmOperand x = dropped(g, space, run);
  const void* sums = narrow_sums(g, space, run);
  for (int64_t i = 0; i < g.members; ++i) {
    const LoraMember& m = g.member[i];
    char* d_s = static_cast<char*>(space.d_s) + i * g.rank * bytes_of(g.type);
    run(Gemm{g.type, g.tokens, g.rank, m.out, {m.y, m.y_stride}, {m.b, g.rank}, g.type, d_s, ranks(g),
             g.scale});
    run(Gemm{g.type, m.out, g.rank, g.tokens, {m.y, m.y_stride, true}, of_member(g, sums, i), Element::f32,
             m.d_b, g.rank, g.scale, /*add=*/true});
  }
  run(Gemm{g.type, ranks(g), g.width, g.tokens, {space.d_s, ranks(g), true}, x, Element::f32, args.d_a,
           g.width, 1, /*add=*/true});
  if (!args.d_x) return;
  // The mask is between x and A: d S A is masked before it is added. drop(x) is not read after
  // this.
  const bool masked = space.dropped != nullptr;
  void* to = masked ? space.dropped : args.d_x;
  run(Gemm{g.type, g.tokens, g.width, ranks(g), {space.d_s, ranks(g)}, {g.a, g.width}, g.type, to,
           masked ? g.width : args.d_x_stride, 1, /*add=*/!masked});
  if (!masked) return;
  CounterDropout add = mask_of(g, space.dropped, g.width, args.d_x, args.d_x_stride);
  add.add = true;
  run(add);
}

}  // namespace forge
