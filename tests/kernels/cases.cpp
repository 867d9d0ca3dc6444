#include "tests/kernels/cases.h"

namespace forge::kernel_test {

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_attention_cases(cases);
  add_embedding_cases(cases);
  add_lm_head_cases(cases);
  add_lora_cases(cases);
  add_optimizer_cases(cases);
  add_rms_norm_cases(cases);
  add_rope_cases(cases);
  add_swiglu_cases(cases);
  return cases;
}

}  // namespace forge::kernel_test
