#include "cli/equivalence.h"

#include <fmt/format.h>

#include "core/job/names.h"
#include "core/lib/base/text.h"
#include "core/model/families/parameters.h"

namespace forge {
namespace {

// Prose, code, numbers and another alphabet, which tokenizers and weights treat differently.
constexpr const char* kSamples[] = {
    "The lighthouse keeper climbed the stairs, lit the lamp and waited for the ships to come home.",
    "def mean(values):\n    return sum(values) / len(values)\n\nprint(mean([1, 2, 3]))",
    "In 1969, 3.5 million people watched; 42 % of them said: \"Où est la lune ?\" Привет, 月亮.",
};
constexpr const char* kQuestion = "Name three things that float on water.";
constexpr size_t kLongest = 32;

int64_t fp32_bytes(const std::string& model) {
  int64_t count = 0;
  for (const Parameter& parameter : base_parameters(read_model_spec(model))) count += parameter.count();
  return count * 4;
}

}  // namespace

std::vector<std::vector<int32_t>> sample_prompts(const ModelText& text) {
  std::vector<std::vector<int32_t>> prompts;
  for (const char* sample : kSamples) {
    std::vector<int32_t> ids;
    text.tokenizer.encode_ids(sample, ids, {.add_special_tokens = true});
    prompts.push_back(std::move(ids));
  }
  if (text.chat_template) prompts.push_back(chat_prompt(text, {{{"role", "user"}, {"content", kQuestion}}}));
  for (std::vector<int32_t>& ids : prompts)
    if (ids.size() > kLongest) ids.resize(kLongest);
  std::erase_if(prompts, [](const std::vector<int32_t>& ids) { return ids.empty(); });
  return prompts;
}

std::optional<Difference> compare_models(const ModelChoice& original, const ModelChoice& other,
                                         const std::vector<std::vector<int32_t>>& prompts, const Arguments& args,
                                         Progress& progress) {
  if (args.has("--no-check") || prompts.empty()) return std::nullopt;
  const int64_t needed = std::max(fp32_bytes(original.model), fp32_bytes(other.model)) * 5 / 4;
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

Json to_json(const Difference& difference) {
  return {{"positions", difference.positions},
          {"largest_difference", difference.largest},
          {"largest_logit", difference.scale},
          {"divergence", difference.divergence},
          {"same_likeliest", difference.same_likeliest}};
}

std::string text_of(const Difference& difference) {
  return fmt::format("logits differ by at most {:.2g} of {:.3g}, divergence {:.2g}, the same likeliest token at {:.1f} % of {} positions",
                     difference.largest, difference.scale, difference.divergence, 100 * difference.same_likeliest,
                     difference.positions);
}

}  // namespace forge
