#include "cli/merge_source.h"


#include <charconv>
#include <cmath>
#include <filesystem>

#include "cli/console.h"
#include "core/job/names.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/model/families/described_family.h"
#include "core/model/families/parameters.h"
#include "core/model/families/stored_file.h"
#include "core/plan/files/model_file.h"
#include "core/run/checkpoints.h"
#include "core/run/export/quantised_base.h"
#include "core/run/export_files.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

// Prose, code, numbers and another alphabet, which tokenizers and weights treat differently.
constexpr const char* kSamples[] = {
    "The lighthouse keeper climbed the stairs, lit the lamp and waited for the ships to come home.",
    "def mean(values):\n    return sum(values) / len(values)\n\nprint(mean([1, 2, 3]))",
    "In 1969, 3.5 million people watched; 42 % of them said: \"Où est la lune ?\" Привет, 月亮.",
};
constexpr const char* kQuestion = "Name three things that float on water.";
constexpr size_t kLongest = 32;

int64_t fp32_bytes(const ModelConfig& model) {
  int64_t count = 0;
  for (const Parameter& parameter : base_parameters(read_model_spec(model), Experts::in_rows))
    count += parameter.total();
  return count * 4;
}

struct NamedAdapter {
  std::string folder;
  double weight = 1;
};

// Parses "DIR" or "DIR=0.5". A folder whose name itself contains "=0.5" is a folder.
NamedAdapter parse_adapter(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || fs::exists(text)) return {adapter_path(text), 1};
  NamedAdapter adapter{adapter_path(text.substr(0, equals)), 0};
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + equals + 1, end, adapter.weight);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(adapter.weight))
    throw Error(ErrorKind::usage, "--adapter " + text + ": expected a number after =, as in DIR=0.5");
  return adapter;
}

struct Chosen {
  ModelChoice choice;
  std::vector<NamedAdapter> adapters;
};

// Takes the quantization that an adapter in its run's folder was trained on.
void take_quantisation(ModelChoice& choice, const std::string& folder) {
  std::optional<Plan> run = run_of(folder);
  if (!run || run->job.model.quantization == Quantization::none) return;
  const ModelConfig& base = run->job.model;
  if (choice.run && (choice.quantization != base.quantization || choice.double_quantization != base.double_quantization))
    throw Error(ErrorKind::usage, folder + ": was trained on the base in " + name_of(base.quantization) +
                                      ", and another adapter on the base in another form").hint("merge them one by one");
  choice.quantization = base.quantization, choice.double_quantization = base.double_quantization;
  choice.run = std::move(run);
}

Chosen choose(const Arguments& args, Progress& progress) {
  const bool names_run = !args.operands().empty();
  require_run_or_model(args, names_run, "expected a run, a checkpoint, an adapter or --model");
  Chosen chosen;
  if (names_run) {
    chosen.choice = choose_named(args.operands()[0], progress);
    require_whole_weights(chosen.choice.adapter.value_or(chosen.choice.model));
    if (chosen.choice.adapter) chosen.adapters.push_back({*chosen.choice.adapter, 1});
    return chosen;
  }
  chosen.choice.model = chosen.choice.text = model_path(*args.text("--model"));
  for (const std::string& text : args.texts("--adapter")) chosen.adapters.push_back(parse_adapter(text));
  for (const NamedAdapter& adapter : chosen.adapters) take_quantisation(chosen.choice, adapter.folder);
  if (chosen.adapters.size() == 1 && chosen.adapters[0].weight == 1) chosen.choice.adapter = chosen.adapters[0].folder;
  return chosen;
}

// True if the quantised base is used. There is a choice only if there are two bases.
bool takes_quantised(const Arguments& args, const ModelChoice& choice, BaseChoice asked) {
  const std::optional<std::string> base = args.text("--base");
  const std::string name = name_of(choice.quantization);
  if (base && *base != "original" && *base != "quantized")
    throw Error(ErrorKind::usage, "--base " + *base + ": expected original or quantized");
  if (choice.quantization == Quantization::none) {
    if (base) throw Error(ErrorKind::usage, "--base: the adapter was not trained on a quantised base, there is only one");
    return false;
  }
  if (base) return *base == "quantized";
  if (asked == BaseChoice::any) return false;
  throw Error(ErrorKind::usage, "the adapter was trained on the base in " + name + ", which is not the base in " + choice.model)
      .hint("choose with --base original (those weights, which the adapter never saw) or --base quantized (through " + name +
            " and back: what was trained); the difference of logits is measured and shown");
}

