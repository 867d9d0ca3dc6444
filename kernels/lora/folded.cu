#include "kernels/lora/folded_cuda.h"
#include "kernels/lora/folded_launch.h"

namespace forge {
namespace {

template <class T, class Args>
ThinArgs<T> of_members(const Args& args, const ThinCut& cut) {
  ThinArgs<T> a = cut_on_device<T>(cut, args.tokens, args.workspace, args.counters);
  for (int64_t i = 0; i < args.members; ++i)
    a.ranks_until[i] = (i > 0 ? a.ranks_until[i - 1] : 0) + args.member[i].rank, a.scale[i] = args.member[i].scale;
  return a;
}

template <bool kBackward, class T>
void launch_thin(const char* name, const ThinCut& cut, bool wide, const ThinArgs<T>& a, CudaStream stream) {
  int64_t ranks = 0;
  for (const ThinPart& part : cut.parts) ranks = std::max(ranks, part.ranks);
  dispatch_width<T>(wide, [&](auto width) {
    dispatch_eights(ranks, [&](auto eights) {
      launch(name, thin_kernel<T, decltype(eights)::value, kBackward, decltype(width)::value, AsStored>, thin_shape(cut), stream, a);
    });
  });
}

}  // namespace

void adapter_sums_cuda(const AdapterSums& args, CudaStream stream) {
  const ThinCut cut = thin_cut(args);
  if (args.tokens == 0 || cut.parts.empty()) return;
  dispatch_narrow(args.type, [&]<class T>(Type<T>) {
    ThinArgs<T> a = of_members<T>(args, cut);
    a.wide = as<T>(args.x), a.wide_stride = args.x_stride;
    a.factor = as<T>(args.a), a.factor_stride = args.a_stride;
    a.to = as<T>(args.s), a.to_stride = args.s_stride;
    a.kept = as<T>(args.kept), a.kept_stride = args.kept_stride;
    launch_thin<false>("adapter_sums", cut, sixteen_byte<T>({args.x}, {args.x_stride}), a, stream);
  });
}

void adapter_sums_gradient_cuda(const AdapterSumsGradient& args, CudaStream stream) {
  const ThinCut cut = thin_cut(args);
  if (args.tokens == 0 || cut.parts.empty()) return;
  dispatch_narrow(args.type, [&]<class T>(Type<T>) {
    ThinArgs<T> a = of_members<T>(args, cut);
    a.wide = as<T>(args.d_y), a.wide_stride = args.d_y_stride;
    a.factor = as<T>(args.b), a.factor_stride = args.b_stride;
    a.sums = as<T>(args.s), a.sums_stride = args.s_stride;
    a.to = as<T>(args.d_s), a.to_stride = args.d_s_stride;
    bool wide = sixteen_byte<T>({args.d_y}, {args.d_y_stride});
    for (size_t i = 0; i < cut.parts.size(); ++i) {
      const FoldedMember& member = args.member[cut.parts[i].member];
      a.part[i].d_b = member.d_b + cut.parts[i].d_b_at, a.part[i].d_b_stride = member.rank;
      wide &= cut.parts[i].columns_from % kWidest<T> == 0;
    }
    launch_thin<true>("adapter_sums_gradient", cut, wide, a, stream);
  });
}

}  // namespace forge
