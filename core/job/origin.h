#pragma once
// The origin of a value of the job.
//
//   origin.kind == OriginKind::given;   origin.at.text();   // "job.yaml:3:9"
//   origin.kind == OriginKind::derived; origin.reason;      // "adapter.type is qlora (job.yaml:4:17)"
#include <string>

#include "core/lib/base/position.h"

namespace forge {

enum class OriginKind {
  unset,    // nobody said anything: the default
  given,    // a file of the job or a --set
  profile,  // the hardware profile
  derived,  // from other values, the model, the data or the machine
};

struct Origin {
  OriginKind kind = OriginKind::unset;
  Position at;         // place of a given value
  std::string reason;  // the reason, for the others; a default may have none
};

}  // namespace forge
