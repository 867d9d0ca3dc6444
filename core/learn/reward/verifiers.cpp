#include "core/learn/reward/verifiers.h"

#include "core/lib/base/text.h"
#include "core/lib/schema/text_pattern.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

struct Entry {
  RewardType type;
  Verifier (*make)(const RewardConfig& reward, const std::string& key);
};

constexpr Entry kVerifiers[] = {
    {RewardType::exact, make_exact},
    {RewardType::contains, make_contains},
    {RewardType::regex, make_regex},
    {RewardType::numeric, make_numeric},
    {RewardType::math, make_math},
    {RewardType::choice, make_choice},
    {RewardType::json_schema, make_json_schema},
    {RewardType::tags, make_tags},
    {RewardType::length, make_length},
    {RewardType::repetition, make_repetition},
    {RewardType::overlong, make_overlong},
};

// Wraps a verifier, since verifiers read valid UTF-8 only: in a completion that was cut inside a
// character, or sampled badly, invalid bytes are replaced.
Verifier guarded(Verifier verify) {
  return [verify = std::move(verify)](const RewardSample& sample) {
    try {
      if (valid_utf8(sample.completion)) return verify(sample);
      RewardSample valid = sample;
      valid.completion = text::replace_invalid_utf8(sample.completion);
      return verify(valid);
    } catch (const PatternGaveUp& gave_up) {
      return Score::failed(gave_up.what());
    }
  };
}

}  // namespace

Verifier make_verifier(const RewardConfig& reward, const std::string& key) {
  for (const Entry& entry : kVerifiers)
    if (entry.type == reward.type) return guarded(entry.make(reward, key));
  FORGE_CHECK(false, "a reward without a verifier");
}

bool needs_tokens(const RewardConfig& reward) {
  return reward.type == RewardType::overlong ||
         (reward.type == RewardType::length && reward.unit == LengthUnit::tokens);
}

}  // namespace forge
