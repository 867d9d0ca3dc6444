#pragma once
// Which instructions the CPU versions may use. Chosen once at run time, within what FORGE_CPU states
// (core/base/instruction_set.h); a test passes each level that there is.
#include <vector>

namespace forge {

enum class CpuLevel { baseline, avx2, avx512, avx512_bf16 };

const char* name_of(CpuLevel level);
// The best level of this machine, or the stated one below it. avx2 means AVX2, FMA and F16C; avx512 adds F, BW, DQ and VL;
// avx512_bf16 the products of pairs, which few loops use: the others take avx512's.
CpuLevel cpu_level();
// baseline first.
std::vector<CpuLevel> cpu_levels();

}  // namespace forge
