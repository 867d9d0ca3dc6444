#pragma once
// The source of the weights for merge and export: a base model, the adapters on it, and the form of
// a quantised base that they go into.
#include <memory>
#include <optional>
#include <string>

#include "cli/equivalence.h"
#include "cli/model_choice.h"
#include "core/run/export/merged_model.h"

namespace forge {

inline constexpr Option kSourceOptions[] = {
    {"--model", "PATH",
     "use this base model instead of a run: a Hugging Face folder, a .gguf file, or org/name in "
     "the hub's cache"},
    {"--adapter", "DIR[=WEIGHT]",
     "PEFT adapter for the model; several are added up by weight", true},
    {"--base", "NAME",
     "weights to use if the adapter was trained on a quantized base: original, or quantized (as in "
     "training)"},
};

struct MergeSource {
  ModelChoice choice;  // with the adapter, if it is the only one and has weight 1
  std::shared_ptr<MergedModel> model;
  // True if the engine can load what was merged, so that the two can be compared: several adapters
  // at once cannot be loaded.
  bool comparable = true;
  // True if the two compute the same up to rounding: false if the original base replaces the
  // quantised one.
  bool same_as_choice = true;
  std::vector<std::string> read;  // the files and folders that the source comes from
  std::string base_note;  // the form in which a quantised base was taken; else empty
};

// `asked`: --base must state the form of a quantised base. `any`: the form does not matter, since
// only the adapter is used.
enum class BaseChoice { asked, any };

// Throws Error(usage) for options that contradict each other, and for a quantised base without
// --base if `base` is asked.
MergeSource merge_source(const Arguments& args, Progress& progress, BaseChoice base = BaseChoice::asked);

// Compares what was merged with the model folder or GGUF `written` (compare_models). Returns
// nothing for several adapters.
std::optional<Difference> compare_with_source(const MergeSource& source, const std::string& written, const Arguments& args,
                                              Progress& progress);

// Writes the tokenizer, the chat template and config.json of the result into `folder`; `dtype` is a
// name as name_of(DType) returns it.
void write_text_and_config(const MergeSource& source, const std::string& dtype, const std::string& folder);

}  // namespace forge
