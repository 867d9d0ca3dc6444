#include "core/lib/text/tokenizer/aligned_text.h"

#include <algorithm>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

// Limits of growth: a short text may grow more than thirtyfold, a long one fivefold.
constexpr size_t kShortGrowth = 32, kLongGrowth = 4, kSmallest = size_t{64} << 10,
                 kLargest = size_t{64} << 20;

}  // namespace

Growth::Growth(const std::string& tokenizer, size_t input_bytes)
    : tokenizer(tokenizer),
      input_bytes(input_bytes),
      limit(kLongGrowth * input_bytes + std::min(kSmallest + kShortGrowth * input_bytes, kLargest)) {}

void Growth::require(size_t bytes) const {
  if (bytes <= limit) return;
  const auto text = [](size_t count) { return format_bytes(static_cast<int64_t>(count)); };
  throw Error(ErrorKind::environment,
              tokenizer + ": its rules make more than " + text(limit) + " from a text of " + text(input_bytes))
      .hint(
          "a rule of its normalizer, pre_tokenizer or decoder lets texts grow without end; take the file "
          "that came with the "
          "model");
}

void AlignedText::transform(const std::vector<Change>& changes, int64_t skipped) {
  size_t at = 0;  // index in the old text
  const auto skip = [&] { return at < text.size() ? (next_char(text, at), true) : false; };
  while (skipped-- > 0 && skip()) {
  }
  AlignedText next{.growth = growth};
  next.text.reserve(text.size());
  for (const Change& change : changes) {
    Origin place;
    if (change.change > 0) {
      if (at > 0 && !origin.empty()) place = origin[at - 1];
    } else {
      if (!origin.empty()) place = origin[std::min(at, origin.size() - 1)];
      skip();
    }
    for (int32_t n = change.change; n < 0 && skip(); ++n) {
    }
    append_utf8(next.text, change.code);
    next.origin.resize(next.text.size(), place);
  }
  *this = std::move(next);
}

void AlignedText::prepend(std::string_view prefix) {
  if (text.empty()) return;
  require(text.size() + prefix.size());
  text.insert(0, prefix);
  origin.insert(origin.begin(), prefix.size(), Origin(origin.front()));
}

void AlignedText::map(const std::function<std::optional<uint32_t>(uint32_t)>& map) {
  AlignedText mapped{.growth = growth};
  for (size_t at = 0; at < text.size();) {
    const Origin place = origin[at];
    if (const auto code = map(next_char(text, at))) append_utf8(mapped.text, *code);
    mapped.origin.resize(mapped.text.size(), place);
  }
  *this = std::move(mapped);
}

void AlignedText::to_alphabet() {
  AlignedText mapped{.growth = growth};
  mapped.text.reserve(2 * text.size()), mapped.origin.reserve(2 * text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool itself = byte > ' ' && byte < 0x7F;
    itself ? mapped.text.push_back(text[at]) : append_utf8(mapped.text, byte_to_alphabet(byte));
    while (mapped.origin.size() < mapped.text.size()) mapped.origin.push_back(origin[at]);
  }
  *this = std::move(mapped);
}

Origin WorkText::origin_of(int64_t begin, int64_t end) const {
  if (!origin_.empty()) return {origin_[begin].begin, origin_[end - 1].end};
  const auto continues = [&](int64_t at) {
    return at < static_cast<int64_t>(text_.size()) && (static_cast<unsigned char>(text_[at]) & 0xC0) == 0x80;
  };
  while (continues(begin)) --begin;
  while (continues(end)) ++end;
  return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

AlignedText WorkText::aligned(const Piece& piece) const {
  AlignedText result{std::string(text_of(piece)), {}, &growth_};
  if (!origin_.empty()) {
    result.origin.assign(origin_.begin() + piece.begin, origin_.begin() + piece.end);
    return result;
  }
  result.origin.resize(result.text.size());
  const bool ascii = all_ascii(result.text);
  for (int32_t at = piece.begin; at < piece.end; ++at) {
    const bool one_byte = ascii && at + 1 < piece.end;
    result.origin[static_cast<size_t>(at - piece.begin)] =
        one_byte ? Origin{at, at + 1} : origin_of(at, at + 1);
  }
  return result;
}

void WorkText::split(const Splitter& splitter) {
  std::vector<Piece> next, parts;
  next.reserve(pieces.size() * 2);
  for (const Piece& piece : pieces) {
    if (piece.token >= 0) {
      next.push_back(piece);
      continue;
    }
    parts.clear();
    splitter(text_of(piece), parts);
    for (const Piece& part : parts) {
      if (part.begin < part.end)
        next.push_back({piece.begin + part.begin, piece.begin + part.end, part.token});
    }
  }
  pieces = std::move(next);
}

void WorkText::rewrite(const std::function<void(AlignedText& text)>& change) {
  AlignedText whole;
  for (Piece& piece : pieces) {
    AlignedText part = aligned(piece);
    if (piece.token < 0) change(part);
    growth_.require(whole.text.size() + part.text.size());
    piece.begin = static_cast<int32_t>(whole.text.size());
    whole.text += part.text;
    whole.origin.insert(whole.origin.end(), part.origin.begin(), part.origin.end());
    piece.end = static_cast<int32_t>(whole.text.size());
  }
  std::erase_if(pieces, [](const Piece& piece) { return piece.token < 0 && piece.begin == piece.end; });
  changed_ = std::move(whole.text);
  origin_ = std::move(whole.origin);
  text_ = changed_;
}

}  // namespace forge::text
