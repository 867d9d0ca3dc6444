#pragma once
// Normalizers change the text before it is cut into words.
#include <memory>
#include <string>

#include "core/lib/io/json.h"
#include "core/lib/text/tokenizer/aligned_text.h"

namespace forge::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Normalises `text`. Calls text.require() before insertions whose size the file decides.
  virtual void apply(AlignedText& text) const = 0;
  // True if the text certainly does not change. This lets most texts pass without being copied.
  virtual bool leaves(std::string_view) const { return false; }
};

// Returns the normalizer for "normalizer" of a tokenizer.json. Throws Error(environment) naming an
// unknown type.
std::unique_ptr<Normalizer> make_normalizer(const Json& spec, const std::string& where);

// The normalizers, one file each.
enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::unique_ptr<Normalizer> make_unicode_form(NormalForm form);
std::unique_ptr<Normalizer> make_lowercase();
std::unique_ptr<Normalizer> make_bert_normalizer(const Json& spec, const std::string& where);
std::unique_ptr<Normalizer> make_precompiled(const std::string& charsmap, const std::string& where);
std::unique_ptr<Normalizer> make_simple_normalizer(const std::string& type, const Json& spec,
                                                   const std::string& where);

void apply_unicode_form(NormalForm form, AlignedText& text);
void apply_lowercase(AlignedText& text);

}  // namespace forge::text
