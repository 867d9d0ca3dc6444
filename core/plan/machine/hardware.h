#pragma once
// Probes the machine without LibTorch: what the process may really use of it.
//
//   Hardware hardware = probe_hardware();
//   hardware.cpu.cores           // within affinity and the cgroup's quota
//   hardware.gpus                // through the driver's libraries; empty without a driver
#include <cstdint>
#include <string>
#include <vector>

#include "core/lib/base/instruction_set.h"
#include "core/lib/io/json.h"

namespace forge {

struct CpuInfo {
  std::string name;
  int64_t cores = 1;             // that this process may use, at least 1
  int64_t memory_bytes = 0;      // of the machine, or the cgroup's limit where that is lower
  int64_t available_bytes = 0;   // free for a new program within that
  std::vector<std::string> isa;  // the extensions that matter here: avx2, avx512_bf16, amx_bf16, …
  std::string stated;            // "FORGE_CPU=avx2" where isa is stated and not what the processor has; or empty
  bool has(const std::string& extension) const;
};

struct GpuInfo {
  std::string name;
  int64_t compute_capability = 0;  // 86 is 8.6
  int64_t multiprocessors = 0;     // 0: nobody has said
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;    // memory_bytes when NVML does not say
  std::string driver;        // "580.65.06"; empty without NVML
  int64_t cuda_version = 0;  // the newest CUDA of the driver: 13000 is 13.0
  std::string uuid, pci;
  bool probed = true;  // false: a card from the database that is not in this machine
};

// Returns "8.6" for 86.
inline std::string capability_text(int64_t capability) { return std::to_string(capability / 10) + "." + std::to_string(capability % 10); }

struct Hardware {
  CpuInfo cpu;
  std::vector<GpuInfo> gpus;
  std::string gpu_note;    // why there are none: "no libcuda.so.1"
  bool gpu_fault = false;  // there are none because a driver that is here does not work
};

// The folders of the kernel's files; tests use their own.
struct SystemRoot {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
  int64_t affinity = 0;  // usable processors; 0: ask sched_getaffinity
};

CpuInfo probe_cpu(const SystemRoot& root = {});
// True if products of bf16 pairs have more than fp32's rate, as kernels/cpu/level.h says of this
// processor.
bool fast_pairs(const CpuInfo& cpu);
// True if products in bf16 are forge's own tiles, as kernels/product/gemm_tiles.h says of this
// processor.
bool bf16_tiles(const CpuInfo& cpu);
// Sets the three members about GPUs. Obeys CUDA_VISIBLE_DEVICES, as the driver does.
void probe_gpus(Hardware& hardware);
// Probes the machine. The environment may state other instructions of the processor
// (core/lib/base/instruction_set.h).
Hardware probe_hardware();

InstructionSet instructions_of(const CpuInfo& cpu);
// Returns the processor with the extensions of that set: its own ones up to that set or, if
// FORGE_CPU says so, those that the set implies.
CpuInfo as_stated(CpuInfo cpu, const StatedInstructions& stated);

void to_json(Json& json, const CpuInfo& cpu);
void from_json(const Json& json, CpuInfo& cpu);
Json schema_of(const CpuInfo& cpu);
void to_json(Json& json, const GpuInfo& gpu);
void from_json(const Json& json, GpuInfo& gpu);
Json schema_of(const GpuInfo& gpu);

}  // namespace forge
