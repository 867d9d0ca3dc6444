#include "kernels/cpu/level.h"

#include <algorithm>

#include "core/base/instruction_set.h"

namespace forge {
namespace {

CpuLevel level_of(InstructionSet set) {
  return set >= InstructionSet::avx512 ? CpuLevel::avx512
         : set == InstructionSet::avx2 ? CpuLevel::avx2
                                       : CpuLevel::baseline;
}

CpuLevel detect() {
  const InstructionSet has = processor_instructions();
  const auto stated = stated_instructions();
  return level_of(stated ? std::min(has, stated->set) : has);
}

}  // namespace

const char* name_of(CpuLevel level) {
  return level == CpuLevel::avx512 ? "avx512" : level == CpuLevel::avx2 ? "avx2" : "baseline";
}

CpuLevel cpu_level() {
  static const CpuLevel level = detect();
  return level;
}

std::vector<CpuLevel> cpu_levels() {
  std::vector<CpuLevel> levels{CpuLevel::baseline};
  if (cpu_level() >= CpuLevel::avx2) levels.push_back(CpuLevel::avx2);
  if (cpu_level() >= CpuLevel::avx512) levels.push_back(CpuLevel::avx512);
  return levels;
}

}  // namespace forge
