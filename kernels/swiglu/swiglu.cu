#include "kernels/swiglu/swiglu.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/swiglu/swiglu_args.h"

namespace forge {
void swiglu_forward_cuda(const SwigluForward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    SwigluForwardArgs<T> a{as<T>(args.gate), as<T>(args.up),   as<T>(args.y),  args.rows,
                           args.width,       args.gate_stride, args.up_stride, args.y_stride};
    bool wide = sixteen_byte<T>({args.gate, args.up, args.y},
                                {args.width, args.gate_stride, args.up_stride, args.y_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      const auto kernel = args.function == GateFunction::silu      ? swiglu_forward_kernel<T, N, Silu>
                          : args.function == GateFunction::sigmoid ? swiglu_forward_kernel<T, N, Sigmoid>
                          : args.function == GateFunction::product ? swiglu_forward_kernel<T, N, Identity>
                                                                   : swiglu_forward_kernel<T, N, GeluTanh>;
      launch("swiglu_forward", kernel, grid_of(args.rows, args.width, N), stream, a);
    });
  });
}

void swiglu_backward_cuda(const SwigluBackward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    void *const d_gate = args.d_gate ? args.d_gate : args.gate, *const d_up = args.d_up ? args.d_up : args.up;
    const int64_t d_gate_stride = args.d_gate ? args.d_gate_stride : args.gate_stride,
                  d_up_stride = args.d_up ? args.d_up_stride : args.up_stride;
    SwigluBackwardArgs<T> a{as<T>(args.d_y),  as<T>(args.gate), as<T>(args.up), as<T>(args.y),
                            as<T>(d_gate),    as<T>(d_up),      args.rows,      args.width,
                            args.d_y_stride,  args.gate_stride, args.up_stride, args.y_stride,
                            d_gate_stride,    d_up_stride};
    bool wide =
        sixteen_byte<T>({args.d_y, args.gate, args.up, args.y, d_gate, d_up},
                        {args.width, args.d_y_stride, args.gate_stride, args.up_stride, args.y_stride, d_gate_stride, d_up_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      const auto kernel = args.function == GateFunction::silu      ? swiglu_backward_kernel<T, N, Silu>
                          : args.function == GateFunction::sigmoid ? swiglu_backward_kernel<T, N, Sigmoid>
                          : args.function == GateFunction::product ? swiglu_backward_kernel<T, N, Identity>
                                                                   : swiglu_backward_kernel<T, N, GeluTanh>;
      launch("swiglu_backward", kernel, grid_of(args.rows, args.width, N), stream, a);
    });
  });
}

// Takes 16 bytes of pairs at once, or one pair; a pair must begin at a multiple of twice its
// element's size.
void clamped_glu_forward_cuda(const ClampedGluForward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const ClampedGluForwardArgs<T> a{as<T>(args.pairs), as<T>(args.y), args.rows,                args.width,
                                     args.pairs_stride, args.y_stride, {args.limit, args.alpha}};
    const bool wide = sixteen_byte<T>({args.pairs, args.y}, {args.width, args.pairs_stride, args.y_stride});
    dispatch_width<T, kWidest<T> / 2>(wide, [&]<int N>(Width<N>) {
      launch("clamped_glu_forward", clamped_glu_forward_kernel<T, N>, grid_of(args.rows, args.width, N), stream, a);
    });
  });
}

void clamped_glu_backward_cuda(const ClampedGluBackward& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const ClampedGluBackwardArgs<T> a{as<T>(args.d_y),   as<T>(args.pairs), as<T>(args.y),
                                      args.rows,         args.width,        args.d_y_stride,
                                      args.pairs_stride, args.y_stride,     {args.limit, args.alpha}};
    const bool wide = sixteen_byte<T>({args.d_y, args.pairs, args.y}, {args.width, args.d_y_stride, args.pairs_stride, args.y_stride});
    dispatch_width<T, kWidest<T> / 2>(wide, [&]<int N>(Width<N>) {
      launch("clamped_glu_backward", clamped_glu_backward_kernel<T, N>, grid_of(args.rows, args.width, N), stream, a);
    });
  });
}

}  // namespace forge
