#include "core/plan/fit/fitted.h"

namespace forge {

int64_t Fitted::memory_limit() const { return available_bytes + (device.cuda ? allocator_slack(available_bytes) : 0); }

int64_t allocator_slack(int64_t bytes) { return std::max(int64_t{96} << 20, bytes / 100); }

int64_t evaluation_tokens(const Setup& plan) { return evaluation_tokens({.tokens = *plan.job.train.micro_batch_tokens}); }

}  // namespace forge
