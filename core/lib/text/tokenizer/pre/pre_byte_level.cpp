// ByteLevel: GPT-2's words, then every byte as a printable character of its alphabet. When the
// model reads bytes itself, the second half is left out and the text stays the input.
#include "core/lib/text/tokenizer/pre/pre_tokenizers.h"
#include "core/lib/text/tokenizer/scanner.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, bool raw_bytes)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex), raw_bytes_(raw_bytes) {}

  void apply(WorkText& work) const override {
    if (add_prefix_space_ && lacks_space(work)) {
      work.rewrite([](AlignedText& text) {
        if (!text.text.empty() && text.text[0] != ' ') text.prepend(" ");
      });
    }
    if (use_regex_) {
      work.split([](std::string_view text, std::vector<Piece>& parts) { scan(Scanner::gpt2, text, parts); });
    }
    if (!raw_bytes_) work.rewrite(to_alphabet);
  }

 private:
  static bool lacks_space(const WorkText& work) {
    for (const Piece& piece : work.pieces) {
      if (piece.token < 0 && !work.text_of(piece).starts_with(' ')) return true;
    }
    return false;
  }

  static void to_alphabet(AlignedText& text) {
    AlignedText mapped{.growth = text.growth};
    for (size_t at = 0; at < text.text.size(); ++at) {
      append_utf8(mapped.text, byte_to_alphabet(static_cast<unsigned char>(text.text[at])));
      mapped.origin.resize(mapped.text.size(), text.origin[at]);
    }
    text = std::move(mapped);
  }

  bool add_prefix_space_, use_regex_, raw_bytes_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool raw_bytes) {
  return std::make_unique<ByteLevel>(add_prefix_space, use_regex, raw_bytes);
}

}  // namespace forge::text
