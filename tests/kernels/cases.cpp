#include "tests/kernels/cases.h"

#include <cstdlib>

namespace forge::kernel_test {
namespace {

struct OpCases {
  std::string op;  // the op's name in the cases
  void (*add)(std::vector<Case>&);
};

const OpCases kOps[] = {{"activation", add_activation_cases}, {"layer_norm", add_layer_norm_cases},
                        {"attention", add_attention_cases}, {"cached attention", add_cached_attention_cases},
                        {"group sums", add_group_sums_cases},
                        {"delta_rule", add_delta_rule_cases}, {"short_conv", add_short_conv_cases},
                        {"dora", add_dora_cases},           {"dropout", add_dropout_cases},
                        {"embedding", add_embedding_cases}, {"lm_head", add_lm_head_cases},
                        {"logits", add_logits_cases},       {"lora", add_lora_cases},
                        {"optimizer", add_optimizer_cases}, {"experts", add_experts_cases},
                        {"fp8", add_fp8_cases},
                        {"latent", add_latent_cases},
                        {"gemm tiles", add_gemm_tiles_cases},
                        {"product", add_product_cases},     {"quantize", add_quantize_cases},
                        {"rms_norm", add_rms_norm_cases},   {"rope", add_rope_cases},
                        {"rows", add_rows_cases},           {"sampling", add_sampling_cases},
                        {"folded", add_folded_cases},       {"gated", add_gated_cases},
                        {"swiglu", add_swiglu_cases}};

}  // namespace

std::vector<Case> cases_of(const std::string& ops) {
  std::vector<Case> cases;
  for (const OpCases& row : kOps)
    if (ops.empty() || ("," + ops + ",").find("," + row.op + ",") != std::string::npos) row.add(cases);
  return cases;
}

std::vector<Case> all_cases() {
  static const std::vector<Case> made = cases_of("");  // their numbers are shared, not copied
  std::vector<Case> cases = made;
  // For a sanitizer or a debugger: only cases with this text in "<op> <name>".
  if (const char* wanted = std::getenv("FORGE_KERNEL_CASES"))
    std::erase_if(cases,
                  [&](const Case& c) { return (c.op + " " + c.name).find(wanted) == std::string::npos; });
  return cases;
}

}  // namespace forge::kernel_test
