#include "kernels/rows/rows.cuh"

#include <algorithm>
#include <type_traits>

#include "kernels/device/dispatch.cuh"
#include "kernels/rows/rows_args.h"

namespace forge {

void copy_rows_cuda(const CopyRows& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_bits(args.element_bytes, [&]<class T>(Type<T>) {
    CopyRowsArgs<T> a{as<T>(args.x), as<T>(args.y), args.from,     args.to,
                      args.rows,     args.width,    args.x_stride, args.y_stride};
    const bool wide = sixteen_byte<T>({args.x, args.y}, {args.width, args.x_stride, args.y_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      launch("copy_rows", copy_rows_kernel<T, N>, grid_of(args.rows, args.width, N), stream, a);
    });
  });
}

void add_rows_cuda(const AddRows& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  const bool apart = args.to != nullptr;
  dispatch_narrow(args.x_type.value_or(args.type), args.type, [&]<class X, class T>(Type<X>, Type<T>) {
    const auto* to = as<T>(apart ? args.to : args.y);
    const int64_t to_stride = apart ? args.to_stride : args.y_stride;
    AddRowsArgs<X, T> a{as<X>(args.x), to,        as<T>(args.y), args.rows, args.width,
                        args.x_stride, to_stride, args.y_stride};
    const bool wide = sixteen_byte<T>({args.x, to, args.y}, {args.width, args.x_stride, to_stride, args.y_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      launch("add_rows", add_rows_kernel<X, T, N>, grid_of(args.rows, args.width, N), stream, a);
    });
  });
}

namespace {

template <class X, class T>
void scale_rows(const ScaleRows& args, CudaStream stream) {
  ScaleRowsArgs<X, T> a{as<X>(args.x), as<T>(args.y), args.rows,   args.width,
                        args.x_stride, args.y_stride, args.factor, args.accumulate};
  // The vector has as many elements as make 16 bytes of the wider type.
  using Wider = std::conditional_t<(sizeof(X) > sizeof(T)), X, T>;
  const bool wide = sixteen_byte<Wider>({args.x, args.y}, {args.width, args.x_stride, args.y_stride});
  dispatch_width<Wider>(wide, [&]<int N>(Width<N>) {
    launch("scale_rows", scale_rows_kernel<X, T, N>, grid_of(args.rows, args.width, N), stream, a);
  });
}

}  // namespace

void scale_rows_cuda(const ScaleRows& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  const Element x_type = args.x_type.value_or(args.type);
  if (x_type == Element::f32 && args.type == Element::f16) return scale_rows<float, fp16>(args, stream);
  dispatch_narrow(x_type, args.type, [&]<class X, class T>(Type<X>, Type<T>) { scale_rows<X, T>(args, stream); });
}

void regroup_heads_cuda(const RegroupHeads& args, CudaStream stream) {
  if (args.rows == 0 || args.heads == 0) return;
  dispatch_bits(args.element_bytes, [&]<class T>(Type<T>) {
    RegroupHeadsArgs<T> a{as<T>(args.x), as<T>(args.y), args.rows,     args.heads,    args.kv_heads,
                          args.head_dim, args.x_stride, args.y_stride, args.to_groups};
    const bool wide = sixteen_byte<T>({args.x, args.y}, {args.head_dim, args.x_stride, args.y_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      launch("regroup_heads", regroup_heads_kernel<T, N>,
             grid_of(args.rows, (args.heads + 2 * args.kv_heads) * args.head_dim, N), stream, a);
    });
  });
}

void sum_columns_cuda(const SumColumns& args, CudaStream stream) {
  if (args.rows == 0 || args.width == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    LaunchShape columns{static_cast<unsigned>(ceil_div(args.width, kWarp)), kSumWarps * kWarp};
    launch("sum_columns", sum_columns_kernel<T>, columns, stream, as<T>(args.x), args.rows, args.width,
           args.x_stride, args.sum);
  });
}

void convert_elements_cuda(const ConvertElements& args, CudaStream stream) {
  if (args.count == 0) return;
  constexpr int64_t kMostBlocks = 4096;
  LaunchShape shape{static_cast<unsigned>(std::min(ceil_div(args.count, 256), kMostBlocks)), 256};
  dispatch_element(args.from, [&]<class From>(Type<From>) {
    dispatch_element(args.to, [&]<class To>(Type<To>) {
      launch("convert", convert_kernel<From, To>, shape, stream, as<From>(args.x), as<To>(args.y),
             args.count);
    });
  });
}

}  // namespace forge
