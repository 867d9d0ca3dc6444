#pragma once
// The bytes that a run writes to the disk of its run folder.
#include "core/plan/fit/fitted.h"

namespace forge {

struct Plan;

struct DiskUse {
  int64_t checkpoint_bytes = 0;  // one checkpoint
  int64_t disk_bytes = 0;        // all that the run keeps at its fullest moment
};
DiskUse disk_of(const Fitted& plan);

// Throws Error(environment) if `free_bytes` on the disk of the run folder are fewer than the plan
// will write.
void require_disk(const Plan& plan, int64_t free_bytes);

}  // namespace forge
