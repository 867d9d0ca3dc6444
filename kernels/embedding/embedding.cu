#include "kernels/embedding/embedding.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/embedding/embedding_cuda.h"

namespace forge {

void embedding_forward_cuda(const EmbeddingForward& args, CudaStream stream) {
  if (args.tokens == 0 || args.width == 0) return;
  dispatch_element(args.type, [&](auto type) {
    using T = typename decltype(type)::type;
    EmbeddingForwardArgs<T> a{static_cast<const T*>(args.table),
                              args.ids,
                              static_cast<T*>(args.y),
                              args.tokens,
                              args.width,
                              args.y_stride,
                              args.scale};
    dispatch_width<T>(sixteen_byte<T>({args.table, args.y}, {args.width, args.y_stride}), [&](auto width) {
      constexpr int N = decltype(width)::value;
      launch("embedding_forward", embedding_forward_kernel<T, N>, grid_of(args.tokens, args.width, N), stream,
             a);
    });
  });
}

void embedding_backward_cuda(const EmbeddingBackward& args, CudaStream stream) {
  if (args.tokens == 0 || args.width == 0) return;
  dispatch_element(args.type, [&](auto type) {
    using T = typename decltype(type)::type;
    EmbeddingBackwardArgs<T> a{static_cast<const T*>(args.d_y),
                               args.ids,
                               args.order,
                               args.d_table,
                               args.tokens,
                               args.width,
                               args.d_y_stride,
                               args.scale};
    // Four columns: 16 bytes of the fp32 gradient.
    const bool wide =
        sixteen_byte<T>({args.d_y}, {args.width, args.d_y_stride}) && sixteen_byte<float>({args.d_table}, {});
    auto run = [&](auto width) {
      constexpr int N = decltype(width)::value;
      LaunchShape shape = grid_of(args.tokens, args.width, N);
      if (args.order != nullptr)
        launch("embedding_sorted", embedding_sorted_kernel<T, N>, shape, stream, a);
      else
        launch("embedding_atomic", embedding_atomic_kernel<T, N>, shape, stream, a);
    };
    if (wide)
      run(Width<4>{});
    else
      run(Width<1>{});
  });
}

}  // namespace forge
