#include "tests/fuzz/encode.h"

#include <cstdlib>

namespace forge {
namespace {

constexpr std::string_view kText =
    "Hello  World!\t<s> it's 12345 héllo e\xCC\x81 \xE2\x96\x81x \xE4\xBB\x8A\xE6\x97\xA5 "
    "\xF0\x9F\x91\xA9\xE2\x80\x8D"
    "\xF0\x9F\x91\xA7 <|endoftext|>\r\n\n   [MASK]\xEF\xAC\x81 \xC2\xBD \xEF\xBC\xA1 <0x41> ##ing\x01";

void check(bool promise) {
  if (!promise) std::abort();
}

}  // namespace

void exercise(const Tokenizer& tokenizer) {
  for (const EncodeOptions options : {EncodeOptions{true, true}, EncodeOptions{false, false}}) {
    std::vector<int32_t> ids;
    tokenizer.encode_ids(kText, ids, options);
    const std::vector<TokenSpan> spans = tokenizer.encode(kText, options);
    check(ids.size() == spans.size());
    for (size_t k = 0; k < spans.size(); ++k) {
      check(ids[k] == spans[k].id && ids[k] < tokenizer.vocab_size());
      check(0 <= spans[k].begin && spans[k].begin <= spans[k].end);
      check(spans[k].end <= static_cast<int64_t>(kText.size()));
      tokenizer.token_of(ids[k]);
    }
    tokenizer.decode(ids);
    tokenizer.decode(ids, true);
    DecodeStream stream(tokenizer);
    for (const int32_t id : ids) stream.push(id);
    stream.finish();
  }
  tokenizer.encode_segments({{kText, true}, {kText, false}}, true);
}

}  // namespace forge
