#include "kernels/experts/experts.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/experts/experts_args.h"

namespace forge {
namespace {

LaunchShape row_a_warp(int64_t rows) {
  return {static_cast<unsigned>(ceil_div(rows, kRowWarps)), kRowWarps * kWarp};
}

}  // namespace

void expert_rows_cuda(const ExpertRows& args, CudaStream stream) {
  if (args.tokens == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const ExpertRowsArgs<T> a{args.places, as<T>(args.x), as<T>(args.rows), args.tokens,    args.per_token,
                              args.width,  args.x_stride, args.back,        args.accumulate};
    dispatch_width<T>(sixteen_byte<T>({args.x, args.rows}, {args.width, args.x_stride}), [&]<int N>(Width<N>) {
      launch("expert_rows", expert_rows_kernel<T, N>, grid_of(args.tokens, args.width, N), stream, a);
    });
  });
}

void expert_combine_cuda(const ExpertCombine& args, CudaStream stream) {
  if (args.tokens == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const ExpertCombineArgs<T> a{args.places, args.weights,   as<T>(args.rows), as<T>(args.y),
                                 args.tokens, args.per_token, args.width,       args.y_stride};
    dispatch_width<T>(sixteen_byte<T>({args.rows, args.y}, {args.width, args.y_stride}), [&]<int N>(Width<N>) {
      launch("expert_combine", expert_combine_kernel<T, N>, grid_of(args.tokens, args.width, N), stream, a);
    });
  });
}

void expert_combine_backward_cuda(const ExpertCombineBackward& args, CudaStream stream) {
  const int64_t slots = args.tokens * args.per_token;
  if (slots == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const ExpertCombineBackwardArgs<T> a{
        args.places,    args.weights, as<T>(args.rows), as<T>(args.d_y), as<T>(args.d_rows),
        args.d_weights, slots,        args.per_token,   args.width,      args.d_y_stride};
    launch("expert_combine_backward", expert_combine_backward_kernel<T>, row_a_warp(slots), stream, a);
  });
}

void gate_rows_cuda(const GateRows& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const GateRowsArgs<T> a{as<T>(args.x), as<T>(args.gate), as<T>(args.y),    args.rows,
                            args.width,    args.x_stride,    args.gate_stride, args.y_stride};
    dispatch_width<T>(
        sixteen_byte<T>({args.x, args.y}, {args.width, args.x_stride, args.y_stride}), [&]<int N>(Width<N>) {
          launch("gate_rows", gate_rows_kernel<T, N>, grid_of(args.rows, args.width, N), stream, a);
        });
  });
}

void gate_rows_backward_cuda(const GateRowsBackward& args, CudaStream stream) {
  if (args.rows == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const GateRowsBackwardArgs<T> a{as<T>(args.d_y),  as<T>(args.x),      as<T>(args.gate),
                                    as<T>(args.d_x),  as<T>(args.d_gate), args.rows,
                                    args.width,       args.d_y_stride,    args.x_stride,
                                    args.gate_stride, args.d_x_stride,    args.d_gate_stride};
    launch("gate_rows_backward", gate_rows_backward_kernel<T>, row_a_warp(args.rows), stream, a);
  });
}

}  // namespace forge
