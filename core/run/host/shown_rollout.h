#pragma once
// Reads a rollout's file for people, who may have edited it.
//
//   for (const ShownCompletion& c : read_shown_rollout(path)) std::cout << shown_text(c);
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/io/json.h"

namespace forge {

struct ShownReward {
  std::optional<double> score;
  std::string reason;
};

struct ShownCompletion {
  Json line;  // as the file has it
  std::optional<double> reward;
  std::vector<std::pair<std::string, ShownReward>> rewards;  // by name, in the file's order
  std::string unscored, finish, prompt_text, text;
  std::optional<std::string> transcript;
  std::optional<int64_t> turns;
  int64_t tokens = 0;
  bool kept = true;
};

// Returns the number in a rollout's file name ("rollout-000003.jsonl"), or nothing for another
// name.
std::optional<int64_t> rollout_number(const std::string& name);

// Throws Error(environment) with file, line and key if a line is no completion.
std::vector<ShownCompletion> read_shown_rollout(const std::string& path);

// Returns "reward 0.8 (correct 1, brief 0.5: 31 tokens), 12 tokens, stop" and the two texts.
std::string shown_text(const ShownCompletion& completion);

}  // namespace forge
