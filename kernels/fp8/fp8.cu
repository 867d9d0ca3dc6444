#include "kernels/fp8/fp8.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/fp8/fp8_args.h"

namespace forge {

void quantize_rows_cuda(const QuantizeRows& args, CudaStream stream) {
  if (args.rows == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const QuantizeRowsArgs<T> a{as<T>(args.x), args.factors, args.codes, args.scales, args.columns, args.x_stride, args.codes_stride};
    // Codes need half of these addresses, or a quarter, and whole strides.
    const bool wide = sixteen_byte<T>({args.x}, {args.columns, args.x_stride, args.codes_stride}) &&
                      reinterpret_cast<uintptr_t>(args.codes) % kWidest<T> == 0;
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      const LaunchShape shape{static_cast<unsigned>(args.rows), threads_for(ceil_div(args.columns, N), 256)};
      launch("quantize_rows", quantize_rows_kernel<T, N>, shape, stream, a);
    });
  });
}

void transpose_bytes_cuda(const TransposeBytes& args, CudaStream stream) {
  if (args.rows == 0 || args.columns == 0) return;
  const TransposeBytesArgs a{args.x, args.y, args.rows, args.columns, ceil_div(args.columns, kSquare)};
  const LaunchShape shape{static_cast<unsigned>(ceil_div(args.rows, kSquare) * a.across), 256};
  const bool four = args.rows % 4 == 0 && args.columns % 4 == 0 && reinterpret_cast<uintptr_t>(args.x) % 4 == 0 &&
                    reinterpret_cast<uintptr_t>(args.y) % 4 == 0;
  launch("transpose_bytes", four ? transpose_bytes_kernel<4> : transpose_bytes_kernel<1>, shape, stream, a);
}

}  // namespace forge
