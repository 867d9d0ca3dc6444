#pragma once
// The instruction sets with which a processor multiplies, from the smallest to the largest. The set
// decides precision, the memory that products need, and the last bits of every result. It can be
// stated, like a GPU:
//
//   FORGE_CPU=avx2 forge run job.yaml            // computes like a processor that has no more
//   FORGE_CPU=amx_bf16 forge plan job.yaml       // for one that is not in this machine
//
// Program and engine read the same statement: the program plans for it, the engine limits forge's
// kernels, LibTorch, oneDNN and MKL to it. Limits in LibTorch's ATEN_CPU_CAPABILITY and oneDNN's
// ONEDNN_MAX_CPU_ISA also hold.
#include <optional>
#include <string>

namespace forge {

// avx2 has FMA and F16C too; avx512 has F, BW, DQ and VL; avx512_bf16 has VNNI; amx_bf16 has
// avx512_bf16.
enum class InstructionSet { baseline, avx2, avx512, avx512_bf16, amx_bf16 };

const char* name_of(InstructionSet set);

// Returns the instruction set of this processor, whatever is stated.
InstructionSet processor_instructions();

struct StatedInstructions {
  InstructionSet set = InstructionSet::amx_bf16;
  std::string by;  // "FORGE_CPU=avx2"
};
// Returns the set that the environment states; nothing if it states none: then the processor's own
// counts. Where several variables state one, the smallest counts. Throws Error(environment) for a
// FORGE_CPU that names no set.
std::optional<StatedInstructions> stated_instructions();
// True if the statement is FORGE_CPU's, and not only that of a library's variable: then it may also
// be more than this machine has.
bool states_processor(const StatedInstructions& stated);

// Writes the statement to the variables that LibTorch, oneDNN and MKL read when they first compute.
// Call it before that, and before there are threads. Without a statement nothing changes. Throws
// Error(environment) where FORGE_CPU states more than this processor has: forge can plan for that,
// but not compute.
void hold_libraries_to_statement();

}  // namespace forge
