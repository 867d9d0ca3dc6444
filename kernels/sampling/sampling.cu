#include "kernels/sampling/sampling.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/sampling/sampling_args.h"

namespace forge {

void sampling_cuda(const Sampling& args, CudaStream stream) {
  if (args.rows == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const bool greedy = args.temperature <= 0;
    SamplingArgs<T> a{as<T>(args.logits),
                      args.streams,
                      args.indices,
                      args.tokens,
                      args.logp,
                      args.vocab,
                      args.stride,
                      args.top_k,
                      greedy ? 1.0f : 1 / args.temperature,
                      args.top_p,
                      args.min_p,
                      args.seed,
                      greedy};
    LaunchShape shape{static_cast<unsigned>(args.rows), threads_for(args.vocab, kSamplingThreads)};
    launch("sampling", sampling_kernel<T>, shape, stream, a);
  });
}

}  // namespace forge
