#pragma once
// The one device of a run, chosen from the machine or from the database of cards.
#include "core/config/job.h"
#include "core/plan/machine/hardware.h"

namespace forge {

struct Device {
  bool cuda = false;
  int64_t index = 0;  // of the GPU
  CpuInfo cpu;
  GpuInfo gpu;  // empty on a CPU
  const std::string& name() const { return cuda ? gpu.name : cpu.name; }
  int64_t memory_bytes() const { return cuda ? gpu.memory_bytes : cpu.memory_bytes; }
  int64_t free_bytes() const { return cuda ? gpu.free_bytes : cpu.available_bytes; }
};

// hardware.device of the job: auto takes the GPU with the most free memory, else the CPU. Throws
// Error(environment) when the device asked for is not there.
Device choose_device(const Hardware& hardware, const HardwareConfig& config);
// `forge plan --gpu NAME`: a card of the database in this machine, or Error(usage). "cpu", "auto" and an
// index choose from the machine.
Device device_by_name(const Hardware& hardware, const std::string& name);

}  // namespace forge
