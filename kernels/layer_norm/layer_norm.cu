#include "kernels/layer_norm/layer_norm.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/layer_norm/layer_norm_args.h"

namespace forge {

namespace {

// Returns what the kernels add to a weight, which they read as zeros where there is none.
template <class Args>
float factor_offset(const Args& args) {
  return args.weight != nullptr ? args.weight_offset : 1.0f;
}

}  // namespace

void layer_norm_forward_cuda(const LayerNormForward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_narrow(args.type, args.x_type.value_or(args.type), [&]<class T, class S>(Type<T>, Type<S>) {
    LayerNormForwardArgs<T, S> a{
        as<S>(args.x), as<T>(args.weight), as<T>(args.bias), as<T>(args.y), args.statistics,
        args.rows,     args.width,         args.x_stride,    args.y_stride, factor_offset(args),
        args.eps};
    const bool wide =
        sixteen_byte<S>({args.x, args.weight, args.bias, args.y}, {args.width, args.x_stride, args.y_stride});
    dispatch_width<S>(wide, [&]<int N>(Width<N>) {
      LaunchShape shape{static_cast<unsigned>(args.rows),
                        threads_for(ceil_div(args.width, N), kLayerNormThreads)};
      launch("layer_norm_forward", layer_norm_forward_kernel<T, S, N>, shape, stream, a);
    });
  });
}

void layer_norm_backward_cuda(const LayerNormBackward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_narrow(args.type, args.x_type.value_or(args.type), [&]<class T, class S>(Type<T>, Type<S>) {
    LayerNormBackwardArgs<T, S> a{as<T>(args.d_y), as<S>(args.x),   as<T>(args.weight), args.statistics,
                                  as<S>(args.d_x), args.rows,       args.width,         args.d_y_stride,
                                  args.x_stride,   args.d_x_stride, args.accumulate,    factor_offset(args)};
    if (args.d_weight != nullptr || args.d_bias != nullptr) {
      auto* partial = as<float>(args.workspace);
      const int64_t stretches = column_stretches(args.rows);
      LaunchShape parts{static_cast<unsigned>(ceil_div(args.width, kWarp)), kColumnWarps * kWarp, 0,
                        static_cast<unsigned>(stretches)};
      launch("layer_norm_weight", layer_norm_weight_kernel<T, S>, parts, stream, a, partial);
      launch("layer_norm_weight_total", column_totals_kernel<2>,
             {static_cast<unsigned>(ceil_div(args.width, 256)), 256}, stream, partial, stretches, args.width,
             args.d_weight, args.d_bias);
    }
    const bool wide = sixteen_byte<S>({args.d_y, args.x, args.weight, args.d_x},
                                      {args.width, args.d_y_stride, args.x_stride, args.d_x_stride});
    dispatch_width<S>(wide, [&]<int N>(Width<N>) {
      LaunchShape shape{static_cast<unsigned>(args.rows),
                        threads_for(ceil_div(args.width, N), kLayerNormThreads)};
      launch("layer_norm_backward", layer_norm_backward_kernel<T, S, N>, shape, stream, a);
    });
  });
}

}  // namespace forge
