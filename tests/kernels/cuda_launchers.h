#pragma once
// Adds every launcher that has cases to a backend, on one stream; wrap(action) runs one call. A new
// launcher is one more line here. `most_products` limits the products of attention's cases, since
// each takes an emulated GPU a microsecond.
#include "kernels/activation/activation_args.h"
#include "kernels/attention/attention_own.h"
#include "kernels/attention/group_sums.h"
#include "kernels/device/gemm.h"
#include "kernels/dora/dora_args.h"
#include "kernels/dropout/dropout_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/experts/experts_args.h"
#include "kernels/fp8/fp8_args.h"
#include "kernels/latent/latent_args.h"
#include "kernels/layer_norm/layer_norm_args.h"
#include "kernels/lm_head/lm_head_cuda.h"
#include "kernels/lm_head/logits_args.h"
#include "kernels/lora/folded_cuda.h"
#include "kernels/lora/gated_cuda.h"
#include "kernels/lora/lora_cuda.h"
#include "kernels/optimizer/optimizer_args.h"
#include "kernels/quantize/quantize_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/rows/rows_args.h"
#include "kernels/sampling/sampling_args.h"
#include "kernels/short_conv/short_conv_args.h"
#include "kernels/swiglu/swiglu_args.h"
#include "tests/kernels/backend.h"

namespace forge::kernel_test {

template <class Wrap>
void add_cuda_launchers(Backend& backend, CudaStream stream, Wrap wrap, int64_t most_products = INT64_MAX) {
  auto add = [&]<class Args>(void (*launcher)(const Args&, CudaStream),
                             std::function<int64_t(const Args&)> workspace = {}, bool rounds_between = false,
                             Restrictions<Args> restrictions = {}) {
    backend.add<Args>([=](const Args& args) { wrap([&] { launcher(args, stream); }); }, workspace,
                      rounds_between, restrictions);
  };
  const auto small = [=](const auto& args) -> std::string {
    const AttentionShape& s = args.shape;
    const int64_t padded = (s.head_dim + 63) / 64 * 64;
    return s.tokens * s.longest * s.heads * padded > most_products
               ? "more products than an emulated GPU does in a moment"
               : "";
  };
  add(rms_norm_forward_cuda);
  add(rms_norm_backward_cuda, std::function(rms_norm_backward_cuda_workspace));
  add(activation_forward_cuda);
  add(activation_backward_cuda);
  add(layer_norm_forward_cuda);
  add(layer_norm_backward_cuda, std::function(layer_norm_backward_cuda_workspace));
  add(attention_forward_own, {}, false, Restrictions<AttentionForward>{small});
  add(attention_backward_own, std::function(attention_backward_own_workspace), false,
      Restrictions<AttentionBackward>{small});
  add(group_sums_cuda);
  add(clear_sums_cuda);
  add(rope_cuda);
  add(swiglu_forward_cuda);
  add(swiglu_backward_cuda);
  add(clamped_glu_forward_cuda);
  add(clamped_glu_backward_cuda);
  add(device_gemm, std::function(device_gemm_workspace), false,
      Restrictions<Gemm>{[](const Gemm& a) { return a.tail_count > 0 ? "tails are for a CPU's tiles" : ""; }});
  add(quantize_rows_cuda);
  add(transpose_bytes_cuda);
  add(scaled_product_cuda, std::function(scaled_product_gpu_workspace), false, Restrictions<ScaledProduct>{scaled_product_cuda_refusal});
  add(expert_route_cuda);
  add(expert_route_backward_cuda);
  add(expert_rows_cuda);
  add(expert_combine_cuda);
  add(expert_combine_backward_cuda);
  add(gate_rows_cuda);
  add(gate_rows_backward_cuda);
  add(latent_heads_cuda);
  add(trim_heads_cuda);
  add(gradient_norm_cuda, std::function(gradient_norm_cuda_workspace));
  add(adamw_cuda);
  add(lion_cuda);
  add(adamw_8bit_cuda);
  add(lm_head_cuda, std::function(lm_head_cuda_workspace), /*rounds_between=*/true);
  add(logits_cuda);
  add(quantize_blocks_cuda);
  add(dequantize_blocks_cuda, {}, false, Restrictions<DequantizeBlocks>{dequantize_blocks_cuda_refusal});
  add(counter_dropout_cuda);
  add(dora_forward_cuda);
  add(dora_backward_cuda);
  add(dora_ratio_cuda);
  add(copy_rows_cuda);
  add(add_rows_cuda);
  add(scale_rows_cuda);
  add(regroup_heads_cuda);
  add(sum_columns_cuda);
  add(convert_elements_cuda);
  add(lora_forward_cuda, std::function(lora_forward_cuda_workspace), /*rounds_between=*/true);
  add(lora_backward_cuda, std::function(lora_backward_cuda_workspace), /*rounds_between=*/true);
  add(adapter_sums_cuda, std::function(adapter_sums_cuda_workspace));
  add(adapter_sums_gradient_cuda, std::function(adapter_sums_gradient_cuda_workspace));
  add(gated_sums_cuda, std::function(gated_sums_cuda_workspace), /*rounds_between=*/true);
  add(gated_gradients_cuda, std::function(gated_gradients_cuda_workspace), /*rounds_between=*/true);
  add(embedding_forward_cuda);
  add(embedding_backward_cuda);
  add(sampling_cuda);
  add(short_conv_forward_cuda, {}, false, Restrictions<ShortConvForward>{short_conv_forward_cuda_refusal});
  add(short_conv_backward_cuda, std::function(short_conv_backward_cuda_workspace), false,
      Restrictions<ShortConvBackward>{short_conv_backward_cuda_refusal});
}

}  // namespace forge::kernel_test
