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
// Whether products of bf16 pairs have more than fp32's rate: with AMX, or with AVX512-BF16 that Intel has not made (docs/decisions.md). A processor that is stated (FORGE_CPU) is taken for one of the other makers'.
bool fast_pairs();
bool made_by_intel();
// baseline first.
std::vector<CpuLevel> cpu_levels();

}  // namespace forge
