#include "kernels/attention/group_sums.cuh"

#include "kernels/attention/group_sums.h"
#include "kernels/device/dispatch.cuh"

namespace forge {
namespace {

template <class T>
void group_sums(const GroupSums& args, CudaStream stream) {
  GroupSumsArgs<T> a{};
  for (int of : {0, 1})
    a.x[of] = as<T>(args.x[of]), a.y[of] = as<T>(args.y[of]), a.y_stride[of] = args.y_stride[of];
  a.tokens = args.tokens, a.kv_heads = args.kv_heads, a.group = args.group, a.head_dim = args.head_dim;
  const bool wide = sixteen_byte<T>({args.x[0], args.x[1], args.y[0], args.y[1]},
                                    {args.head_dim, args.y_stride[0], args.y_stride[1]});
  dispatch_width<T>(wide, [&]<int N>(Width<N>) {
    launch("group_sums", group_sums_kernel<T, N>, grid_of(args.tokens, 2 * args.kv_heads * args.head_dim, N), stream, a);
  });
}

}  // namespace

void group_sums_cuda(const GroupSums& args, CudaStream stream) {
  if (args.tokens == 0 || args.kv_heads == 0) return;
  if (args.type == Element::bf16)
    group_sums<bf16>(args, stream);
  else
    group_sums<fp16>(args, stream);
}

void clear_sums_cuda(const ClearedSums& args, CudaStream stream) {
  clear_device(args.sums, static_cast<size_t>(args.bytes), stream);
}

}  // namespace forge
