#include "core/plan/stages/setup.h"

namespace forge {

void derived(Origins& origins, const std::string& key, const std::string& reason) {
  origins[key] = {OriginKind::derived, "derived", reason};
}

}  // namespace forge
