#include "kernels/optimizer/optimizer_cuda.h"

#include <algorithm>

#include "kernels/device/dispatch.cuh"
#include "kernels/optimizer/adamw_8bit.cuh"
#include "kernels/optimizer/optimizer.cuh"

namespace forge {
namespace {

UpdateArgs args_of(const FlatUpdate& u) {
  return {u.grad, u.master, u.m, u.v, u.ranges, u.scalars, u.norm, u.count, u.beta1, u.beta2, u.eps};
}

LaunchShape shape_of(int64_t vectors) {
  return {static_cast<unsigned>(std::min(kNormBlocks, ceil_div(vectors, 256))), 256};
}

// action(Width<4>{}) when every array can be read four at a time.
template <class Action>
void dispatch_four(std::initializer_list<const void*> pointers, int64_t count, Action action) {
  if (sixteen_byte<float>(pointers, {count}))
    action(Width<4>{});
  else
    action(Width<1>{});
}

template <class Rule>
void update(const char* name, const FlatUpdate& u, CudaStream stream) {
  if (u.count == 0) return;
  dispatch_element(u.cast_type, [&](auto type) {
    using C = typename decltype(type)::type;
    UpdateWithCast<C> args{args_of(u), static_cast<C*>(u.cast)};
    dispatch_four({u.grad, u.master, u.m, u.v, u.cast}, u.count, [&](auto width) {
      constexpr int N = decltype(width)::value;
      launch(name, update_kernel<Rule, C, N>, shape_of(ceil_div(u.count, N)), stream, args);
    });
  });
}

}  // namespace

void gradient_norm_cuda(const GradientNorm& args, CudaStream stream) {
  NormArgs a{args.grad, args.partial, args.finished, args.norm, args.count};
  dispatch_four({args.grad}, args.count, [&](auto width) {
    constexpr int N = decltype(width)::value;
    // Also for an empty buffer: its norm is zero.
    launch("gradient_norm", norm_kernel<N>, shape_of(std::max<int64_t>(1, ceil_div(args.count, N))), stream,
           a);
  });
}

void adamw_cuda(const FlatUpdate& args, CudaStream stream) { update<AdamW>("adamw", args, stream); }
void lion_cuda(const FlatUpdate& args, CudaStream stream) { update<Lion>("lion", args, stream); }

void adamw_8bit_cuda(const FlatUpdate8bit& args, CudaStream stream) {
  const FlatUpdate& u = args.update;
  if (u.count == 0) return;
  dispatch_element(u.cast_type, [&](auto type) {
    using C = typename decltype(type)::type;
    Update8bitArgs<C> a{args_of(u),    static_cast<C*>(u.cast), args.m_codes, args.v_codes,
                        args.m_absmax, args.v_absmax,           args.m_book,  args.v_book};
    LaunchShape shape{static_cast<unsigned>(ceil_div(u.count, 8 * kStateBlock)), 256};
    launch("adamw_8bit", adamw_8bit_kernel<C>, shape, stream, a);
  });
}

void unscale_cuda(float* grad, int64_t count, const LossScale& scale, CudaStream stream) {
  if (count == 0) return;
  dispatch_four({grad}, count, [&](auto width) {
    constexpr int N = decltype(width)::value;
    launch("unscale", unscale_kernel<N>, shape_of(ceil_div(count, N)), stream, grad, count,
           static_cast<const float*>(scale.scale), scale.found_inf);
  });
}

void update_loss_scale_cuda(const LossScale& scale, int32_t interval, CudaStream stream) {
  launch("loss_scale", loss_scale_kernel, {1, 1}, stream, scale.scale, scale.good_steps, scale.found_inf,
         interval);
}

}  // namespace forge
