#include "core/plan/stages/fp8.h"

#include <algorithm>

#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/model/families/parameters.h"

namespace forge {
namespace {

constexpr const char* kKey = "model.quantization";
// Both sizes of a weight are multiples of this. A GPU's products need multiples of 16; a CPU's
// decoder reads 32 numbers at a time.
constexpr int64_t kMultiple = 32;
constexpr int64_t kHopper = 90, kConsumerBlackwell = 120;  // compute capability

}  // namespace

std::string fp8_device_fault(bool cuda, int64_t capability) {
  // LibTorch multiplies with a scale per row by cuBLAS on 9.0 and by CUTLASS on 8.9 and 10.x. 8.9
  // is left out because nothing says that it gains there, and 12.x because LibTorch's product was
  // seen to be refused (pytorch/pytorch#192707).
  if (!cuda || (capability >= kHopper && capability < kConsumerBlackwell)) return "";
  return "products in fp8 with a scale per row need Hopper or data-centre Blackwell (compute capability 9.0 to 11.x)";
}

void add_fp8_faults(const Job& job, const ModelSpec& model, const Device& device, std::vector<KeyFault>& faults) {
  if (job.model.quantization != Quantization::fp8) return;
  const std::string instead = "; use nf4, int8 or none";
  if (const std::string fault = fp8_device_fault(device.cuda, device.gpu.compute_capability); !fault.empty())
    faults.push_back({kKey, fault + ", and " + device.gpu.name + " has " + capability_text(device.gpu.compute_capability) + instead});
  const std::vector<Parameter> parameters = base_parameters(model);
  const bool biased = std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.role == Role::bias; });
  // cuBLAS, which Hopper uses, writes fp32 as well; with it only the order of sums differs from a
  // CPU.
  const Precision precision = job.train.precision.value_or(Precision::bf16);
  const bool written = precision == Precision::bf16 || (precision == Precision::fp32 && device.gpu.compute_capability == kHopper && !biased);
  if (device.cuda && !written)
    faults.push_back({"train.precision", "products in fp8 give bf16 on " + device.gpu.name + (biased ? " where layers have biases" : "") + ", not " +
                                             name_of(precision) + "; use bf16, or leave it out"});
  if (objective_of(job.objective.type()).scores)
    faults.push_back({kKey, "fp8 is checked by the base's loss on tokens, which objective " + name_of(job.objective.type()) + " does not have" + instead});
  if (model.num_experts > 0) faults.push_back({kKey, "fp8 is for dense models, and " + model.architecture + " is a mixture of experts" + instead});
  if (model.reads_source()) faults.push_back({kKey, "fp8 is for decoders, and " + model.architecture + " is an encoder-decoder" + instead});
  const auto odd = std::find_if(parameters.begin(), parameters.end(), [](const Parameter& p) {
    return p.quantizable && (p.shape[0] % kMultiple != 0 || p.shape[1] % kMultiple != 0);
  });
  if (odd != parameters.end())
    faults.push_back({kKey, "fp8 needs weights whose sides are multiples of " + std::to_string(kMultiple) + ", and " + odd->name + " has " +
                                std::to_string(odd->shape[0]) + " × " + std::to_string(odd->shape[1]) + instead});
}

}  // namespace forge