// Returns the base with room for the tokens that adapters add.
ModelSpec with_rows_of(const std::vector<WeightedAdapter>& adapters, const ModelSpec& base) {
  ModelSpec most = base;
  for (const WeightedAdapter& adapter : adapters)
    if (ModelSpec own = spec_for(adapter.file, base); own.vocab_size > most.vocab_size) {
      own.score_head = base.score_head;
      own.tie_word_embeddings = base.tie_word_embeddings;
      most = own;
    }
  return most;
}

// Returns prompts of some tens of tokens each, as the model's tokenizer has them; with a chat
// template one is a conversation.
std::vector<std::vector<int32_t>> sample_prompts(const ModelText& text) {
  std::vector<std::vector<int32_t>> prompts;
  for (const char* sample : kSamples) {
    std::vector<int32_t> ids;
    text.tokenizer.encode_ids(sample, ids, {.add_special_tokens = true});
    prompts.push_back(std::move(ids));
  }
  if (text.chat_template) prompts.push_back(prompt_ids(text, {{{"role", "user"}, {"content", kQuestion}}}));
  for (std::vector<int32_t>& ids : prompts)
    if (ids.size() > kLongest) ids.resize(kLongest);
  std::erase_if(prompts, [](const std::vector<int32_t>& ids) { return ids.empty(); });
  return prompts;
}

Json to_json(const Difference& difference) {
  return {{"positions", difference.positions},
          {"largest_difference", difference.largest},
          {"largest_logit", difference.scale},
          {"divergence", difference.divergence},
          {"same_likeliest", difference.same_likeliest}};
}

// Returns "logits differ by at most 2.1e-06 of 18.2, divergence 3e-13, the same likeliest token at
// 100 % of 96 positions".
std::string text_of(const Difference& difference) {
  return fmt::format("logits differ by at most {:.2g} of {:.3g}, divergence {:.2g}, the same likeliest token at {:.1f} % of {} positions",
                     difference.largest, difference.scale, difference.divergence, 100 * difference.same_likeliest,
                     difference.positions);
}

}  // namespace

MergeSource merge_source(const Arguments& args, Progress& progress, BaseChoice asked) {
  Chosen chosen = choose(args, progress);
  ModelChoice& choice = chosen.choice;
  const bool quantised = takes_quantised(args, choice, asked);
  std::vector<WeightedAdapter> adapters;
  for (const NamedAdapter& adapter : chosen.adapters)
    adapters.push_back({read_adapter_config(adapter.folder), adapter.weight});
  const ModelSpec spec = with_rows_of(adapters, read_model_spec(model_of(choice)));
  std::unique_ptr<TensorFile> base = open_weights(spec, choice.model);
  check_model_file(spec, *base, choice.model);
  refuse_another_head(spec, *base, choice.model);
  if (quantised)
    base = quantised_base(std::move(base), spec, adapters.empty() ? AdapterConfig{} : adapters[0].file.config,
                          choice.run->job.model);
  MergeSource source{.choice = choice, .read = {choice.model, choice.text}};
  for (const NamedAdapter& adapter : chosen.adapters) source.read.push_back(adapter.folder);
  source.model = std::make_shared<MergedModel>(std::move(base), spec, std::move(adapters));
  source.comparable = chosen.adapters.empty() || choice.adapter;
  source.same_as_choice = quantised || choice.quantization == Quantization::none;
  if (choice.quantization != Quantization::none)
    source.base_note = quantised ? "the base through " + name_of(choice.quantization) + " and back, as the adapter was trained on it"
                                 : "the original base; the adapter was trained on it in " + name_of(choice.quantization);
  return source;
}

