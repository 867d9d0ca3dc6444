#include "kernels/activation/activation.cuh"

#include "kernels/activation/activation_args.h"
#include "kernels/device/dispatch.cuh"

namespace forge {
void activation_forward_cuda(const ActivationForward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    ActivationForwardArgs<T> a{as<T>(args.x), as<T>(args.y), args.rows,
                               args.width,    args.x_stride, args.y_stride};
    const bool wide = sixteen_byte<T>({args.x, args.y}, {args.width, args.x_stride, args.y_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      const bool gelu = args.function == Activation::gelu;
      launch("activation_forward",
             gelu ? activation_forward_kernel<T, N, Gelu> : activation_forward_kernel<T, N, GeluTanh>,
             grid_of(args.rows, args.width, N), stream, a);
    });
  });
}

void activation_backward_cuda(const ActivationBackward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    ActivationBackwardArgs<T> a{as<T>(args.d_y), as<T>(args.x),   as<T>(args.d_x), args.rows,
                                args.width,      args.d_y_stride, args.x_stride,   args.d_x_stride};
    const bool wide = sixteen_byte<T>({args.d_y, args.x, args.d_x},
                                      {args.width, args.d_y_stride, args.x_stride, args.d_x_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      const bool gelu = args.function == Activation::gelu;
      launch("activation_backward",
             gelu ? activation_backward_kernel<T, N, Gelu> : activation_backward_kernel<T, N, GeluTanh>,
             grid_of(args.rows, args.width, N), stream, a);
    });
  });
}

}  // namespace forge
