#include "providers/providers.h"

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "providers/fused/fused_plan.h"
#include "core/job/names.h"

namespace forge {
namespace {

// A GPU has no kernel for attention over a cache, nor has any device one for a source.
const char* fused_decoder_name(bool cuda, bool reads_source) { return cuda || reads_source ? "reference" : "fused"; }
const char* aten_decoder_name(bool, bool) { return "reference"; }

std::vector<std::string> aten_faults(const ActivationShape& shape) {
  if (shape.quantization == Quantization::fp8) return {"it has no products in fp8"};
  return {};
}

}  // namespace

const std::vector<Provider>& providers() {
  static const std::vector<Provider> table{
      {"fused", "our own kernels, forward and backward written by hand", fused_faults,
       fused_activation_lines, fused_decoder_name, fused_decoding_lines, fused_attention, fused_workspace, op_by_op_lines},
      {"reference", "plain ATen for every op: every model, every device", aten_faults,
       aten_activation_lines, aten_decoder_name, aten_decoding_lines, aten_attention, fused_workspace, op_by_op_lines, true},
  };
  return table;
}

const Provider& provider_named(const std::string& name) {
  for (const Provider& provider : providers())
    if (provider.name == name) return provider;
  FORGE_CHECK(false, "the plan names the provider " << name << ", which forge does not have");
}

const Provider& able_provider(const std::string& wanted, const ActivationShape& shape) {
  const Provider* first = nullptr;
  std::string passed_over;
  for (const Provider& provider : providers()) {
    if (const std::vector<std::string> faults = provider.faults(shape); !faults.empty()) {
      passed_over += (passed_over.empty() ? "" : "; ") + std::string(provider.name) + ": " + join(faults, ", ");
      continue;
    }
    if (provider.name == wanted) return provider;
    if (!first) first = &provider;
  }
  if (!first) throw Error(ErrorKind::environment, "no provider can compute this model on this device: " + passed_over);
  return *first;
}

}  // namespace forge
