#include "kernels/embedding/embedding.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/embedding/embedding_cuda.h"

namespace forge {

void embedding_gradient_cuda(const EmbeddingGradient& args, CudaStream stream) {
  if (args.tokens == 0 || args.width == 0) return;
  dispatch_element(args.type, [&](auto type) {
    using T = typename decltype(type)::type;
    EmbeddingArgs<T> a{static_cast<const T*>(args.d_y),
                       args.ids,
                       args.order,
                       args.d_weight,
                       args.tokens,
                       args.width,
                       args.stride};
    // Four columns: 16 bytes of the fp32 gradient.
    const bool wide =
        sixteen_byte<T>({args.d_y}, {args.width, args.stride}) && sixteen_byte<float>({args.d_weight}, {});
    auto run = [&](auto width) {
      constexpr int N = decltype(width)::value;
      const int64_t vectors = ceil_div(args.width, N);
      const unsigned threads = threads_for(vectors, 256);
      LaunchShape shape{static_cast<unsigned>(ceil_div(vectors, threads)), threads, 0,
                        static_cast<unsigned>(args.tokens < 65535 ? args.tokens : 65535)};
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
