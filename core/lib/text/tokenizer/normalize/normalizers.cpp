#include "core/lib/text/tokenizer/normalize/normalizers.h"

#include <algorithm>

#include "core/lib/text/tokenizer/load/json_fields.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge::text {
namespace {

Normalizer sequence(const std::string&, const Json& spec, const std::string& where) {
  std::vector<Normalizer> steps;
  const Json& list = array_member(spec, "normalizers", where);
  for (size_t k = 0; k < list.size(); ++k) {
    steps.push_back(make_normalizer(list[k], where + ".normalizers[" + std::to_string(k) + "]"));
  }
  const auto apply = [steps](AlignedText& text) {
    for (const Normalizer& step : steps) {
      step.apply(text);
      text.require(text.text.size());
    }
  };
  return {apply, [steps](std::string_view text) {
            return std::ranges::all_of(steps,
                                       [&](const Normalizer& step) { return step.leaves(text); });
          }};
}

Normalizer form(const std::string& type, const Json&, const std::string&) {
  const NormalForm form = type == "NFC"    ? NormalForm::nfc
                          : type == "NFD"  ? NormalForm::nfd
                          : type == "NFKC" ? NormalForm::nfkc
                                           : NormalForm::nfkd;
  return {[form](AlignedText& text) { apply_unicode_form(form, text); }, all_ascii};
}

using Maker = Normalizer (*)(const std::string& type, const Json& spec, const std::string& where);

constexpr std::pair<const char*, Maker> kNormalizers[] = {
    {"BertNormalizer", make_bert_normalizer},
    {"ByteLevel", make_simple_normalizer},
    {"Lowercase", make_simple_normalizer},
    {"NFC", form},
    {"NFD", form},
    {"NFKC", form},
    {"NFKD", form},
    {"Nmt", make_simple_normalizer},
    {"Precompiled", make_precompiled},
    {"Prepend", make_simple_normalizer},
    {"Replace", make_simple_normalizer},
    {"Sequence", sequence},
    {"Strip", make_simple_normalizer},
    {"StripAccents", make_simple_normalizer},
};

}  // namespace

Normalizer make_normalizer(const Json& spec, const std::string& where) {
  const std::string type = string_member(spec, "type", where);
  return maker_of(kNormalizers, type, "normalizer", where)(type, spec, where);
}

}  // namespace forge::text
