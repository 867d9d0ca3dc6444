#include "core/lib/text/tokenizer.h"

#include <algorithm>

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/parts.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

using text::AddedToken;
using text::AlignedText;
using text::Piece;
using text::TokenFinder;
using text::WorkText;

constexpr size_t kLargestText = size_t{1} << 30;

void check_text(std::string_view text, const std::string& name) {
  if (text.size() > kLargestText) {
    throw Error(ErrorKind::data, name + ": a text of " + format_bytes(static_cast<int64_t>(text.size())) +
                                     ", expected at most " + format_bytes(kLargestText))
        .hint("split the text into several examples");
  }
  size_t bad = 0;
  if (!text::all_ascii(text) && !valid_utf8(text, &bad)) {
    throw Error(ErrorKind::data, name + ": the text is not UTF-8 at byte " + std::to_string(bad))
        .hint("convert the data to UTF-8");
  }
}

// Normalises every piece that is not an added token. Leaves the text unchanged if nothing would
// change.
void normalize(WorkText& work, const text::Normalizer& normalizer) {
  const bool same = std::all_of(work.pieces.begin(), work.pieces.end(), [&](const Piece& piece) {
    return piece.token >= 0 || normalizer.leaves(work.text_of(piece));
  });
  if (!same) work.rewrite(normalizer.apply);
}

// The places where control tokens are allowed: sorted, disjoint ranges of the input.
struct Allowed {
  bool everywhere = true;
  bool hides = true;  // a control token that is not parsed still hides tokens that begin inside it
  std::vector<text::Origin> ranges;

  bool holds(text::Origin place) const {
    const auto behind =
        std::upper_bound(ranges.begin(), ranges.end(), place.begin,
                         [](int32_t at, const text::Origin& range) { return at < range.begin; });
    return behind != ranges.begin() && place.end <= std::prev(behind)->end;
  }
};

void find_added(WorkText& work, const TokenFinder& finder, const TokenizerParts& parts,
                const Allowed& allowed) {
  if (finder.empty()) return;
  work.split([&](std::string_view text, std::vector<Piece>& found) {
    const int64_t shift = text.data() - work.text().data();
    const auto judge = [&](const AddedToken& token, size_t begin, size_t end) {
      if (allowed.everywhere || !parts.special_contents.contains(token.content))
        return TokenFinder::Verdict::take;
      const text::Origin place =
          work.origin_of(shift + static_cast<int64_t>(begin), shift + static_cast<int64_t>(end));
      if (allowed.holds(place)) return TokenFinder::Verdict::take;
      return allowed.hides ? TokenFinder::Verdict::pass_over : TokenFinder::Verdict::not_there;
    };
    finder.find(text, judge, found);
  });
}

// Does everything before the model: added tokens, normalisation, words.
void prepare(WorkText& work, const TokenizerParts& parts, const Allowed& allowed) {
  if (!work.input().empty()) work.pieces = {{0, static_cast<int32_t>(work.input().size()), -1}};
  find_added(work, parts.raw_tokens, parts, allowed);
  if (parts.normalizer) normalize(work, parts.normalizer);
  find_added(work, parts.normalized_tokens, parts, allowed);
  if (parts.pre_tokenizer) parts.pre_tokenizer(work);
}

std::vector<TokenSpan> encode_spans(std::string_view input, const TokenizerParts& parts,
                                    const Allowed& allowed, bool add_special_tokens) {
  check_text(input, parts.name);
  WorkText work(input, parts.name);
  prepare(work, parts, allowed);
  text::Encoding encoding{input, {}, {}};
  std::vector<std::string> added_texts;  // input covered by added tokens, by token index; used for trimming
  std::vector<text::WordToken> tokens;
  for (const Piece& piece : work.pieces) {
    if (piece.token >= 0) {
      const text::Origin place = work.origin_of(piece.begin, piece.end);
      added_texts.resize(encoding.tokens.size() + 1);
      added_texts.back() = std::string(work.text_of(piece));
      encoding.tokens.push_back({piece.token, place.begin, place.end});
      continue;
    }
    tokens.clear();
    parts.model->encode(work.text_of(piece), tokens);
    for (const text::WordToken& token : tokens) {
      const text::Origin place = work.origin_of(piece.begin + token.begin, piece.begin + token.end);
      encoding.tokens.push_back({token.id, place.begin, place.end});
    }
  }
  encoding.text_of = [&](const TokenSpan& token, size_t index) -> std::string {
    if (index < added_texts.size() && !added_texts[index].empty()) return added_texts[index];
    const std::string* text = parts.model->vocabulary().token_of(token.id);
    return text == nullptr ? "" : *text;
  };
  post_process(parts.post_processor, encoding, add_special_tokens);
  return std::move(encoding.tokens);
}

Allowed allowed_by(const EncodeOptions& options) { return {options.parse_special, true, {}}; }

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

std::vector<TokenSpan> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return encode_spans(text, *parts_, allowed_by(options), options.add_special_tokens);
}

