#pragma once
// What a processor multiplies with, from the least to the most. It decides precision, what products need in memory, and
// the last bits of every result, so it can be stated, as a card can:
//
//   FORGE_CPU=avx2 forge run job.yaml            // as on a processor that has no more
//   FORGE_CPU=amx_bf16 forge plan job.yaml       // for one that is not in this machine
//
// Program and engine read the same statement: the program plans for it, the engine keeps forge's kernels, LibTorch,
// oneDNN and MKL to it. What LibTorch's ATEN_CPU_CAPABILITY and oneDNN's ONEDNN_MAX_CPU_ISA allow is never exceeded either.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

// avx2 has FMA and F16C too; avx512 has F, BW, DQ and VL; avx512_bf16 has VNNI; amx_bf16 has avx512_bf16.
enum class InstructionSet { baseline, avx2, avx512, avx512_bf16, amx_bf16 };

const char* name_of(InstructionSet set);
std::optional<InstructionSet> instruction_set_named(std::string_view name);

// What this processor has, whatever is stated.
InstructionSet processor_instructions();

struct StatedInstructions {
  InstructionSet set = InstructionSet::amx_bf16;
  std::string by;  // "FORGE_CPU=avx2"
};
// The environment's statement; nothing: the processor as it is. Where several variables speak, the least counts. Throws
// Error(environment) for a FORGE_CPU that names no set.
std::optional<StatedInstructions> stated_instructions();
// Whether FORGE_CPU says it, and not only the variables of a library: then it may also be more than this machine has.
bool states_processor(const StatedInstructions& stated);

// Puts the statement into the variables that LibTorch, oneDNN and MKL read when they first compute. Before that, and
// before there are threads. Without a statement nothing changes. Throws Error(environment) where FORGE_CPU states more
// than this processor has: that can be planned for, not computed.
void hold_libraries_to_statement();

}  // namespace forge
