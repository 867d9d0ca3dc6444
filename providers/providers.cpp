#include "providers/providers.h"

#include "providers/fused/fused_plan.h"
#include "providers/reference/reference_plan.h"

namespace forge {

const std::vector<Provider>& providers() {
  static const std::vector<Provider> table{
      {"fused", "our own kernels, forward and backward written by hand: Llama's layers on a CPU",
       fused_faults, fused_activation_lines, true},
      {"reference", "plain ATen with autograd inside each layer: every model, every device", reference_faults,
       reference_activation_lines},
  };
  return table;
}

}  // namespace forge