void Tokenizer::encode_ids(std::string_view text, std::vector<int32_t>& ids,
                           const EncodeOptions& options) const {
  check_text(text, parts_->name);
  WorkText work(text, parts_->name);
  prepare(work, *parts_, allowed_by(options));
  if (options.add_special_tokens) ids.insert(ids.end(), parts_->before.begin(), parts_->before.end());
  for (const Piece& piece : work.pieces) {
    if (piece.token >= 0) {
      ids.push_back(piece.token);
    } else {
      parts_->model->encode_ids(work.text_of(piece), ids);
    }
  }
  if (options.add_special_tokens) ids.insert(ids.end(), parts_->behind.begin(), parts_->behind.end());
}

std::vector<TokenSpan> Tokenizer::encode_segments(const std::vector<TextSegment>& segments,
                                                  bool add_special_tokens) const {
  std::string joined;
  Allowed allowed{false, false, {}};
  for (const TextSegment& segment : segments) {
    const size_t begin = joined.size();
    joined += segment.text;
    if (joined.size() > kLargestText) break;  // check_text reports it
    if (!segment.may_hold_special || segment.text.empty()) continue;
    if (!allowed.ranges.empty() && allowed.ranges.back().end == static_cast<int32_t>(begin)) {
      allowed.ranges.back().end = static_cast<int32_t>(joined.size());
    } else {
      allowed.ranges.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(joined.size())});
    }
  }
  return encode_spans(joined, *parts_, allowed, add_special_tokens);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  std::string bytes;  // for the byte-level decoder, which does not need separate tokens
  for (const int32_t id : ids) {
    const std::string* token = parts_->decoded_token(id);
    if (token == nullptr || (skip_special && parts_->special_contents.contains(*token))) continue;
    if (parts_->byte_decoder) {
      bytes += text::byte_level_bytes(*token);
    } else {
      tokens.push_back(*token);
    }
  }
  if (parts_->byte_decoder) return text::replace_invalid_utf8(bytes);
  if (!parts_->decoder) return join(tokens, " ");
  parts_->decoder(tokens);
  return join(tokens, "");
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const { return parts_->id_of(token); }

std::optional<std::string> Tokenizer::token_of(int32_t id) const {
  if (const auto added = parts_->added.find(id); added != parts_->added.end()) return added->second.content;
  const std::string* token = parts_->model->vocabulary().token_of(id);
  return token == nullptr ? std::nullopt : std::optional(*token);
}

std::optional<std::string> Tokenizer::bytes_of(int32_t id) const {
  const std::string* token = parts_->decoded_token(id);
  if (token == nullptr) return std::nullopt;
  if (parts_->byte_decoder) return text::byte_level_bytes(*token);
  const int byte = text::byte_token(*token);
  if (byte < 0 || !parts_->decoder) return std::nullopt;
  std::vector<std::string> alone{*token};
  parts_->decoder(alone);  // without a byte fallback it is the text that it looks like
  return join(alone, "") == *token ? std::nullopt : std::optional(std::string(1, static_cast<char>(byte)));
}

int64_t Tokenizer::vocab_size() const { return parts_->max_id() + 1; }

bool Tokenizer::is_special(int32_t id) const {
  const auto added = parts_->added.find(id);
  return added != parts_->added.end() && added->second.special;
}

bool Tokenizer::is_mark(int32_t id) const {
  const auto added = parts_->added.find(id);
  if (added == parts_->added.end()) return false;
  // Gemma's runs of newlines and spaces (of U+2581, as SentencePiece writes them) are added tokens.
  std::string shown = added->second.content;
  for (size_t at; (at = shown.find("▁")) != shown.npos;) shown.erase(at, std::string_view("▁").size());
  return added->second.special || !trim(shown).empty();
}

std::vector<std::string> Tokenizer::tokens_that_see_beside() const {
  std::vector<std::string> names;
  for (const auto& [id, token] : parts_->added)
    if (token.lstrip || token.rstrip || token.single_word) names.push_back(token.content);
  std::sort(names.begin(), names.end());
  return names;
}

std::string Tokenizer::control_token_in(std::string_view text) const {
  using Verdict = text::TokenFinder::Verdict;
  std::vector<Piece> pieces;
  const auto judge = [](const AddedToken& token, size_t, size_t) { return token.special ? Verdict::take : Verdict::not_there; };
  if (!parts_->raw_tokens.empty()) parts_->raw_tokens.find(text, judge, pieces);
  const auto first = std::find_if(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.token >= 0; });
  return first == pieces.end() ? "" : parts_->added.at(first->token).content;
}

std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return parts_->eos_id; }
std::optional<int32_t> Tokenizer::pad_id() const { return parts_->pad_id; }
std::optional<int32_t> Tokenizer::unk_id() const { return parts_->unk_id; }

bool Tokenizer::adds_bos() const {
  return parts_->bos_id && !parts_->before.empty() && parts_->before.front() == *parts_->bos_id;
}
bool Tokenizer::adds_eos() const {
  return parts_->eos_id && !parts_->behind.empty() && parts_->behind.back() == *parts_->eos_id;
}

const std::string& Tokenizer::content_hash() const { return parts_->content_hash; }

const std::string& Tokenizer::class_note() const { return parts_->class_note; }

// DecodeStream decodes the tokens since a point where the text was complete, with a few tokens of
// context before it. Decoders that look at neighbours (a leading space, runs of byte tokens) need
// that context.
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
