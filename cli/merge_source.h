#pragma once
// The source of the weights for merge and export: a base model, the adapters on it, and the form of
// a quantised base that they go into. What was written is checked to compute the same as its
// source, by running both in the engine on sample prompts.
#include <memory>
#include <optional>
#include <string>

#include "cli/model_choice.h"
#include "core/lib/io/tensor_file.h"
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

inline constexpr Option kCheckOptions[] = {
    {"--no-check", "", "skip comparing the result's logits with the original's"},
    {"--threads", "N", "number of threads for the comparison (default: all cores)"},
    {"--device", "NAME", "device for the comparison: auto, cpu or cuda:N"},
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

struct Difference {
  int64_t positions = 0;
  double largest = 0, scale = 0;  // max |a - b| and max |a| of all logits
  double divergence = 0;          // mean KL(a ‖ b), in nats
  double same_likeliest = 0;      // share of positions with the same most likely token
};

// Compares `original` and `other` by model, adapter and quantization, both in fp32, on prompts for
// the original's tokenizer. Returns nothing with --no-check and, after a line that says so, if two
// such models do not fit into memory one after the other.
std::optional<Difference> compare_models(const ModelChoice& original, const ModelChoice& other, const Arguments& args,
                                         Progress& progress);

// Throws Error(internal) if the logits of a model that was written with weights of type `dtype`
// differ too much. Rounding weights to 16 bits changes logits slightly; a misplaced tensor changes
// them a lot. Of coarser types nothing is expected. `fault` says what such a difference means,
// `exact` is the option that writes fp32.
void refuse_difference(const Difference& difference, DType dtype, const std::string& fault,
                       const std::string& exact);

// Returns the folder to write: --output, or a run's folder of that name.
std::string output_of(const Arguments& args, const std::string& name);

// Compares what was merged with the model folder or GGUF `written` (compare_models). Returns
// nothing for several adapters.
std::optional<Difference> compare_with_source(const MergeSource& source, const std::string& written, const Arguments& args,
                                              Progress& progress);

// Shows what was written: `result`, with the difference and the warnings; or `text`, and the
// difference after `compared`. Returns the exit code.
int show_written(const Arguments& args, Json result, const std::optional<Difference>& difference,
                 const Progress& progress, const std::string& text, const std::string& compared = "");

// Writes the tokenizer, the chat template and config.json of the result into `folder`; `dtype` is a
// name as name_of(DType) returns it.
void write_text_and_config(const MergeSource& source, const std::string& dtype, const std::string& folder);

}  // namespace forge
