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

template <class Args>
const float* numbers_of(const Args& a) {
  return reinterpret_cast<const float*>(a.numbers);
}

RangesOnDevice ranges_of(const UpdateRanges& ranges) {
  return {ranges.end, ranges.rate_factor, ranges.weight_decay};
}

LaunchShape shape_of(int64_t vectors) {
  return {static_cast<unsigned>(std::clamp<int64_t>(ceil_div(vectors, 256), 1, kNormBlocks)), 256};
}

template <class Rule>
void update(const char* name, const UpdateArgs& a, std::initializer_list<const void*> pointers, Element type,
            void* copy, CudaStream stream) {
  dispatch_element(type, [&]<class C>(Type<C>) {
    UpdateWithCopy<C> args{a, as<C>(copy)};
    dispatch_width<float>(sixteen_byte<float>(pointers, {a.count}), [&]<int N>(Width<N>) {
      launch(name, update_kernel<Rule, C, N>, shape_of(ceil_div(a.count, N)), stream, args);
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
  if (args.count == 0) return;
  UpdateArgs a{args.grad,    args.weight,   args.mean,  args.square, ranges_of(args.ranges),
               args.verdict, numbers_of(args), args.count, rates_of(args)};
  update<AdamWRule>("adamw", a, {args.grad, args.weight, args.mean, args.square, args.copy}, args.copy_type,
                    args.copy, stream);
}

void lion_cuda(const LionUpdate& args, CudaStream stream) {
  if (args.count == 0) return;
  UpdateArgs a{args.grad,    args.weight,   args.mean,  nullptr, ranges_of(args.ranges),
               args.verdict, numbers_of(args), args.count, rates_of(args)};
  update<LionRule>("lion", a, {args.grad, args.weight, args.mean, args.copy}, args.copy_type, args.copy,
                   stream);
}

void adamw_8bit_cuda(const AdamW8bitUpdate& args, CudaStream stream) {
  static_assert(kStateBlock == kStatesPerWarp);
  if (args.count == 0) return;
  dispatch_element(args.copy_type, [&]<class C>(Type<C>) {
    Update8bitArgs<C> a{{args.grad, args.weight, nullptr, nullptr, ranges_of(args.ranges), args.verdict,
                         numbers_of(args), args.count, rates_of(args)},
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
