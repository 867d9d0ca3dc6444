#pragma once
// Normalizers change the text before it is cut into words.
#include <functional>
#include <string>

#include "core/lib/io/json.h"
#include "core/lib/text/tokenizer/aligned_text.h"

namespace forge::text {

struct Normalizer {
  // Normalises `text`. Calls text.require() before insertions whose size the file decides.
  std::function<void(AlignedText& text)> apply;
  // True if the text certainly does not change. This lets most texts pass without being copied.
  std::function<bool(std::string_view text)> leaves = [](std::string_view) { return false; };

  explicit operator bool() const { return apply != nullptr; }
};

// Returns the normalizer for "normalizer" of a tokenizer.json. Throws Error(environment) naming an
// unknown type.
Normalizer make_normalizer(const Json& spec, const std::string& where);

// The normalizers, one file each.
Normalizer make_bert_normalizer(const std::string& type, const Json& spec,
                                const std::string& where);
Normalizer make_precompiled(const std::string& type, const Json& spec, const std::string& where);
Normalizer make_simple_normalizer(const std::string& type, const Json& spec,
                                  const std::string& where);
enum class NormalForm { nfc, nfd, nfkc, nfkd };
void apply_unicode_form(NormalForm form, AlignedText& text);
// Leaves out the characters of some classes (CharClass, unicode.h).
void remove_classes(AlignedText& text, uint32_t classes);
void apply_lowercase(AlignedText& text);

}  // namespace forge::text
