#include "core/plan/machine/card_fault.h"

#include <fmt/format.h>

#include <string_view>

#include "core/lib/base/text.h"
#include "core/plan/machine/profile.h"

namespace forge {
namespace {

// The oldest driver that runs an engine, by the release notes of its CUDA; CUDA's newer minor
// versions run on it too.
struct DriverNeed {
  std::string_view engine;
  int64_t cuda_version;  // 13000 is 13.0
  const char* driver;
};
constexpr DriverNeed kNeeds[] = {{"cuda13", 13000, "580"}};

std::string cuda_text(int64_t cuda) { return capability_text(cuda / 1000 * 10 + cuda % 1000 / 10); }

CardFault driver_fault(const GpuInfo& gpu, std::string_view engine) {
  for (const DriverNeed& need : kNeeds)
    if (need.engine == engine && gpu.cuda_version > 0 && gpu.cuda_version < need.cuda_version)
      return {"the NVIDIA driver" + (gpu.driver.empty() ? "" : " " + gpu.driver) + " supports CUDA " +
                  cuda_text(gpu.cuda_version) + ", and forge's engine needs CUDA " +
                  cuda_text(need.cuda_version),
              fmt::format("install NVIDIA driver {} or newer", need.driver)};
  return {};
}

}  // namespace

std::string engine_for(const Device& card) {
  try {
    const std::string engine = pick_profile(card, {}).engine.value;
    return engine == kNoEngine ? "" : engine;
  } catch (const Error&) {  // older than the oldest profile
    return "";
  }
}

CardFault card_fault(const Device& device) {
  const char* const newer = "GPUs of Turing (GTX 16, RTX 20, T4) and newer have an engine";
  Choice<std::string> engine;
  try {
    engine = pick_profile(device, {}).engine;
  } catch (const Error& error) {  // older than the oldest profile
    return {error.what(), newer};
  }
  return engine.value == kNoEngine ? CardFault{engine.reason, newer}
                                   : driver_fault(device.gpu, engine.value);
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
