#pragma once
// Checks that a written model computes the same as its source, by running both in the engine on
// sample prompts.
#include <optional>
#include <string>

#include "cli/model_choice.h"

namespace forge {

inline constexpr Option kCheckOptions[] = {
    {"--no-check", "", "skip comparing the result's logits with the original's"},
    {"--threads", "N", "number of threads for the comparison (default: all cores)"},
    {"--device", "NAME", "device for the comparison: auto, cpu or cuda:N"},
};

struct Difference {
  int64_t positions = 0;
  double largest = 0, scale = 0;  // max |a - b| and max |a| of all logits
  double divergence = 0;          // mean KL(a ‖ b), in nats
  double same_likeliest = 0;      // share of positions with the same most likely token
};

// Returns prompts of some tens of tokens each, as the model's tokenizer has them; with a chat
// template one is a conversation.
std::vector<std::vector<int32_t>> sample_prompts(const ModelText& text);

// Compares `original` and `other` by model, adapter and quantization, both in fp32. Returns nothing
// with --no-check and, after a line that says so, if two such models do not fit into memory one
// after the other.
std::optional<Difference> compare_models(const ModelChoice& original, const ModelChoice& other,
                                         const std::vector<std::vector<int32_t>>& prompts, const Arguments& args,
                                         Progress& progress);

Json to_json(const Difference& difference);
// Returns "logits differ by at most 2.1e-06 of 18.2, divergence 3e-13, the same likeliest token at
// 100 % of 96 positions".
std::string text_of(const Difference& difference);

}  // namespace forge
