#pragma once
// A table of common NVIDIA cards, so that a plan can be made for a card that is not in this
// machine.
//
//   const GpuCard& card = find_gpu("rtx 2080 ti");
//   card.compute_capability   // 75
#include <string>
#include <vector>

#include "core/plan/machine/hardware.h"

namespace forge {

struct GpuCard {
  const char* name;     // as sold, without "NVIDIA" and "GeForce"
  const char* aliases;  // other names, separated by '|'
  const char* architecture;
  int64_t compute_capability;  // 86 is 8.6
  int64_t multiprocessors;
  double memory_gib;
  double bandwidth_gbs;  // GB/s
  // Dense TFLOP/s with 32-bit accumulation, as the vendor states them; 0: the card has no such
  // units and forge does not use the type there.
  double bf16_tflops, fp16_tflops, fp32_tflops;
};

const std::vector<GpuCard>& gpu_cards();

// Returns the row of a name in any case, with or without "NVIDIA", "GeForce", "Tesla", blanks or
// hyphens, and a memory size for cards that share a name ("A100 40GB"). Throws Error(usage) with
// the nearest name.
const GpuCard& find_gpu(const std::string& name);
// Returns the row of a probed card's driver name, or nullptr.
const GpuCard* gpu_card_of(const GpuInfo& gpu);

// Returns a card as if it were in this machine, with all of its memory free.
GpuInfo gpu_info(const GpuCard& card);

}  // namespace forge
