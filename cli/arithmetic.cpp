#include "cli/arithmetic.h"

#include <cstdlib>

#include "cli/engine_location.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr std::string_view kPrefix = "arithmetic.";

// Variables that LibTorch, MKL, oneDNN, cuBLAS and glibc read. Thread counts are left out: the plan
// states them.
constexpr const char* kVariables[] = {"ATEN_CPU_CAPABILITY",
                                      "FORGE_CPU",
                                      "MKL_CBWR",
                                      "MKL_DEBUG_CPU_TYPE",
                                      "MKL_ENABLE_INSTRUCTIONS",
                                      "MKL_THREADING_LAYER",
                                      "ONEDNN_MAX_CPU_ISA",
                                      "ONEDNN_CPU_ISA_HINTS",
                                      "ONEDNN_DEFAULT_FPMATH_MODE",
                                      "DNNL_MAX_CPU_ISA",
                                      "DNNL_CPU_ISA_HINTS",
                                      "DNNL_DEFAULT_FPMATH_MODE",
                                      "GLIBC_TUNABLES",
                                      "CUBLAS_WORKSPACE_CONFIG",
                                      "NVIDIA_TF32_OVERRIDE",
                                      "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"};

}  // namespace

std::map<std::string, std::string> arithmetic_of(const Plan& plan) {
  std::map<std::string, std::string> arithmetic;
  const auto record = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) arithmetic[std::string(kPrefix) + name] = value;
  };
  record("processor", plan.device.cpu.name);
  record("instruction_sets", join(plan.device.cpu.isa, " "));
  record("engine", plan.engine);
  record("libtorch", search_engine(engine_file(plan.engine)).location.torch_version);
  for (const char* variable : kVariables)
    if (const char* value = std::getenv(variable)) record(variable, value);
  return arithmetic;
}

std::string arithmetic_name(const std::string& execution_key) {
  return starts_with(execution_key, kPrefix) ? execution_key.substr(kPrefix.size()) : "";
}

}  // namespace forge
