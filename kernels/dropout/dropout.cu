#include "kernels/dropout/dropout.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/dropout/dropout_args.h"

namespace forge {

void counter_dropout_cuda(const CounterDropout& args, CudaStream stream) {
  if (args.rows == 0 || args.features == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    DropoutArgs<T> a{as<T>(args.x),
                     as<T>(args.y),
                     args.example,
                     args.position,
                     args.rows,
                     args.features,
                     args.x_stride,
                     args.y_stride,
                     args.seed,
                     args.module,
                     args.step,
                     static_cast<uint32_t>(args.probability * 0x1p32),
                     static_cast<float>(1 / (1 - args.probability)),
                     args.add};
    const bool wide = sixteen_byte<float>({args.x, args.y}, {args.features, args.x_stride, args.y_stride});
    dispatch_width<float>(wide, [&]<int N>(Width<N>) {
      launch("dropout", dropout_kernel<T, N>, grid_of(args.rows, args.features, 4), stream, a);
    });
  });
}

}  // namespace forge