std::optional<Difference> compare_models(const ModelChoice& original, const ModelChoice& other, const Arguments& args,
                                         Progress& progress) {
  const ModelText text = open_model_text(original.text, original.chat_template);
  const std::vector<std::vector<int32_t>> prompts = sample_prompts(text);
  if (args.has("--no-check") || prompts.empty()) return std::nullopt;
  const int64_t needed = std::max(fp32_bytes(model_of(original)), fp32_bytes(model_of(other))) * 5 / 4;
  const Device device = chosen_device(args, progress);
  const int64_t available = device.free_bytes();
  if (needed > available) {
    progress.warn("not compared with the original: that takes " + format_bytes(needed) + " of memory, " +
                  format_bytes(available) + " is free");
    return std::nullopt;
  }
  ModelChoice in_fp32 = original;
  in_fp32.precision = Precision::fp32;
  in_fp32.device = device;
  progress.status("comparing logits with the original's");
  const Json second{{"model", other.model},
                    {"family", other.family ? Json(*other.family) : Json()},
                    {"adapter", other.adapter ? Json(*other.adapter) : Json()},
                    {"quantization", name_of(other.quantization)},
                    {"double_quantization", other.double_quantization}};
  const Json done = compute({{"command", "compare"}, {"prompts", prompts}, {"other", second}}, in_fp32, args,
                            [&](const Json& event) { progress.show(event); });
  progress.clear();
  return Difference{.positions = done.at("positions"),
                    .largest = done.at("largest_difference"),
                    .scale = done.at("largest_logit"),
                    .divergence = done.at("divergence"),
                    .same_likeliest = done.at("same_likeliest")};
}

void refuse_difference(const Difference& difference, DType dtype, const std::string& fault,
                       const std::string& exact) {
  constexpr double kRounding32 = 1e-3, kMostDivergence = 0.1;
  const bool close = dtype == DType::f16 || dtype == DType::bf16;
  const bool computed = difference.scale > 0;  // logits that are all zeros prove nothing
  if (computed && (dtype == DType::f32 ? difference.largest <= kRounding32 * std::max(1.0, difference.scale)
                                       : !close || difference.divergence <= kMostDivergence))
    return;
  throw Error(ErrorKind::internal, fault + ": " + text_of(difference))
      .hint("nothing was written; " + exact + " shows whether the type's precision is the reason");
}

std::string output_of(const Arguments& args, const std::string& name) {
  if (std::optional<std::string> path = args.text("--output")) return *path;
  if (!args.operands().empty() && file_exists(args.operands()[0] + "/plan.json"))
    return args.operands()[0] + "/" + name;
  throw Error(ErrorKind::usage, "expected --output DIR");
}

int show_written(const Arguments& args, Json result, const std::optional<Difference>& difference,
                 const Progress& progress, const std::string& text, const std::string& compared) {
  if (difference) result["difference"] = to_json(*difference);
  result["warnings"] = progress.warnings();
  print_either(args.json(), result, text);
  if (difference && !args.json()) say(compared + text_of(*difference));
  return 0;
}

std::optional<Difference> compare_with_source(const MergeSource& source, const std::string& written, const Arguments& args,
                                              Progress& progress) {
  if (!source.comparable) {
    if (!args.has("--no-check")) progress.warn("not compared with the original: the engine loads one adapter, with its own weight");
    return std::nullopt;
  }
  ModelChoice other{.model = written, .family = source.choice.family};
  const std::string beside = source.choice.model + "/" + kFamilyFile;
  if (!other.family && !source.model->spec().described.empty()) other.family = beside;
  return compare_models(source.choice, other, args, progress);
}

void write_text_and_config(const MergeSource& source, const std::string& dtype, const std::string& folder) {
  write_tokenizer_files(source.choice.text, source.choice.chat_template, folder);
  if (source.choice.adapter) copy_tokenizer_files(*source.choice.adapter, folder);
  write_model_config({.path = source.choice.model}, source.model->spec(), dtype, folder);
  write_generation_ends(folder);
}

}  // namespace forge
