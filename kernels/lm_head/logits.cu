#include "kernels/lm_head/logits.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/lm_head/logits_args.h"

namespace forge {

void logits_cuda(const LogitsChunk& args, CudaStream stream) {
  if (args.positions == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    LogitsArgs<T> a{as<T>(args.logits), args.targets,         args.logp,
                    args.logsumexp,     args.mean_logit,      args.entropy,
                    args.loss,          args.loss_weight,     args.g_logp,
                    args.g_logsumexp,   args.g_mean_logit,    args.g_entropy,
                    args.vocab,         args.stride,          1 / args.temperature,
                    args.softcap,       args.label_smoothing, args.z_loss,
                    args.gradient};
    dispatch_width<T>(sixteen_byte<T>({args.logits}, {args.vocab, args.stride}), [&]<int N>(Width<N>) {
      // A vocabulary of 128k is 16 vectors a thread at 1,024 threads: enough to keep the memory
      // busy, two blocks a multiprocessor.
      LaunchShape shape{static_cast<unsigned>(args.positions), threads_for(ceil_div(args.vocab, N), 1024)};
      launch("logits", logits_kernel<T, N>, shape, stream, a);
    });
  });
}

}  // namespace forge
