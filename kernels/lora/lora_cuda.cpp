#include "kernels/lora/lora_cuda.h"

#include "kernels/device/gemm.h"
#include "kernels/dropout/dropout_args.h"
#include "kernels/rows/rows_args.h"

namespace forge {
namespace {

int64_t ranks(const LoraGroup& g) { return g.members * g.rank; }

CounterDropout mask_of(const LoraGroup& g, const void* x, int64_t x_stride, void* y, int64_t y_stride) {
  const LoraDropout& d = g.dropout;
  CounterDropout args{g.type, g.tokens, g.width, x, y, x_stride, y_stride};
  args.probability = d.probability;
  args.seed = d.seed, args.module = d.stream, args.step = d.step;
  args.example = d.example, args.position = d.position;
  return args;
}

// Returns drop(x) as the products read it.
GemmOperand dropped(const LoraGroup& g, const LoraCudaSpace& space, CudaStream stream) {
  if (!space.dropped) return {g.x, g.x_stride};
  counter_dropout_cuda(mask_of(g, g.x, g.x_stride, space.dropped, g.width), stream);
  return {space.dropped, g.width};
}

// Returns S as the products read it.
const void* narrow_sums(const LoraGroup& g, const LoraCudaSpace& space, CudaStream stream) {
  if (!space.s) return g.s;
  convert_elements_cuda({Element::f32, g.type, g.tokens * ranks(g), g.s, space.s}, stream);
  return space.s;
}

// Returns member i's columns of S or d S.
GemmOperand of_member(const LoraGroup& g, const void* sums, int64_t i, bool transposed = false) {
  return {static_cast<const char*>(sums) + i * g.rank * bytes_of(g.type), ranks(g), transposed};
}

}  // namespace

int64_t lora_forward_cuda_workspace(const LoraForward& args) { return lora_cuda_space(args.group, false, nullptr).bytes; }

void lora_forward_cuda(const LoraForward& args, CudaStream stream) {
  const LoraGroup& g = args.group;
  if (g.tokens == 0) return;
  const LoraCudaSpace space = lora_cuda_space(g, false, args.workspace);
  device_gemm({g.type, g.tokens, ranks(g), g.width, dropped(g, space, stream), {g.a, g.width, true}, g.s_type, g.s,
               ranks(g)},
              stream);
  const void* sums = narrow_sums(g, space, stream);
  for (int64_t i = 0; i < g.members; ++i) {
    const LoraMember& m = g.member[i];
    device_gemm({g.type, g.tokens, m.out, g.rank, of_member(g, sums, i), {m.b, g.rank, true}, g.type, m.y, m.y_stride,
                 g.scale, /*add=*/true},
                stream);
  }
}

int64_t lora_backward_cuda_workspace(const LoraBackward& args) {
  return lora_cuda_space(args.group, true, nullptr).bytes;
}

void lora_backward_cuda(const LoraBackward& args, CudaStream stream) {
  const LoraGroup& g = args.group;
  if (g.tokens == 0) return;
  const LoraCudaSpace space = lora_cuda_space(g, true, args.workspace);
  const GemmOperand x = dropped(g, space, stream);
  const void* sums = narrow_sums(g, space, stream);
  for (int64_t i = 0; i < g.members; ++i) {
    const LoraMember& m = g.member[i];
    char* d_s = static_cast<char*>(space.d_s) + i * g.rank * bytes_of(g.type);
    device_gemm({g.type, g.tokens, g.rank, m.out, {m.y, m.y_stride}, {m.b, g.rank}, g.type, d_s, ranks(g), g.scale}, stream);
    device_gemm({g.type, m.out, g.rank, g.tokens, {m.y, m.y_stride, true}, of_member(g, sums, i), Element::f32, m.d_b, g.rank,
                 g.scale, /*add=*/true},
                stream);
  }
  device_gemm({g.type, ranks(g), g.width, g.tokens, {space.d_s, ranks(g), true}, x, Element::f32, args.d_a, g.width, 1,
               /*add=*/true},
              stream);
  if (!args.d_x) return;
  // The mask is between x and A: d S A is masked before it is added. drop(x) is not read after
  // this.
  const bool masked = space.dropped != nullptr;
  void* to = masked ? space.dropped : args.d_x;
  device_gemm({g.type, g.tokens, g.width, ranks(g), {space.d_s, ranks(g)}, {g.a, g.width}, g.type, to,
               masked ? g.width : args.d_x_stride, 1, /*add=*/!masked},
              stream);
  if (!masked) return;
  CounterDropout add = mask_of(g, space.dropped, g.width, args.d_x, args.d_x_stride);
  add.add = true;
  counter_dropout_cuda(add, stream);
}

}  // namespace forge
