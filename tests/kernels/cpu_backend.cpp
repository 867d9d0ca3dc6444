// The CPU versions as backends, one for each level of instructions that this machine has.
#include "kernels/activation/activation_args.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/cached_attention_args.h"
#include "kernels/delta_rule/delta_rule_args.h"
#include "kernels/dora/dora_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/experts/experts_args.h"
#include "kernels/fp8/fp8_args.h"
#include "kernels/latent/latent_args.h"
#include "kernels/layer_norm/layer_norm_args.h"
#include "kernels/lm_head/lm_head_args.h"
#include "kernels/lm_head/logits_args.h"
#include "kernels/lora/lora_args.h"
#include "kernels/optimizer/optimizer_args.h"
#include "kernels/product/gemm_tiles.h"
#include "kernels/product/product_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/rows/rows_args.h"
#include "kernels/sampling/sampling_args.h"
#include "kernels/short_conv/short_conv_args.h"
#include "kernels/swiglu/swiglu_args.h"
#include "tests/kernels/backend.h"
#include "tests/kernels/substitutes.h"

namespace forge::kernel_test {
namespace {

const FourBitBook& book_of(bool nf4) { return nf4 ? nf4_book() : fp4_book(); }

void quantize_cpu(const QuantizeBlocks& a) {
  std::vector<float> centred(a.values, a.values + a.count);
  for (float& value : centred) value -= a.subtract;
  if (a.four_bit)
    quantize_4bit(book_of(is_nf4(a)), centred.data(), a.count, a.block, a.codes, a.absmax);
  else
    quantize_8bit(centred.data(), a.count, a.block, a.codes, a.absmax);
}

Backend cpu_backend(CpuLevel level) {
  Backend cpu(std::string("cpu/") + name_of(level), fenced_memory());
  cpu.add<RowProduct>([=](const RowProduct& a) { row_product_cpu(a, level); }, row_product_cpu_workspace);
  // All other loops of this level run as those of the next.
  if (level == CpuLevel::avx512 && cpu_level() == CpuLevel::avx512_bf16) return cpu;
  cpu.add<Gemm>([=](const Gemm& a) { gemm_tiles_cpu(a, level); }, {}, false, {.refusal = [](const Gemm& a) { return a.c ? "tiles add to their result" : ""; }});
  cpu.add<RmsNormForward>([=](const RmsNormForward& a) { rms_norm_forward_cpu(a, level); });
  cpu.add<RmsNormBackward>([=](const RmsNormBackward& a) { rms_norm_backward_cpu(a, level); });
  cpu.add<LayerNormForward>([=](const LayerNormForward& a) { layer_norm_forward_cpu(a, level); });
  cpu.add<LayerNormBackward>([=](const LayerNormBackward& a) { layer_norm_backward_cpu(a, level); });
  cpu.add<ActivationForward>([=](const ActivationForward& a) { activation_forward_cpu(a, level); });
  cpu.add<ActivationBackward>([=](const ActivationBackward& a) { activation_backward_cpu(a, level); });
  cpu.add<AttentionForward>([=](const AttentionForward& a) { attention_forward_cpu(a, level); },
                            attention_forward_cpu_workspace);
  cpu.add<AttentionBackward>([=](const AttentionBackward& a) { attention_backward_cpu(a, level); },
                             attention_backward_cpu_workspace);
  cpu.add<CacheStore>([=](const CacheStore& a) { cache_store_cpu(a, level); });
  cpu.add<CachedAttention>([=](const CachedAttention& a) { cached_attention_cpu(a, level); },
                           cached_attention_cpu_workspace);
  cpu.add<LmHead>([=](const LmHead& a) { lm_head_cpu(a, level); }, lm_head_cpu_workspace);
  cpu.add<LogitsChunk>([=](const LogitsChunk& a) { logits_cpu(a, level); });
  cpu.add<QuantizeRows>(quantize_rows_cpu);
  cpu.add<ScaledProduct>([=](const ScaledProduct& a) { scaled_product_cpu(a, level); }, scaled_product_cpu_workspace);
  cpu.add<TransposeBytes>(transpose_bytes_cpu);
  cpu.add<QuantizeBlocks>(quantize_cpu);
  cpu.add<DequantizeBlocks>([=](const DequantizeBlocks& a) { dequantize_blocks_cpu(a, level); }, {}, false, {.refusal = dequantize_blocks_cpu_refusal});
  cpu.add<FlatNorm>([=](const FlatNorm& a) { gradient_norm_cpu(a, level); }, gradient_norm_cpu_workspace);
  cpu.add<AdamWUpdate>([=](const AdamWUpdate& a) { adamw_cpu(a, level); });
  cpu.add<LionUpdate>([=](const LionUpdate& a) { lion_cpu(a, level); });
  cpu.add<AdamW8bitUpdate>([=](const AdamW8bitUpdate& a) { adamw_8bit_cpu(a, level); });
  cpu.add<DoraForward>([=](const DoraForward& a) { dora_forward_cpu(a, level); });
  cpu.add<DoraBackward>([=](const DoraBackward& a) { dora_backward_cpu(a, level); });
  cpu.add<DoraRatio>(dora_ratio_cpu, dora_ratio_cpu_workspace);
  cpu.add<ExpertRoute>(expert_route_cpu);
  cpu.add<ExpertRouteBackward>(expert_route_backward_cpu);
  cpu.add<ExpertRows>(expert_rows_cpu);
  cpu.add<ExpertCombine>(expert_combine_cpu);
  cpu.add<ExpertCombineBackward>(expert_combine_backward_cpu);
  cpu.add<GateRows>(gate_rows_cpu);
  cpu.add<LatentHeads>(latent_heads_cpu);
  cpu.add<TrimHeads>(trim_heads_cpu);
  cpu.add<SplitGroups>(split_groups_cpu);
  cpu.add<ShortConvForward>([=](const ShortConvForward& a) { short_conv_forward_cpu(a, level); });
  cpu.add<ShortConvBackward>([=](const ShortConvBackward& a) { short_conv_backward_cpu(a, level); });
  cpu.add<DeltaGatesForward>(delta_gates_forward_cpu);
  cpu.add<DeltaGatesBackward>(delta_gates_backward_cpu);
  cpu.add<DeltaRuleForward>([=](const DeltaRuleForward& a) { delta_rule_forward_cpu(a, level); }, delta_rule_forward_cpu_workspace);
  cpu.add<DeltaRuleBackward>([=](const DeltaRuleBackward& a) { delta_rule_backward_cpu(a, level); }, delta_rule_backward_cpu_workspace);
  cpu.add<GateRowsBackward>(gate_rows_backward_cpu);
  cpu.add<CopyRows>(copy_rows_cpu);
  cpu.add<AddRows>(add_rows_cpu);
  cpu.add<ScaleRows>(scale_rows_cpu);
  cpu.add<RegroupHeads>(regroup_heads_cpu);
  cpu.add<SumColumns>(sum_columns_cpu);
  cpu.add<ConvertElements>(convert_elements_cpu);
  cpu.add<EmbeddingForward>([=](const EmbeddingForward& a) { embedding_forward_cpu(a, level); });
  cpu.add<EmbeddingBackward>([=](const EmbeddingBackward& a) { embedding_backward_cpu(a, level); });
  cpu.add<LoraForward>([=](const LoraForward& a) { lora_forward_cpu(a, level); }, lora_forward_cpu_workspace);
  cpu.add<LoraBackward>([=](const LoraBackward& a) { lora_backward_cpu(a, level); },
                        lora_backward_cpu_workspace);
  cpu.add<Rope>([=](const Rope& a) { rope_cpu(a, level); });
  cpu.add<Sampling>([=](const Sampling& a) { sampling_cpu(a, level); }, sampling_cpu_workspace);
  cpu.add<SwigluForward>([=](const SwigluForward& a) { swiglu_forward_cpu(a, level); });
  cpu.add<SwigluBackward>([=](const SwigluBackward& a) { swiglu_backward_cpu(a, level); });
  cpu.add<ClampedGluForward>([=](const ClampedGluForward& a) { clamped_glu_forward_cpu(a, level); });
  cpu.add<ClampedGluBackward>([=](const ClampedGluBackward& a) { clamped_glu_backward_cpu(a, level); });
  return cpu;
}

}  // namespace

std::vector<Backend> cpu_backends() {
  std::vector<Backend> backends;
  for (CpuLevel level : cpu_levels()) backends.push_back(cpu_backend(level));
  return backends;
}

}  // namespace forge::kernel_test
