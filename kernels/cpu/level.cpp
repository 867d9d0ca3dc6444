#include "kernels/cpu/level.h"

#include <algorithm>

#include "core/lib/base/instruction_set.h"

namespace forge {
namespace {

CpuLevel level_of(InstructionSet set) {
  return set >= InstructionSet::avx512_bf16 ? CpuLevel::avx512_bf16
         : set == InstructionSet::avx512    ? CpuLevel::avx512
         : set == InstructionSet::avx2      ? CpuLevel::avx2
                                            : CpuLevel::baseline;
}

CpuLevel detect() {
  const InstructionSet has = processor_instructions();
  const auto stated = stated_instructions();
  return level_of(stated ? std::min(has, stated->set) : has);
}

}  // namespace

const char* name_of(CpuLevel level) {
  constexpr const char* kNames[] = {"baseline", "avx2", "avx512", "avx512_bf16"};
  return kNames[static_cast<size_t>(level)];
}

CpuLevel cpu_level() {
  static const CpuLevel level = detect();
  return level;
}

bool made_by_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

bool fast_pairs() {
  static const bool fast = [] {
    const auto stated = stated_instructions();
    const InstructionSet set = stated ? std::min(stated->set, processor_instructions()) : processor_instructions();
    if (set != InstructionSet::avx512_bf16) return set > InstructionSet::avx512_bf16;
    return !made_by_intel() || (stated && states_processor(*stated));
  }();
  return fast;
}

std::vector<CpuLevel> cpu_levels() {
  std::vector<CpuLevel> levels;
  for (CpuLevel level : {CpuLevel::baseline, CpuLevel::avx2, CpuLevel::avx512, CpuLevel::avx512_bf16})
    if (level <= cpu_level()) levels.push_back(level);
  return levels;
}

}  // namespace forge
