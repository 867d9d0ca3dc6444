#pragma once
// The choices of a job's plan for its lists: Compute::step. The search for memory adds what is
// computed again and which norms are kept.
#include "core/lib/base/instruction_set.h"
#include "core/plan/stages/compute.h"

namespace forge {

// True if fused trains the head without logits on such a processor. If the processor multiplies
// bf16 itself, products that make logits are faster (kernels/README.md). In fp32 logits stay, whose
// sums are added up as LibTorch's (kernels/lm_head/logits_cpu.cpp): the head without logits is no
// faster there.
bool head_without_logits(Precision precision, InstructionSet instructions);
// True if branches are added to the stream by their last product: whatever a GPU's fused provider
// computes.
bool folds_residuals(const Compute& plan);

// Returns the choices with nothing computed again. Needs precision, storage and provider.
StepChoice chosen_step(const Compute& plan);
// Returns the choices with those that follow from the job alone, which a plan's file omits.
StepChoice with_job(const Compute& plan, StepChoice step);

}  // namespace forge
