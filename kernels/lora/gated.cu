#include "kernels/lora/gated.cuh"

#include "kernels/lora/folded_launch.h"
#include "kernels/lora/gated_cuda.h"
#include "kernels/lora/gated_space.h"

namespace forge {
namespace {

template <class T>
GatedGradientArgs<T> on_device(const GatedGradients& args, const GatedCut& cut) {
  GatedGradientArgs<T> a{};
  a.d_y = as<T>(args.d_y), a.d_y_stride = args.d_y_stride;
  a.gate = as<T>(args.gate), a.gate_stride = args.gate_stride;
  a.up = as<T>(args.up), a.up_stride = args.up_stride;
  a.partial = as<float>(args.workspace), a.counters = args.counters;
  a.tokens = args.tokens, a.tokens_each = cut.tokens_each, a.width = args.width, a.gelu = args.function == GateFunction::gelu_tanh;
  if (args.rank > 0) {
    a.side[0].sums = as<T>(args.d_s), a.side[0].sums_stride = args.d_s_stride;
    a.side[0].gradient = args.d_a, a.side[0].ranks = args.rank, a.side[0].gradient_at = cut.d_a_at;
  }
  for (int i = 0; i < 2; ++i) {
    const GatedSide& from = args.side[i];
    GatedSideOnDevice<T>& to = a.side[1 + i];
    if (from.rank == 0) continue;
    to.factor = as<T>(from.b), to.factor_stride = from.b_stride;
    to.sums = as<T>(from.s), to.sums_stride = from.s_stride;
    to.d_s = as<T>(from.d_s), to.d_s_stride = from.d_s_stride;
    to.gradient = from.d_b, to.ranks = from.rank, to.scale = from.scale;
    to.sums_at = cut.sums_at[i], to.gradient_at = cut.d_b_at[i];
  }
  return a;
}

}  // namespace

void gated_sums_cuda(const GatedSums& args, CudaStream stream) {
  const ThinCut cut = gated_cut(args);
  if (args.tokens == 0 || args.width == 0) return;
  dispatch_narrow(args.type, [&]<class T>(Type<T>) {
    ThinArgs<T> a = cut_on_device<T>(cut, args.tokens, args.workspace, args.counters);
    a.wide = as<T>(args.gate), a.wide_stride = args.gate_stride;
    a.up = as<T>(args.up), a.up_stride = args.up_stride;
    a.y = as<T>(args.y), a.y_stride = args.y_stride;
    a.factor = as<T>(args.a), a.factor_stride = args.a_stride;
    a.to = as<T>(args.s), a.to_stride = args.s_stride;
    a.kept = as<T>(args.kept), a.kept_stride = args.kept_stride;
    a.ranks_until[0] = args.rank, a.scale[0] = args.scale, a.gelu = args.function == GateFunction::gelu_tanh;
    dispatch_width<T>(sixteen_byte<T>({args.gate, args.up, args.y}, {args.gate_stride, args.up_stride, args.y_stride}), [&](auto width) {
      dispatch_eights(args.rank, [&](auto eights) {
        launch("gated_sums", thin_kernel<T, decltype(eights)::value, false, decltype(width)::value, Gated>, thin_shape(cut), stream, a);
      });
    });
  });
}

void gated_gradients_cuda(const GatedGradients& args, CudaStream stream) {
  if (args.tokens == 0 || args.width == 0) return;
  const GatedCut cut = gated_cut(args);
  dispatch_narrow(args.type, [&]<class T>(Type<T>) {
    const GatedGradientArgs<T> a = on_device<T>(args, cut);
    const bool wide = sixteen_byte<T>({args.d_y, args.gate, args.up}, {args.width, args.d_y_stride, args.gate_stride, args.up_stride});
    const auto go = [&]<int kEights>(Width<kEights>) {
      const LaunchShape shape{static_cast<unsigned>(cut.column_blocks), kGatedWarps<8 * kEights> * kWarp, 0,
                              static_cast<unsigned>(cut.token_blocks)};
      dispatch_width<T>(wide, [&](auto width) {
        launch("gated_gradients", gated_gradients_kernel<T, kEights, decltype(width)::value>, shape, stream, a);
      });
    };
    cut.ranks <= 16 ? go(Width<2>{}) : go(Width<4>{});
  });
}

}  // namespace forge
