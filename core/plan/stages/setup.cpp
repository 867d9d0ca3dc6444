#include "core/plan/stages/setup.h"

namespace forge {

ValueOrigin derived(const std::string& reason) { return {OriginKind::derived, "derived", reason}; }
ValueOrigin by_default(const std::string& reason) { return {OriginKind::unset, "default", reason}; }

}  // namespace forge
