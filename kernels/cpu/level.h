#pragma once
// Which instructions the CPU versions may use. Chosen once at run time; a test passes each level that the
// machine has.
#include <vector>

namespace forge {

enum class CpuLevel { baseline, avx2, avx512 };

const char* name_of(CpuLevel level);
// The best level of this machine. avx2 means AVX2, FMA and F16C; avx512 adds F, BW, DQ and VL.
CpuLevel cpu_level();
// baseline first.
std::vector<CpuLevel> cpu_levels();

}  // namespace forge
