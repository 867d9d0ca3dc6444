#pragma once
// Text between input and tokens that stores, for each of its bytes, the bytes of the input that it
// came from.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forge::text {

// Bytes [begin, end) of the input.
struct Origin {
  int32_t begin = 0;
  int32_t end = 0;
};

// A character of a changed text. `change` gives its origin in the package's form: 0 replaces the
// next old character; -n replaces the next and swallows n more; 1 is new and shares the place of
// the character before it.
struct Change {
  uint32_t code;
  int32_t change;
};

// Limit on the growth of a text under a tokenizer's rules. The rules come from outside: a few that
// double a text fill any memory. The known ones stay below 12 times (NFKC of one Arabic ligature),
// and long texts below twice.
struct Growth {
  Growth(const std::string& tokenizer, size_t input_bytes);
  // Throws Error(environment) naming the tokenizer if `bytes` are more than its rules may make of
  // the input.
  void require(size_t bytes) const;

  const std::string& tokenizer;
  size_t input_bytes, limit;
};

struct AlignedText {
  std::string text;
  std::vector<Origin> origin;      // one per byte of text
  const Growth* growth = nullptr;  // bound of the text; null: none

  // Checks the limit before the text grows to `bytes`.
  void require(size_t bytes) const {
    if (growth) growth->require(bytes);
  }

  // Rewrites the whole text; `skipped` old characters are dropped at the front.
  void transform(const std::vector<Change>& changes, int64_t skipped = 0);
  // Puts `prefix` in front, with the place of the first character. An empty text stays empty.
  void prepend(std::string_view prefix);
  // Replaces every character by what `map` returns; where that is nothing, leaves it out.
  void map(const std::function<std::optional<uint32_t>(uint32_t)>& map);
  // Replaces every byte by its character of GPT-2's alphabet.
  void to_alphabet();
};

// A part of the working text: [begin, end), and the id of its added token, or -1.
struct Piece {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t token = -1;
};

// The whole text being encoded, cut into pieces. Until a change, `text` is the input itself and
// `origin` is empty: a byte's origin is then the character that holds it.
class WorkText {
 public:
  // `tokenizer` names the tokenizer whose rules change the text. It must outlive this.
  WorkText(std::string_view input, const std::string& tokenizer)
      : input_(input), text_(input), growth_(tokenizer, input.size()) {}
  WorkText(const WorkText&) = delete;
  WorkText& operator=(const WorkText&) = delete;

  std::string_view input() const { return input_; }
  std::string_view text() const { return text_; }
  std::string_view text_of(const Piece& piece) const {
    return text_.substr(static_cast<size_t>(piece.begin), static_cast<size_t>(piece.end - piece.begin));
  }
  // Returns the input bytes of text bytes [begin, end), begin < end.
  Origin origin_of(int64_t begin, int64_t end) const;
  AlignedText aligned(const Piece& piece) const;

  // Cuts every piece that is not a token. The splitter appends parts in order; empty ones are
  // dropped.
  using Splitter = std::function<void(std::string_view text, std::vector<Piece>& parts)>;
  void split(const Splitter& splitter);
  // Changes the text of every piece that is not a token. Throws as Growth::require does.
  void rewrite(const std::function<void(AlignedText& text)>& change);

  std::vector<Piece> pieces;

 private:
  std::string_view input_;
  std::string_view text_;
  std::string changed_;  // owns text_ once something changed
  std::vector<Origin> origin_;
  Growth growth_;
};

}  // namespace forge::text
