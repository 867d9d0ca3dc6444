#pragma once
// Chooses the one device of a run, from the machine or from the database of cards.
#include <functional>
#include <string>

#include "core/job/job.h"
#include "core/graph/graph.h"
#include "core/plan/machine/hardware.h"

namespace forge {

struct Device {
  bool cuda = false;
  int64_t index = 0;  // of the GPU
  CpuInfo cpu;
  GpuInfo gpu;  // empty on a CPU
  const std::string& name() const { return cuda ? gpu.name : cpu.name; }
  int64_t free_bytes() const { return cuda ? gpu.free_bytes : cpu.available_bytes; }
};

// Returns the multiprocessors of the GPU, or those of a large one if an older forge's plan does not
// state them.
inline int64_t multiprocessors_of(const Device& device) {
  return device.gpu.multiprocessors > 0 ? device.gpu.multiprocessors : StepSizes().multiprocessors;
}

// The reason why a card cannot compute here, and its remedy. Without words: it can.
struct CardFault {
  std::string what, remedy;
  explicit operator bool() const { return !what.empty(); }
};
using JudgeCard = std::function<CardFault(const Device&)>;

struct DeviceChoice {
  Device device;
  std::string warning;  // why `auto` computes on the CPU beside a GPU; else empty
  std::string idle;     // "8 GPUs are here and forge uses one: …"; empty where `key` names the GPU
};

// Chooses hardware.device of the job: auto takes the GPU with the most free memory that `judge`
// finds no fault with, else the CPU. Throws KeyError(environment) if the device asked for is not
// there or has a fault. `key` is what the user sets: a key of the job or, as "--device", an option.
DeviceChoice choose_device(const Hardware& hardware, const HardwareConfig& config, const JudgeCard& judge = {},
                           const std::string& key = "hardware.device");
// Returns the device of `forge plan --gpu NAME`: a card of the database as if it were in this
// machine, or Error(usage). "cpu", "auto", "cuda" and an index choose from the machine.
Device device_by_name(const Hardware& hardware, const std::string& name);

}  // namespace forge
