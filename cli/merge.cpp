// forge merge: writes a base model with its adapters in the weights, as a folder that transformers
// and vLLM load.

#include "cli/merge_source.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/run/export/staged_folder.h"
#include "core/run/export/write_model.h"
#include "core/run/model_card.h"

namespace forge::merge_command {
namespace {

constexpr Option kOwnOptions[] = {
    {"--output", "DIR", "folder to write (default: RUN/merged)"},
    {"--dtype", "NAME",
     "fp32, bf16 or fp16 (default: as the base is stored; bf16 if it is quantized)"},
    {"--max-shard-size", "GB", "maximum size of a weight file in gigabytes (default 5)"},
    {"--fresh", "", "replace existing files at --output"},
};
constexpr auto kOptions = join_tables(kSourceOptions, kOwnOptions, kCheckOptions);

DType dtype_of(const Arguments& args, const MergedModel& model) {
  const std::optional<std::string> name = args.text("--dtype");
  if (!name) {
    const DType stored = model.stored_type();
    return stored == DType::f32 || stored == DType::f16 ? stored : DType::bf16;
  }
  if (*name == "fp32") return DType::f32;
  if (*name == "fp16") return DType::f16;
  if (*name == "bf16") return DType::bf16;
  throw Error(ErrorKind::usage, "--dtype " + *name + ": expected fp32, bf16 or fp16");
}

int run(const Arguments& args) {
  Progress progress(false, args.quiet() || args.json());
  const double shard = args.number("--max-shard-size", 5, 1e-6, 1e6);
  const MergeSource source = merge_source(args, progress);
  const MergedModel& model = *source.model;
  const WriteOptions options{.dtype = dtype_of(args, model), .shard_bytes = static_cast<int64_t>(shard * 1e9)};
  const std::string output = output_of(args, "merged");
  const KeptTensors kept(model.spec(), source.choice.model);
  const int64_t bytes = bytes_of_model(model, options.dtype) + kept.bytes();
  StagedFolder staged(output, args.has("--fresh"), source.read);
  require_free_bytes(output, bytes);
  if (!source.base_note.empty()) progress.line(source.base_note);
  write_weights(model, kept, options, staged.path(), [&](double share) {
    progress.status(fmt::format("merging  {:.0f} % of {}", 100 * share, format_bytes(bytes)));
  });
  progress.clear();
  write_text_and_config(source, name_of(options.dtype), staged.path());
  write_file_durably(staged.path() + "/README.md",
                     merged_card(model.spec(), shown_model(source.choice), source.base_note, name_of(options.dtype), staged.path()));
  const std::optional<Difference> difference = compare_with_source(source, staged.path(), args, progress);
  if (difference && source.same_as_choice)
    refuse_difference(*difference, options.dtype,
                      "the merged model does not compute what base and adapter do", "--dtype fp32");
  staged.commit();
  const std::string dtype = name_of(options.dtype);
  return show_written(
      args, {{"output", output}, {"bytes", bytes}, {"dtype", dtype}, {"base", source.base_note}}, difference,
      progress, output + ": " + format_bytes(bytes) + " in " + dtype + "\n",
      source.same_as_choice ? "" : "compared with what was trained, ");
}

}  // namespace

constexpr Command kCommand{
    "merge", "[RUN|CHECKPOINT|ADAPTER]", 0, 1,
    "merge adapters into their base model's weights",
    kOptions, run};

}  // namespace forge::merge_command
