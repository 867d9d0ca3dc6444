#include "core/reward/reward_item.h"

#include "core/text/tokenizer/unicode.h"

namespace forge {

Json reward_item(const RewardSample& sample, int64_t step) {
  return {{"id", sample.id},
          {"step", step},
          {"prompt", sample.prompt},
          {"messages", sample.messages},
          {"completion", text::replace_invalid_utf8(sample.completion)},
          {"tokens", sample.tokens ? Json(*sample.tokens) : Json(nullptr)},
          {"finish", sample.truncated ? "length" : "stop"},
          {"row", *sample.row}};
}

}  // namespace forge
