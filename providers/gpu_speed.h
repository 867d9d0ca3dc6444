#pragma once
// Tokens a second on a card that nobody has measured: each op of the list takes the longer of its arithmetic and its traffic, at a
// share of what the vendor states for the card, and a moment to be launched. The shares of a good and of a poor run bound it.
// Checked against what others published for their programs: docs/estimates.md.
#include "core/plan/machine/gpu_database.h"
#include "core/plan/memory/offload.h"
#include "providers/fused/gpu_launches.h"

namespace forge {

struct SpeedRange {
  double low = 0, high = 0;  // tokens a second
};

// `step`: training_step's list; `mean_length`: tokens of the sequences, weighted by length; `precision_bytes` stand in `sizes`; `beside`: of copies that run
// beside a forward, and beside a backward.
SpeedRange gpu_speed(const Graph& step, const StepSizes& sizes, double mean_length, const GpuCard& card,
                     const GpuStep& held = {}, const PcieSeconds& beside = {});

struct Provider;
// "Speed: …, an estimate" and, if its texts have unequal lengths, "Graphs: …", lines for a plan of a GPU whose list is known; else "".
std::string speed_line(const Plan& plan, const Provider& provider);

}  // namespace forge
