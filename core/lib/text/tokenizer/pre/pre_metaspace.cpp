// Metaspace: spaces become a visible character (▁), one may be put in front, and words begin at it.
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/pre/pre_tokenizers.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

enum class Prepend { always, first, never };

class Metaspace : public PreTokenizer {
 public:
  Metaspace(uint32_t replacement, Prepend prepend, bool split)
      : code_(replacement), prepend_(prepend), split_(split) {
    append_utf8(replacement_, replacement);
  }

  void apply(WorkText& work) const override {
    work.rewrite([this](AlignedText& text) { replace(text); });
    if (!split_) return;
    std::vector<Match> matches;
    work.split([&](std::string_view text, std::vector<Piece>& parts) {
      matches.clear();
      match_characters(
          text, [this](uint32_t code) { return code == code_; }, matches);
      cut(matches, SplitBehavior::merged_with_next, parts);
    });
  }

 private:
  void replace(AlignedText& text) const {
    text.map([this](uint32_t code) { return code == ' ' ? code_ : code; });
    if (text.text.empty() || text.text.starts_with(replacement_)) return;
    const bool at_start = text.origin.front().begin == 0;
    if (prepend_ == Prepend::always || (prepend_ == Prepend::first && at_start)) text.prepend(replacement_);
  }

  uint32_t code_;
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_metaspace(const Json& spec, const std::string& where) {
  const std::string scheme = string_member(spec, "prepend_scheme", where, "always");
  Prepend prepend = Prepend::always;
  if (scheme == "first") {
    prepend = Prepend::first;
  } else if (scheme == "never") {
    prepend = Prepend::never;
  } else if (scheme != "always") {
    throw Error(ErrorKind::environment,
                where + ": prepend_scheme: expected always, first or never, found \"" + scheme + "\"");
  }
  if (!bool_member(spec, "add_prefix_space", where, true)) {
    if (prepend != Prepend::never) {
      throw Error(ErrorKind::environment,
                  where + ": add_prefix_space: false contradicts prepend_scheme: " + scheme);
    }
  }
  return std::make_unique<Metaspace>(character_member(spec, "replacement", where), prepend,
                                     bool_member(spec, "split", where, true));
}

}  // namespace forge::text
