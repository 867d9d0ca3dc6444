#include "providers/providers.h"

#include "core/base/key_error.h"
#include "core/base/text.h"
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

const Provider& provider_named(const std::string& name) {
  std::vector<std::string> known;
  for (const Provider& provider : providers()) {
    if (provider.name == name) return provider;
    known.push_back(provider.name);
  }
  throw KeyError(ErrorKind::job, "provider",
                 "unknown provider \"" + name + "\"" + did_you_mean(name, known) + "; forge has auto, " +
                     join(known, ", "));
}

}  // namespace forge
