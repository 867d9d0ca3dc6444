#pragma once
// What merge and export take weights from: a base model, the adapters on it, and which form of a quantised base they go into.
#include <memory>
#include <optional>
#include <string>

#include "cli/equivalence.h"
#include "cli/model_choice.h"
#include "core/export/merged_model.h"

namespace forge {

inline constexpr Option kSourceOptions[] = {
    {"--model", "PATH", "a Hugging Face folder, a .gguf file, or org/name in the hub's cache, in place of a run"},
    {"--adapter", "DIR[=WEIGHT]", "a PEFT adapter for it; several are added up by their weights", true},
    {"--base", "NAME",
     "of an adapter trained on a quantised base: original (its weights as they are) or quantized (what it was trained on)"},
};

struct MergeSource {
  ModelChoice choice;  // with the adapter of a single one
  std::shared_ptr<MergedModel> model;
  // Whether the engine can load what was merged, so that the two can be compared: not several adapters at once.
  bool comparable = true;
  // Whether the two compute the same up to rounding: not if the original base replaces the quantised one.
  bool same_as_choice = true;
  std::vector<std::string> read;  // the files and folders that it comes from
  std::string base_note;  // in which form a quantised base was taken; else empty
};

// Whether the form of a quantised base matters: not if only the adapter is used.
enum class BaseChoice { asked, any };

// Throws Error(usage) for options that contradict each other, and for a quantised base without --base where that is asked.
MergeSource merge_source(const Arguments& args, Progress& progress, BaseChoice base = BaseChoice::asked);

// compare_models of what was merged with the model folder or GGUF `written`; nothing for several adapters.
std::optional<Difference> compare_with_source(const MergeSource& source, const std::string& written, const Arguments& args,
                                              Progress& progress);

// The tokenizer, the chat template and config.json of the result, into `folder`; `dtype` as name_of(DType) has it.
void write_text_and_config(const MergeSource& source, const std::string& dtype, const std::string& folder);

}  // namespace forge
