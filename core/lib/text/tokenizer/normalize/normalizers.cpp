#include "core/lib/text/tokenizer/normalize/normalizers.h"

#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/load/json_fields.h"

namespace forge::text {
namespace {

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  void apply(AlignedText& text) const override {
    for (const auto& step : steps_) {
      step->apply(text);
      text.require(text.text.size());
    }
  }
  bool leaves(std::string_view text) const override {
    for (const auto& step : steps_) {
      if (!step->leaves(text)) return false;
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

using Maker = std::unique_ptr<Normalizer> (*)(const std::string& type, const Json& spec,
                                              const std::string& where);

std::unique_ptr<Normalizer> sequence(const std::string&, const Json& spec, const std::string& where) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  const Json& list = array_member(spec, "normalizers", where);
  for (size_t k = 0; k < list.size(); ++k) {
    steps.push_back(make_normalizer(list[k], where + ".normalizers[" + std::to_string(k) + "]"));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

std::unique_ptr<Normalizer> form(const std::string& type, const Json&, const std::string&) {
  return make_unicode_form(type == "NFC"    ? NormalForm::nfc
                           : type == "NFD"  ? NormalForm::nfd
                           : type == "NFKC" ? NormalForm::nfkc
                                            : NormalForm::nfkd);
}

std::unique_ptr<Normalizer> lowercase(const std::string&, const Json&, const std::string&) {
  return make_lowercase();
}

std::unique_ptr<Normalizer> bert(const std::string&, const Json& spec, const std::string& where) {
  return make_bert_normalizer(spec, where);
}

std::unique_ptr<Normalizer> precompiled(const std::string&, const Json& spec, const std::string& where) {
  return make_precompiled(string_member(spec, "precompiled_charsmap", where), where);
}

struct Entry {
  const char* type;
  Maker make;
};
constexpr Entry kNormalizers[] = {
    {"BertNormalizer", bert},
    {"ByteLevel", make_simple_normalizer},
    {"Lowercase", lowercase},
    {"NFC", form},
    {"NFD", form},
    {"NFKC", form},
    {"NFKD", form},
    {"Nmt", make_simple_normalizer},
    {"Precompiled", precompiled},
    {"Prepend", make_simple_normalizer},
    {"Replace", make_simple_normalizer},
    {"Sequence", sequence},
    {"Strip", make_simple_normalizer},
    {"StripAccents", make_simple_normalizer},
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json& spec, const std::string& where) {
  const std::string type = string_member(spec, "type", where);
  std::vector<std::string> names;
  for (const Entry& entry : kNormalizers) {
    if (type == entry.type) return entry.make(type, spec, where);
    names.push_back(entry.type);
  }
  throw Error(ErrorKind::environment,
              where + ": forge has no normalizer \"" + type + "\"" + did_you_mean(type, names))
      .hint("known: " + join(names, ", "));
}

}  // namespace forge::text
