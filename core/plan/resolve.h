#pragma once
// The steps of make_plan before memory is known. Each settles some open values of `plan.job` and
// writes the reason.
#include "core/data/batch/packing.h"
#include "core/plan/plan.h"

namespace forge {

// Sets the origin of a key whose value is the profile's.
void from_profile(Plan& plan, const std::string& key, const std::string& reason);

void resolve_device(Plan& plan, const PlanInput& input);
void resolve_precision(Plan& plan, const Profile& profile, const Rates* rates);
// Needs the precision. Throws KeyError(job) for residual fp32 with a precision other than fp16.
void resolve_residual(Plan& plan, const Profile& profile);
void resolve_threads(Plan& plan);
// Throws KeyError(job) for a name that none of the providers has, and for a provider that cannot do
// the job.
const Provider& resolve_provider(Plan& plan, const std::vector<Provider>& providers);
void resolve_limits(Plan& plan);
void resolve_global_batch(Plan& plan);
void resolve_optimizer(Plan& plan);
// Settles the steps per epoch and of the run, from the examples' lengths if they are known.
void resolve_steps(Plan& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch);
// Sets plan.packing. Needs the micro-batch.
void measure_packing(Plan& plan, const std::vector<int64_t>& lengths, const Parts& first_epoch);
void resolve_disk(Plan& plan);
// Throws Error(environment) if `free_bytes` on the disk of the run folder are fewer than the plan
// will write.
void require_disk(const Plan& plan, int64_t free_bytes);
// Fills identity and execution from the job as the user wrote it.
void fill_identity(Plan& plan, const Job& asked);

}  // namespace forge
