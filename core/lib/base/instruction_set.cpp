#include "core/lib/base/instruction_set.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// An instruction set under the names of forge, LibTorch, oneDNN and MKL. LibTorch and MKL know none
// beyond AVX-512.
struct Names {
  InstructionSet set;
  const char *forge, *aten, *onednn, *mkl;
};
constexpr std::array kNames{
    Names{InstructionSet::baseline, "baseline", "default", "SSE41", "SSE4_2"},
    Names{InstructionSet::avx2, "avx2", "avx2", "AVX2", "AVX2"},
    Names{InstructionSet::avx512, "avx512", "avx512", "AVX512_CORE", "AVX512"},
    Names{InstructionSet::avx512_bf16, "avx512_bf16", "avx512", "AVX512_CORE_BF16", "AVX512"},
    Names{InstructionSet::amx_bf16, "amx_bf16", "avx512", "ALL", "AVX512"}};

constexpr const char *kForge = "FORGE_CPU", *kAten = "ATEN_CPU_CAPABILITY", *kOneDnn = "ONEDNN_MAX_CPU_ISA",
                     *kOldOneDnn = "DNNL_MAX_CPU_ISA", *kMkl = "MKL_ENABLE_INSTRUCTIONS";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Returns the first set that `library` calls so.
std::optional<InstructionSet> set_named(std::string_view name, const char* Names::*library) {
  const auto found = std::ranges::find(kNames, name, library);
  return found == kNames.end() ? std::nullopt : std::optional(found->set);
}

// Returns the set of a oneDNN name. oneDNN has names in between: the last set whose name is a
// prefix counts, so AVX2_VNNI is AVX2.
std::optional<InstructionSet> onednn_set(std::string name) {
  for (char& c : name)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));  // as oneDNN parses it
  if (name == "AVX") return InstructionSet::baseline;
  if (name.find("AMX") != std::string::npos || starts_with(name, "AVX10")) return InstructionSet::amx_bf16;
  if (name == "AVX512_CORE_FP16") return InstructionSet::avx512_bf16;
  std::optional<InstructionSet> found;
  for (const Names& row : kNames)
    if (starts_with(name, row.onednn)) found = row.set;
  return found;
}

std::optional<InstructionSet> aten_set(const std::string& name) {
  if (name == "avx512") return InstructionSet::amx_bf16;  // the highest it knows, so no limit
  return set_named(name, &Names::aten);
}

}  // namespace

const char* name_of(InstructionSet set) { return kNames[static_cast<size_t>(set)].forge; }

InstructionSet processor_instructions() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c"))
    return InstructionSet::baseline;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return InstructionSet::avx2;
  if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512vnni")) return InstructionSet::avx512;
  return __builtin_cpu_supports("amx-bf16") ? InstructionSet::amx_bf16 : InstructionSet::avx512_bf16;
#else
  return InstructionSet::baseline;
#endif
}

std::optional<StatedInstructions> stated_instructions() {
  std::optional<StatedInstructions> least;
  const auto consider = [&](const char* name, const std::string& value, std::optional<InstructionSet> set) {
    if (set && (!least || *set < least->set)) least = {*set, std::string(name) + "=" + value};
  };
  if (const std::string stated = variable(kForge); !stated.empty()) {
    const std::optional<InstructionSet> set = set_named(stated, &Names::forge);
    std::vector<std::string> known;
    for (const Names& row : kNames) known.push_back(row.forge);
    if (!set)
      throw Error(ErrorKind::environment, std::string(kForge) + "=" + stated + ": expected " +
                                              join(known, ", ") + did_you_mean(stated, known));
    consider(kForge, stated, set);
  }
  // A limit that allows everything is no limit.
  const auto limit = [&](const char* name, std::optional<InstructionSet> set) {
    if (set && *set < InstructionSet::amx_bf16) consider(name, variable(name), set);
  };
  // oneDNN falls back to the older variable name.
  const char* onednn = variable(kOneDnn).empty() ? kOldOneDnn : kOneDnn;
  limit(onednn, onednn_set(variable(onednn)));
  limit(kAten, aten_set(variable(kAten)));
  return least;
}

bool states_processor(const StatedInstructions& stated) { return starts_with(stated.by, kForge); }

void hold_libraries_to_statement() {
  const std::optional<StatedInstructions> stated = stated_instructions();
  if (!stated) return;
  if (stated->set > processor_instructions())
    throw Error(ErrorKind::environment,
                stated->by + ": this processor supports only up to " + name_of(processor_instructions()))
        .hint("forge plan works for any processor; training needs one that this machine has");
  const Names& row = kNames[static_cast<size_t>(stated->set)];
  ::setenv(kAten, row.aten, 1);
  ::setenv(kOneDnn, row.onednn, 1);
  ::setenv(kMkl, row.mkl, 1);
}

}  // namespace forge
