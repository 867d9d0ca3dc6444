#include "kernels/optimizer/optimizer_args.h"

#include <algorithm>
#include <type_traits>

#include "kernels/device/dispatch.cuh"
#include "kernels/optimizer/adamw_8bit.cuh"
#include "kernels/optimizer/optimizer.cuh"

namespace forge {
namespace {

// Returns the settings of an update, without the step's numbers.
template <class Args>
UpdateRates rates_of(const Args& a) {
  auto narrow_to = [](double value) { return static_cast<float>(value); };
  UpdateRates r{};
  r.decay = narrow_to(a.weight_decay);
  r.beta1 = narrow_to(a.beta1), r.one_beta1 = narrow_to(1 - a.beta1);
  r.beta2 = narrow_to(a.beta2), r.one_beta2 = narrow_to(1 - a.beta2);
  if constexpr (!std::is_same_v<Args, LionUpdate>) r.eps = narrow_to(a.eps);
  return r;
}

// Returns what every update has, with its states if they are fp32.
template <class Args>
UpdateArgs on_device(const Args& a, float* mean, float* square) {
  const UpdateRanges& r = a.ranges;
  const auto* numbers = reinterpret_cast<const float*>(a.numbers);
  return {a.grad,    a.weight, mean,    square,     {r.end, r.rate_factor, r.weight_decay},
          a.verdict, numbers,  a.count, rates_of(a)};
}

LaunchShape shape_of(int64_t vectors) {
  return {static_cast<unsigned>(std::clamp<int64_t>(ceil_div(vectors, 256), 1, kNormBlocks)), 256};
}

// `square` is null where the rule has none.
template <class Rule, class Args>
void update(const char* name, const Args& args, float* square, CudaStream stream) {
  if (args.count == 0) return;
  dispatch_element(args.copy_type, [&]<class C>(Type<C>) {
    UpdateWithCopy<C> a{on_device(args, args.mean, square), as<C>(args.copy)};
    const bool wide =
        sixteen_byte<float>({args.grad, args.weight, args.mean, square, args.copy}, {args.count});
    dispatch_width<float>(wide, [&]<int N>(Width<N>) {
      launch(name, update_kernel<Rule, C, N>, shape_of(ceil_div(args.count, N)), stream, a);
    });
  });
}

}  // namespace

void gradient_norm_cuda(const FlatNorm& args, CudaStream stream) {
  double* partial = as<double>(args.workspace);
  auto* finished = reinterpret_cast<uint32_t*>(partial + kNormBlocks);
  clear_device(finished, sizeof *finished, stream);
  NormArgs a{args.grad, partial, finished, args.verdict, args.count, args.unscale, args.max_norm};
  dispatch_width<float>(sixteen_byte<float>({args.grad}, {args.count}), [&]<int N>(Width<N>) {
    // The launch is needed for an empty buffer too: its norm is zero.
    launch("gradient_norm", norm_kernel<N>, shape_of(ceil_div(args.count, N)), stream, a);
  });
}

void adamw_cuda(const AdamWUpdate& args, CudaStream stream) {
  update<AdamWRule>("adamw", args, args.square, stream);
}

void lion_cuda(const LionUpdate& args, CudaStream stream) { update<LionRule>("lion", args, nullptr, stream); }

void adamw_8bit_cuda(const AdamW8bitUpdate& args, CudaStream stream) {
  static_assert(kStateBlock == kStatesPerWarp);
  if (args.count == 0) return;
  dispatch_element(args.copy_type, [&]<class C>(Type<C>) {
    Update8bitArgs<C> a{on_device(args, nullptr, nullptr),
                        as<C>(args.copy),
                        args.mean,
                        args.square,
                        args.mean_absmax,
                        args.square_absmax,
                        args.signed_map,
                        args.unsigned_map};
    LaunchShape shape{static_cast<unsigned>(ceil_div(args.count, 8 * kStateBlock)), 256};
    launch("adamw_8bit", adamw_8bit_kernel<C>, shape, stream, a);
  });
}

}  // namespace forge
