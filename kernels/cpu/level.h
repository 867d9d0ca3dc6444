#pragma once
// Names the instruction levels of the CPU versions. The level is chosen once at run time, within
// FORGE_CPU (core/lib/base/instruction_set.h); a test passes each available level.
#include <vector>

namespace forge {

enum class CpuLevel { baseline, avx2, avx512, avx512_bf16 };

const char* name_of(CpuLevel level);
// The best level of this machine, or the stated one below it. avx2 means AVX2, FMA and F16C; avx512
// adds F, BW, DQ and VL; avx512_bf16 the products of pairs, which few loops use: the others take
// avx512's.
CpuLevel cpu_level();
// True if products of bf16 pairs are faster than fp32's: with AMX, or with AVX512-BF16 on a
// processor that Intel has not made (measured: core/plan/machine/hardware.cpp). A processor stated
// by FORGE_CPU counts as not made by Intel.
bool fast_pairs();
bool made_by_intel();
// Returns the levels of this machine, baseline first.
std::vector<CpuLevel> cpu_levels();

}  // namespace forge
