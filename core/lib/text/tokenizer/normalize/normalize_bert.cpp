// BertNormalizer: removes control characters, puts spaces around Chinese characters, strips
// accents, lowercases.
#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/normalize/normalizers.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

bool is_chinese(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void clean(AlignedText& text) {
  remove_classes(text, kBertControl);
  text.map([](uint32_t code) { return classes_of(code) & kSpace ? ' ' : code; });
}

void space_chinese(AlignedText& text) {
  std::vector<Change> changes;
  for (size_t at = 0; at < text.text.size();) {
    const uint32_t code = next_char(text.text, at);
    if (is_chinese(code)) {
      changes.insert(changes.end(), {{' ', 0}, {code, 1}, {' ', 1}});
    } else {
      changes.push_back({code, 0});
    }
  }
  text.transform(changes);
}

}  // namespace

Normalizer make_bert_normalizer(const std::string&, const Json& spec, const std::string& where) {
  const bool lowercase = bool_member(spec, "lowercase", where, true);
  const bool cleans = bool_member(spec, "clean_text", where, true);
  const bool chinese = bool_member(spec, "handle_chinese_chars", where, true);
  const bool accents = bool_member(spec, "strip_accents", where, lowercase);
  return {[=](AlignedText& text) {
    if (cleans) clean(text);
    if (chinese && !all_ascii(text.text)) space_chinese(text);
    if (accents) {
      apply_unicode_form(NormalForm::nfd, text);
      remove_classes(text, kBertAccent);
    }
    if (lowercase) apply_lowercase(text);
  }};
}

}  // namespace forge::text
