#include "cli/usable_device.h"

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/plan/machine/card_fault.h"
#include "core/plan/machine/profile.h"
#include "forge_build.h"

namespace forge {

static CardFault engine_fault(const std::string& engine, int64_t compute_capability) {
  const EngineSearch search = search_engine(engine_file(engine));
  if (!search.engine_fault.empty() && search.stated) throw Error(ErrorKind::environment, search.engine_fault).hint(search.engine_hint);
  if (!search.engine_fault.empty()) return {search.engine_fault, search.engine_hint};
  if (!search.torch_fault.empty()) return {search.torch_fault, search.torch_hint};
  if (!search.stated)
    if (CardFault fault = generation_fault(compute_capability, kCudaTargets)) return fault;
  const std::vector<std::string> missing = missing_libraries(search.location);
  if (missing.empty()) return {};
  return {"its engine " + engine_file(engine) + " lacks " + join(missing, ", "), library_remedy(missing)};
}

CardFault fault_here(const Device& device) {
  if (CardFault fault = card_fault(device)) return fault;
  return engine_fault(pick_profile(device, {}).engine.value, device.gpu.compute_capability);
}

EngineLocation engine_of(const Device& device, const std::string& engine) {
  if (engine == kNoEngine)
    throw Error(ErrorKind::environment, "no engine computes on " + device.name()).hint("hardware.device: cpu");
  if (device.cuda && !device.gpu.probed && !engine_stated())
    throw Error(ErrorKind::environment, "a " + device.name() + " is not in this machine")
        .hint("forge plan shows what would happen on it; hardware.device: auto takes what is here");
  return find_engine(engine_file(engine));
}

}  // namespace forge
