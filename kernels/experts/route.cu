#include "kernels/experts/route.cuh"

#include <stdexcept>

#include "kernels/device/dispatch.cuh"
#include "kernels/experts/experts_args.h"

namespace forge {
namespace {

LaunchShape with_shared(int64_t blocks, int threads, int64_t words) {
  constexpr int64_t kMostShared = 48 << 10;
  if (4 * words > kMostShared)
    throw std::runtime_error("a router's kernels have no shared memory for so many experts");
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(threads), static_cast<size_t>(4 * words)};
}

}  // namespace

void expert_route_cuda(const ExpertRoute& args, CudaStream stream) {
  const RouteRule& rule = args.rule;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const LogitsOf<T> logits{as<T>(args.logits), args.logits_stride};
    const ChooseArgs<T> a{logits, as<T>(args.correction), args.weights, args.places, rule, args.experts};
    if (args.tokens > 0)
      launch("expert_choose", expert_choose_kernel<T>,
             with_shared(args.tokens, kWarp, 2 * args.experts + 2 * rule.groups + rule.per_token), stream, a);
    if (args.probability != nullptr)
      launch("expert_probability", expert_probability_kernel<T>,
             with_shared(1, kProbabilityWarps * kWarp, kProbabilityWarps * args.experts), stream, logits,
             args.probability, args.tokens, args.experts);
  });
  launch("expert_sort", expert_sort_kernel, with_shared(1, kSortThreads, args.experts), stream, args.places,
         args.ends, args.tokens * rule.per_token, args.experts);
}

void expert_route_backward_cuda(const ExpertRouteBackward& args, CudaStream stream) {
  if (args.tokens == 0) return;
  dispatch_element(args.type, [&]<class T>(Type<T>) {
    const RouteBackwardArgs<T> a{{as<T>(args.logits), args.logits_stride},
                                 args.d_weights,
                                 args.slope,
                                 args.places,
                                 args.ends,
                                 as<T>(args.d_logits),
                                 args.d_logits_stride,
                                 args.rule,
                                 args.experts};
    launch("expert_route_backward", expert_route_backward_kernel<T>,
           with_shared(args.tokens, kWarp, 3 * args.experts + 3 * args.rule.per_token), stream, a);
  });
}

}  // namespace forge
