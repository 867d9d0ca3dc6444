#include "kernels/attention/attention_own.h"

#include <stdexcept>

#include "kernels/attention/attention_own.cuh"
#include "kernels/device/dispatch.cuh"

namespace forge {
namespace {

AttentionNumbers numbers_of(const AttentionShape& s) {
  return {s.heads, s.kv_heads, s.head_dim, s.window, s.tokens, s.scale, s.softcap, s.softcap == 0 ? 0 : 2 / s.softcap};
}

// Returns the shared memory of a block that holds the rows of `held` matrices of its own.
template <int kFeatures>
constexpr size_t shared_bytes(int held) {
  return sizeof(float) * (kTileWords<kFeatures> + size_t(held) * kAttentionWarps * kOwnWords<kFeatures>);
}
static_assert(shared_bytes<8>(2) <= 48 << 10 && shared_bytes<4>(2) <= 48 << 10);

// Calls action(Width<features of a lane>{}).
template <class Action>
void dispatch_head_dim(int64_t head_dim, Action action) {
  if (head_dim <= 64)
    action(Width<2>{});
  else if (head_dim <= 128)
    action(Width<4>{});
  else if (head_dim <= kOwnAttentionHeadDim)
    action(Width<8>{});
  else
    throw std::runtime_error("attention's own kernels have heads of at most 256");
}

template <int kFeatures>
LaunchShape shape_of(const AttentionShape& s, int64_t heads, int held) {
  constexpr int64_t kMostSequences = 65535;  // a grid's height
  if (s.sequences > kMostSequences)
    throw std::runtime_error("attention's own kernels take 65,535 sequences at once");
  return {static_cast<unsigned>(ceil_div(s.longest, kBlockRows<kFeatures>) * heads), kAttentionWarps * kWarp,
          shared_bytes<kFeatures>(held), static_cast<unsigned>(s.sequences)};
}

}  // namespace

void attention_forward_own(const AttentionForward& args, CudaStream stream) {
  const AttentionShape& s = args.shape;
  if (s.sequences == 0 || s.longest == 0) return;
  dispatch_element(s.type, [&]<class T>(Type<T>) {
    const AttentionForwardArgs<T> a{s.cu_seqlens,
                                    {as<T>(args.q), args.q_stride},
                                    {as<T>(args.k), args.k_stride},
                                    {as<T>(args.v), args.v_stride},
                                    {as<T>(args.out), args.out_stride},
                                    args.lse,
                                    as<T>(s.sinks),
                                    numbers_of(s)};
    dispatch_head_dim(s.head_dim, [&]<int F>(Width<F>) {
      launch("attention", attention_forward_kernel<T, F>, shape_of<F>(s, s.heads, 1), stream, a);
    });
  });
}

void attention_backward_own(const AttentionBackward& args, CudaStream stream) {
  const AttentionShape& s = args.shape;
  if (s.sequences == 0 || s.longest == 0) return;
  dispatch_element(s.type, [&]<class T>(Type<T>) {
    const AttentionBackwardArgs<T> a{s.cu_seqlens,
                                     {as<T>(args.q), args.q_stride},
                                     {as<T>(args.k), args.k_stride},
                                     {as<T>(args.v), args.v_stride},
                                     {as<T>(args.out), args.out_stride},
                                     {as<T>(args.d_out), args.d_out_stride},
                                     args.lse,
                                     as<float>(args.workspace),
                                     {as<T>(args.d_q), args.d_q_stride},
                                     {as<T>(args.d_k), args.d_k_stride},
                                     {as<T>(args.d_v), args.d_v_stride},
                                     numbers_of(s)};
    dispatch_head_dim(s.head_dim, [&]<int F>(Width<F>) {
      launch("attention_d_q", attention_d_q_kernel<T, F>, shape_of<F>(s, s.heads, 2), stream, a);
      launch("attention_d_kv", attention_d_kv_kernel<T, F>, shape_of<F>(s, s.kv_heads, 2), stream, a);
    });
    if (s.sinks == nullptr || args.d_sinks == nullptr) return;
    const AttentionSinksArgs<T> sinks{as<T>(s.sinks), args.lse, a.delta, args.d_sinks, s.tokens};
    launch("attention_d_sinks", attention_d_sinks_kernel<T>, LaunchShape{static_cast<unsigned>(s.heads), kSinkThreads}, stream, sinks);
  });
}

}  // namespace forge
