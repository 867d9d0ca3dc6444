#include "core/run/environment.h"

#include <sys/utsname.h>

#include "core/lib/base/text.h"
#include "forge_build.h"

namespace forge {

Json environment_of(const Device& device, const std::string& torch_version) {
  utsname system{};
  ::uname(&system);
  const CpuInfo& cpu = device.cpu;
  Json facts{{"forge", kForgeVersion},
             {"compiler", kCompiler},
             {"torch", torch_version},
             {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
             {"processor", cpu.name},
             {"cores", cpu.cores},
             {"instruction_sets", join(cpu.isa, " ")},
             {"memory_bytes", cpu.memory_bytes}};
  if (!device.cuda) return facts;
  facts["gpu"] = device.gpu.name;
  facts["gpu_memory_bytes"] = device.gpu.memory_bytes;
  facts["driver"] = device.gpu.driver;
  return facts;
}

}  // namespace forge
