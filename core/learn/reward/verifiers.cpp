#include "core/learn/reward/verifiers.h"

#include "core/lib/base/text.h"
#include "core/lib/schema/text_pattern.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

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
    } catch (const CannotJudge& why) {
      return Score::failed(why.reason, why.kind);
    }
  };
}

}  // namespace

Verifier make_verifier(const RewardConfig& reward, const std::string& key) {
  return reward.visit([&](const auto& own) -> Verifier {
    if constexpr (requires { verifier_of(own, key); })
      return guarded(verifier_of(own, key));
    else
      FORGE_CHECK(false, "a reward without a verifier");
  });
}
}  // namespace forge
