#include "kernels/rms_norm/rms_norm.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/rms_norm/rms_norm_args.h"

namespace forge {

void rms_norm_forward_cuda(const RmsNormForward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  const bool adds = args.residual != nullptr;
  dispatch_narrow(args.type, args.stream_type.value_or(args.type), [&]<class T, class S>(Type<T>, Type<S>) {
    RmsNormForwardArgs<T, S> a{as<S>(adds ? args.residual : args.x),
                               as<T>(adds ? args.x : nullptr),
                               as<T>(args.weight),
                               as<S>(args.h),
                               as<T>(args.y),
                               args.inverse,
                               args.rows,
                               args.width,
                               adds ? args.residual_stride : args.x_stride,
                               args.x_stride,
                               args.h_stride,
                               args.y_stride,
                               args.weight_offset,
                               args.eps};
    bool wide =
        sixteen_byte<S>({args.x, args.residual, args.weight, args.h, args.y},
                        {args.width, args.x_stride, args.residual_stride, args.h_stride, args.y_stride});
    dispatch_width<S>(wide, [&]<int N>(Width<N>) {
      LaunchShape shape{static_cast<unsigned>(args.rows), threads_for(ceil_div(args.width, N), kNormThreads), 0,
                        static_cast<unsigned>(args.heads)};
      launch("rms_norm_forward", rms_norm_forward_kernel<T, S, N>, shape, stream, a);
    });
  });
}

void rms_norm_backward_cuda(const RmsNormBackward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_narrow(args.type, args.stream_type.value_or(args.type), [&]<class T, class S>(Type<T>, Type<S>) {
    RmsNormBackwardArgs<T, S> a{as<T>(args.d_y),    as<S>(args.h),  as<T>(args.weight), as<S>(args.d_h),
                                as<T>(args.y),      args.inverse,   args.rows,          args.width,
                                args.d_y_stride,    args.h_stride,  args.d_h_stride,    args.y_stride,
                                args.weight_offset, args.accumulate};
    // The weight's gradient is computed before d_h is written: d_h may be d_y.
    if (args.d_weight != nullptr) {
      auto* partial = as<float>(args.workspace);
      const int64_t stretches = column_stretches(args.rows * args.heads);
      LaunchShape parts{static_cast<unsigned>(ceil_div(args.width, kWarp)), kColumnWarps * kWarp, 0,
                        static_cast<unsigned>(stretches)};
      launch("rms_norm_weight", rms_norm_weight_kernel<T, S>, parts, stream, a, args.heads, partial);
      launch("rms_norm_weight_total", column_totals_kernel<1>, {static_cast<unsigned>(ceil_div(args.width, 256)), 256}, stream,
             partial, stretches, args.width, args.d_weight, nullptr);
    }
    bool wide = sixteen_byte<S>({args.d_y, args.h, args.weight, args.d_h, args.y},
                                {args.width, args.d_y_stride, args.h_stride, args.d_h_stride, args.y_stride});
    dispatch_width<S>(wide, [&]<int N>(Width<N>) {
      LaunchShape shape{static_cast<unsigned>(args.rows),
                        threads_for(ceil_div(args.width, N), kNormThreads), 0,
                        static_cast<unsigned>(args.heads)};
      launch("rms_norm_backward", rms_norm_backward_kernel<T, S, N>, shape, stream, a);
    });
  });
}

}  // namespace forge
