#pragma once
// Tokens a second on a card that was never measured. Each op of the list takes the longer of its
// arithmetic and its traffic, at a share of the vendor's figures for the card, plus the time of its
// launches. The shares of a good and of a poor run bound the result. Checked against figures that
// others published for their programs: docs/estimates.md.
#include "core/plan/fit/offload.h"
#include "core/plan/machine/gpu_database.h"
#include "providers/fused/gpu_launches.h"

namespace forge {

struct SpeedRange {
  double low = 0, high = 0;  // tokens a second
};

// Estimates the range. `step` is training_step's list. `mean_length` is the mean length of the
// sequences in tokens, weighted by length. `precision_bytes` are in `sizes`. `beside` has the
// seconds of copies that run beside a forward, and beside a backward.
SpeedRange gpu_speed(const Graph& step, const StepSizes& sizes, double mean_length, const GpuCard& card,
                     const GpuStep& held = {}, const PcieSeconds& beside = {});

struct Plan;
struct Provider;
// Returns the lines "Speed: …, an estimate" and, if its texts have unequal lengths, "Graphs: …" for
// a plan of a GPU whose list is known; otherwise "".
std::string speed_line(const Plan& plan, const Provider& provider);

}  // namespace forge
