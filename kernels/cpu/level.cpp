#include "kernels/cpu/level.h"

namespace forge {
namespace {

CpuLevel detect() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return CpuLevel::baseline;
  bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide ? CpuLevel::avx512 : CpuLevel::avx2;
#else
  return CpuLevel::baseline;
#endif
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
