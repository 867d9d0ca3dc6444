#include "kernels/activation/activation.cuh"

#include "kernels/activation/activation_args.h"
#include "kernels/device/dispatch.cuh"

namespace forge {
namespace {

// Calls `action` with the arguments' function.
template <class Args, class Action>
void dispatch_function(const Args& args, Action action) {
  switch (args.function) {
    case Activation::gelu:
      return action(Gelu{});
    case Activation::gelu_tanh:
      return action(GeluTanh{});
    case Activation::relu2:
      return action(SquaredRelu{});
    case Activation::clamp:
      return action(Clamp{args.limit});
  }
}

}  // namespace

void activation_forward_cuda(const ActivationForward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const bool wide = sixteen_byte<T>({args.x, args.y}, {args.width, args.x_stride, args.y_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      dispatch_function(args, [&]<class Function>(Function function) {
        ActivationForwardArgs<T, Function> a{as<T>(args.x), as<T>(args.y), args.rows, args.width,
                                             args.x_stride, args.y_stride, function};
        launch("activation_forward", activation_forward_kernel<T, N, Function>,
               grid_of(args.rows, args.width, N), stream, a);
      });
    });
  });
}

void activation_backward_cuda(const ActivationBackward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const bool wide = sixteen_byte<T>({args.d_y, args.x, args.d_x},
                                      {args.width, args.d_y_stride, args.x_stride, args.d_x_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      dispatch_function(args, [&]<class Function>(Function function) {
        ActivationBackwardArgs<T, Function> a{as<T>(args.d_y), as<T>(args.x),   as<T>(args.d_x),
                                              args.rows,       args.width,      args.d_y_stride,
                                              args.x_stride,   args.d_x_stride, function};
        launch("activation_backward", activation_backward_kernel<T, N, Function>,
               grid_of(args.rows, args.width, N), stream, a);
      });
    });
  });
}

}  // namespace forge
