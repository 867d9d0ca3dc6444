// Split cuts at the matches of a pattern. The patterns of the well-known tokenizers have
// hand-written scanners.
#include <optional>

#include "core/lib/text/tokenizer/pre/pre_tokenizers.h"
#include "core/lib/text/tokenizer/regex.h"
#include "core/lib/text/tokenizer/scanner.h"

namespace forge::text {
namespace {

class Split : public PreTokenizer {
 public:
  Split(Regex regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  void apply(WorkText& work) const override {
    std::vector<Match> matches;
    work.split([&](std::string_view text, std::vector<Piece>& parts) {
      matches.clear();
      size_t last = 0;
      regex_.each_match(text, [&](size_t begin, size_t end) {
        if (last != begin)
          matches.push_back({static_cast<int32_t>(last), static_cast<int32_t>(begin), invert_});
        matches.push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end), !invert_});
        last = end;
      });
      if (last != text.size()) {
        matches.push_back({static_cast<int32_t>(last), static_cast<int32_t>(text.size()), invert_});
      }
      cut(matches, behavior_, parts);
    });
  }

 private:
  Regex regex_;
  SplitBehavior behavior_;
  bool invert_;
};

// A pattern whose matches cover every text, with a behavior that keeps each match as one part.
class ScannedSplit : public PreTokenizer {
 public:
  explicit ScannedSplit(Scanner scanner) : scanner_(scanner) {}
  void apply(WorkText& work) const override {
    work.split([&](std::string_view text, std::vector<Piece>& parts) { scan(scanner_, text, parts); });
  }

 private:
  Scanner scanner_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_split(const std::string& pattern, bool is_regex, SplitBehavior behavior,
                                         bool invert, const std::string& where) {
  const bool keeps_matches =
      (behavior == SplitBehavior::isolated) || (behavior == SplitBehavior::removed && invert);
  if (const auto scanner = scanner_of(pattern); is_regex && keeps_matches && scanner) {
    return std::make_unique<ScannedSplit>(*scanner);
  }
  return std::make_unique<Split>(is_regex ? Regex(pattern, where) : Regex::literal(pattern, where), behavior,
                                 invert);
}

}  // namespace forge::text
