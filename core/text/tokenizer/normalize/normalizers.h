#pragma once
// Normalizers: change the text before it is cut into words.
#include <memory>
#include <string>

#include "core/io/json.h"
#include "core/text/tokenizer/aligned_text.h"

namespace forge::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Asks text.require() before what it puts in, where the file decides how much that is.
  virtual void apply(AlignedText& text) const = 0;
  // Certainly changes nothing in this text; lets most text pass without being copied.
  virtual bool leaves(std::string_view) const { return false; }
};

// From the "normalizer" of a tokenizer.json. Throws Error(environment) naming an unknown type.
std::unique_ptr<Normalizer> make_normalizer(const Json& spec, const std::string& where);

// One component per file.
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
