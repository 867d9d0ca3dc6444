#include "kernels/latent/latent.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/latent/latent_args.h"

namespace forge {

void latent_heads_cuda(const LatentHeads& args, CudaStream stream) {
  if (args.rows == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const LatentHeadsArgs<T> a{as<T>(args.q),  as<T>(args.kv), as<T>(args.key), as<T>(args.all),
                               args.rows,      args.heads,     args.head_dim,   args.rope_dim,
                               args.value_dim, args.q_stride,  args.kv_stride,  args.key_stride,
                               args.all_stride};
    const bool wide = sixteen_byte<T>({args.q, args.kv, args.key, args.all},
                                      {args.head_dim, args.rope_dim, args.value_dim, args.q_stride,
                                       args.kv_stride, args.key_stride, args.all_stride});
    const int64_t width = args.heads * args.head_dim;
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      if (!args.back)
        return launch("latent_heads", latent_heads_kernel<T, N>, grid_of(args.rows, 3 * width, N), stream, a);
      launch("latent_heads_back", latent_heads_back_kernel<T, N>,
             grid_of(args.rows, width + args.heads * (args.head_dim - args.rope_dim + args.value_dim), N),
             stream, a);
      launch("latent_key_back", latent_key_back_kernel<T, N>, grid_of(args.rows, args.rope_dim, N), stream,
             a);
    });
  });
}

void trim_heads_cuda(const TrimHeads& args, CudaStream stream) {
  if (args.rows == 0) return;
  dispatch_bits(args.element_bytes, [&]<class T>(Type<T>) {
    const TrimHeadsArgs<T> a{as<T>(args.x),  as<T>(args.y), args.rows,     args.heads, args.head_dim,
                             args.value_dim, args.x_stride, args.y_stride, args.back};
    const bool wide =
        sixteen_byte<T>({args.x, args.y}, {args.head_dim, args.value_dim, args.x_stride, args.y_stride});
    dispatch_width<T>(wide, [&]<int N>(Width<N>) {
      launch("trim_heads", trim_heads_kernel<T, N>,
             grid_of(args.rows, args.heads * (args.back ? args.head_dim : args.value_dim), N), stream, a);
    });
  });
}

}  // namespace forge
