#include "kernels/rope/rope.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/rope/rope_args.h"

namespace forge {

void rope_cuda(const Rope& args, CudaStream stream) {
  const int64_t heads = args.heads + args.kv_heads, half = args.rotary_dim / 2;
  if (args.tokens == 0 || heads == 0 || half == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    RopeArgs<T> a{as<T>(args.qkv),
                  args.cosine,
                  args.sine,
                  args.positions,
                  args.stride,
                  static_cast<int>(heads),
                  static_cast<int>(args.head_dim),
                  static_cast<int>(args.rotary_dim),
                  args.backward ? -1.0f : 1.0f};
    // A vector must stay on one side of the rotation.
    const bool wide = sixteen_byte<T>({args.qkv}, {half, args.head_dim, args.stride}) &&
                      sixteen_byte<float>({args.cosine, args.sine}, {});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      LaunchShape shape{static_cast<unsigned>(args.tokens), threads_for(heads * half / N, 256)};
      if (args.layout == RopeLayout::half_split)
        launch("rope_half", rope_kernel<T, N, false>, shape, stream, a);
      else
        launch("rope_interleaved", rope_kernel<T, N, true>, shape, stream, a);
    });
  });
}

}  // namespace forge
