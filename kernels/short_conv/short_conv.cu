#include "kernels/short_conv/short_conv.cuh"

#include "kernels/device/dispatch.cuh"
#include "kernels/short_conv/short_conv_args.h"

namespace forge {
namespace {

static_assert(kConvTaps == kMostTaps);

constexpr int64_t kForwardTokens = 32;  // of a thread

template <class T, class Args>
ConvArgs<T> args_of(const Args& args) {
  const ShortConvShape& s = args.shape;
  return {as<T>(args.x), as<T>(args.weight), as<T>(args.bias), s.cu_seqlens, args.x_stride,
          static_cast<int>(s.sequences), static_cast<int>(s.tokens), static_cast<int>(s.channels), static_cast<int>(s.width), s.silu};
}

LaunchShape shape_of(const ShortConvShape& s, int64_t stretches) {
  return {static_cast<unsigned>(ceil_div(s.channels, kConvThreads)), kConvThreads, 0, static_cast<unsigned>(stretches)};
}

}  // namespace

void short_conv_forward_cuda(const ShortConvForward& args, CudaStream stream) {
  const ShortConvShape& s = args.shape;
  if (s.tokens == 0 || s.channels == 0) return;
  const int64_t stretches = ceil_div(s.tokens, kForwardTokens);
  dispatch_element(s.type, [&]<class T>(Type<T>) {
    launch("short_conv_forward", short_conv_forward_kernel<T>, shape_of(s, stretches < 65535 ? stretches : 65535), stream,
           args_of<T>(args), as<T>(args.y), args.y_stride);
  });
}

void short_conv_backward_cuda(const ShortConvBackward& args, CudaStream stream) {
  const ShortConvShape& s = args.shape;
  if (s.tokens == 0 || s.channels == 0) return;
  const int64_t stretches = column_stretches(s.tokens);
  const bool trains = args.d_weight != nullptr || args.d_bias != nullptr;
  auto* partial = trains ? as<float>(args.workspace) : nullptr;
  dispatch_element(s.type, [&]<class T>(Type<T>) {
    ConvBackwardArgs<T> of{as<T>(args.d_y), as<T>(args.d_x), partial, args.d_y_stride, args.d_x_stride};
    launch("short_conv_backward", short_conv_backward_kernel<T>, shape_of(s, stretches), stream, args_of<T>(args), of);
  });
  if (trains)
    launch("short_conv_totals", short_conv_totals_kernel, shape_of(s, s.width + 1), stream, partial, stretches, s.channels, s.width,
           args.d_weight, args.d_bias);
}

}  // namespace forge
