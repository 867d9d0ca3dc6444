// Emulated attention: forge's own kernels in the emulator, and flash attention over its launchers
// (tests/emulator/flash.cpp). LibTorch's efficient kernels are replaced by the CPU's loops, which
// report the same accesses.
#include <vector>

#include "kernels/attention/attention_cuda.h"
#include "kernels/device/runtime.h"
#include "tests/emulator/grid.h"

namespace forge {
namespace {

// Touches some heads of all tokens.
void touch(const AttentionShape& s, const void* data, int64_t stride, int64_t heads, bool writes) {
  const int64_t bytes = bytes_of(s.type);
  emulator::touch("attention", data, s.tokens, heads * s.head_dim * bytes, stride * bytes, writes);
}

template <class Args>
void touch_inputs(const Args& a) {
  touch(a.shape, a.q, a.q_stride, a.shape.heads, false);
  touch(a.shape, a.k, a.k_stride, a.shape.kv_heads, false);
  touch(a.shape, a.v, a.v_stride, a.shape.kv_heads, false);
  emulator::touch("attention", a.shape.cu_seqlens, 1, 4 * (a.shape.sequences + 1), 0, false);
}

void touch_lse(const AttentionShape& s, const float* lse, bool writes) {
  if (lse) emulator::touch("attention", lse, 1, 4 * s.tokens * s.heads, 0, writes);
}

}  // namespace

void attention_forward_cuda(const AttentionForward& args, CudaStream stream) {
  const AttentionKernel kernel = attention_choice_of(args, runtime::capability(0), /*backward=*/false).kernel;
  if (kernel == AttentionKernel::own) return attention_forward_own(args, stream);
  if (kernel == AttentionKernel::flash) return attention_forward_flash(args, stream);
  emulator::queue("attention", stream, [=] {
    touch_inputs(args);
    touch(args.shape, args.out, args.out_stride, args.shape.heads, true);
    touch_lse(args.shape, args.lse, true);
    AttentionForward own = args;
    std::vector<char> workspace(static_cast<size_t>(attention_forward_cpu_workspace(own)));
    own.workspace = workspace.data();
    attention_forward_cpu(own);
  });
}

void attention_backward_cuda(const AttentionBackward& args, CudaStream stream) {
  const AttentionKernel kernel = attention_choice_of(args, runtime::capability(0), /*backward=*/true).kernel;
  if (kernel == AttentionKernel::own) return attention_backward_own(args, stream);
  if (kernel == AttentionKernel::flash) return attention_backward_flash(args, stream);
  emulator::queue("attention backward", stream, [=] {
    touch_inputs(args);
    touch(args.shape, args.out, args.out_stride, args.shape.heads, false);
    touch(args.shape, args.d_out, args.d_out_stride, args.shape.heads, false);
    touch_lse(args.shape, args.lse, false);
    touch(args.shape, args.d_q, args.d_q_stride, args.shape.heads, true);
    touch(args.shape, args.d_k, args.d_k_stride, args.shape.kv_heads, true);
    touch(args.shape, args.d_v, args.d_v_stride, args.shape.kv_heads, true);
    AttentionBackward own = args;
    std::vector<char> workspace(static_cast<size_t>(attention_backward_cpu_workspace(own)));
    own.workspace = workspace.data();
    attention_backward_cpu(own);
  });
}

}  // namespace forge
