#include "tests/kernels/cases.h"

#include <cstdlib>

namespace forge::kernel_test {

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_attention_cases(cases);
  add_cached_attention_cases(cases);
  add_dora_cases(cases);
  add_dropout_cases(cases);
  add_embedding_cases(cases);
  add_lm_head_cases(cases);
  add_logits_cases(cases);
  add_lora_cases(cases);
  add_lora_linear_cases(cases);
  add_optimizer_cases(cases);
  add_product_cases(cases);
  add_quantize_cases(cases);
  add_rms_norm_cases(cases);
  add_rope_cases(cases);
  add_sampling_cases(cases);
  add_swiglu_cases(cases);
  // For a sanitizer or a debugger: the cases that have it in "<op> <name>".
  if (const char* wanted = std::getenv("FORGE_KERNEL_CASES"))
    std::erase_if(cases,
                  [&](const Case& c) { return (c.op + " " + c.name).find(wanted) == std::string::npos; });
  return cases;
}

}  // namespace forge::kernel_test
