#include "core/learn/reward/score.h"

#include "core/lib/text/tokenizer/unicode.h"

namespace forge {

Json reward_item(const RewardSample& sample, int64_t step) {
  Json item{{"id", sample.id},
            {"step", step},
            {"prompt", sample.prompt},
            {"messages", sample.messages},
            {"completion", text::replace_invalid_utf8(sample.completion)},
            {"tokens", sample.tokens ? Json(*sample.tokens) : Json(nullptr)},
            {"finish", sample.truncated ? "length" : "stop"},
            {"row", *sample.row}};
  if (!sample.transcript.empty()) item["transcript"] = text::replace_invalid_utf8(sample.transcript);
  return item;
}

}  // namespace forge
