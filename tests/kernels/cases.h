#pragma once
// One function per op, defined in tests/ops/<op>_cases.cpp.
#include "tests/kernels/case.h"

namespace forge::kernel_test {

void add_activation_cases(std::vector<Case>& cases);
void add_attention_cases(std::vector<Case>& cases);
void add_group_sums_cases(std::vector<Case>& cases);
void add_cached_attention_cases(std::vector<Case>& cases);
void add_delta_rule_cases(std::vector<Case>& cases);
void add_dora_cases(std::vector<Case>& cases);
void add_dropout_cases(std::vector<Case>& cases);
void add_embedding_cases(std::vector<Case>& cases);
void add_experts_cases(std::vector<Case>& cases);
void add_fp8_cases(std::vector<Case>& cases);
void add_latent_cases(std::vector<Case>& cases);
void add_folded_cases(std::vector<Case>& cases);
void add_gated_cases(std::vector<Case>& cases);
void add_layer_norm_cases(std::vector<Case>& cases);
void add_lm_head_cases(std::vector<Case>& cases);
void add_logits_cases(std::vector<Case>& cases);
void add_lora_cases(std::vector<Case>& cases);
void add_optimizer_cases(std::vector<Case>& cases);
void add_gemm_tiles_cases(std::vector<Case>& cases);
void add_product_cases(std::vector<Case>& cases);
void add_quantize_cases(std::vector<Case>& cases);
void add_rms_norm_cases(std::vector<Case>& cases);
void add_rope_cases(std::vector<Case>& cases);
void add_rows_cases(std::vector<Case>& cases);
void add_sampling_cases(std::vector<Case>& cases);
void add_short_conv_cases(std::vector<Case>& cases);
void add_swiglu_cases(std::vector<Case>& cases);

// Returns the cases of the ops in a list with commas; "": of all.
std::vector<Case> cases_of(const std::string& ops);

}  // namespace forge::kernel_test
