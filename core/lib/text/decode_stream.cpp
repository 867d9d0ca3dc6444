// Decodes the tokens since a point where the text was complete, with a few tokens of context before
// it. Decoders that look at neighbours (a leading space, runs of byte tokens) need that context.
#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer.h"

namespace forge {
namespace {

constexpr size_t kMostWaiting =
    16;  // tokens; a character has at most four bytes, so more pending tokens mean broken bytes

bool ends_broken(const std::string& text) { return ends_with(text, "\xEF\xBF\xBD"); }

}  // namespace

std::string DecodeStream::push(int32_t id) {
  ids_.push_back(id);
  const std::span<const int32_t> all(ids_);
  const std::string text = tokenizer_.decode(all, skip_special_);
  if (ends_broken(text) && ids_.size() - shown_ids_ < kMostWaiting) return "";
  const std::string shown = tokenizer_.decode(all.first(shown_ids_), skip_special_);
  if (text.size() <= shown.size()) {
    // A skipped control token prints nothing and is not needed as context.
    if (skip_special_ && tokenizer_.is_special(id)) ids_.pop_back();
    return "";
  }
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<int64_t>(shown_ids_));
  shown_ids_ = ids_.size();
  return text.substr(shown.size());
}

std::string DecodeStream::finish() {
  const std::span<const int32_t> all(ids_);
  const std::string text = tokenizer_.decode(all, skip_special_);
  const std::string shown = tokenizer_.decode(all.first(shown_ids_), skip_special_);
  ids_.clear();
  shown_ids_ = 0;
  return text.size() > shown.size() ? text.substr(shown.size()) : "";
}

}  // namespace forge
