#include "kernels/dora/dora.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/dora/dora_args.h"

namespace forge {

void dora_forward_cuda(const DoraForward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    DoraForwardArgs<T> a{as<T>(args.x), as<T>(args.bias), args.ratio,    as<T>(args.y),
                         args.rows,     args.width,       args.x_stride, args.y_stride};
    const bool wide = sixteen_byte<T>({args.x, args.y}, {args.width, args.x_stride, args.y_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      launch("dora_forward", dora_forward_kernel<T, N>, grid_of(args.rows, args.width, N), stream, a);
    });
  });
}

void dora_backward_cuda(const DoraBackward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    DoraBackwardArgs<T> a{as<T>(args.x),   as<T>(args.d_y),  args.ratio,     args.inverse_norm,
                          as<T>(args.d_x), args.d_magnitude, args.rows,      args.width,
                          args.x_stride,   args.d_y_stride,  args.d_x_stride};
    LaunchShape columns{static_cast<unsigned>(ceil_div(args.width, kWarp)), kDoraWarps * kWarp};
    launch("dora_backward", dora_backward_kernel<T>, columns, stream, a);
  });
}

void dora_ratio_cuda(const DoraRatio& args, CudaStream stream) {
  if (args.out == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    DoraRatioArgs<T> a{as<T>(args.weight), as<T>(args.a),     as<T>(args.b), as<T>(args.magnitude),
                       args.ratio,         args.inverse_norm, args.in,       args.rank,
                       args.scale};
    launch("dora_ratio", dora_ratio_kernel<T>, {static_cast<unsigned>(args.out), threads_for(args.in, 256)}, stream, a);
  });
}

}  // namespace forge
