#include "core/plan/machine/card_fault.h"


#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/plan/machine/profile.h"

namespace forge {
namespace {

// The oldest driver that runs the engine cuda13, by the release notes of its CUDA; CUDA's newer
// minor versions run on it too.
constexpr int64_t kCudaVersion = 13000;  // 13.0
constexpr const char* kDriver = "580";

std::string cuda_text(int64_t cuda) { return capability_text(cuda / 1000 * 10 + cuda % 1000 / 10); }

CardFault driver_fault(const GpuInfo& gpu) {
  if (gpu.cuda_version == 0 || gpu.cuda_version >= kCudaVersion) return {};
  return {"the NVIDIA driver" + (gpu.driver.empty() ? "" : " " + gpu.driver) + " supports CUDA " +
              cuda_text(gpu.cuda_version) + ", and forge's engine needs CUDA " + cuda_text(kCudaVersion),
          fmt::format("install NVIDIA driver {} or newer", kDriver)};
}

// Returns the engine of the card's profile; none, with the reason, for a card older than all.
Choice<std::string> engine_of(const Device& card) {
  try {
    return pick_profile(card, {}).engine;
  } catch (const Error& error) {
    return {kNoEngine, error.what()};
  }
}

}  // namespace

std::string engine_for(const Device& card) {
  const std::string engine = engine_of(card).value;
  return engine == kNoEngine ? "" : engine;
}

CardFault card_fault(const Device& device) {
  const Choice<std::string> engine = engine_of(device);
  if (engine.value != kNoEngine) return driver_fault(device.gpu);
  return {engine.reason, "GPUs of Turing (GTX 16, RTX 20, T4) and newer have an engine"};
}

CardFault generation_fault(int64_t compute_capability, const std::string& targets) {
  std::vector<std::string> known;
  for (const std::string& target : split(targets, ';')) {
    const int64_t built = std::stoll(target);
    if (built / 10 == compute_capability / 10 && built % 10 <= compute_capability % 10) return {};
    known.push_back(capability_text(built));
  }
  return {"its compute capability is " + capability_text(compute_capability) +
              ", and the CUDA engine was built for " + join(known, ", "),
          fmt::format("scripts/build.sh -DFORGE_CUDA_TARGETS={} builds it for this GPU",
                      compute_capability)};
}

}  // namespace forge
