#include "core/lib/schema/text_form.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "core/lib/base/error.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {

std::string composed(std::string_view text, bool casefold) {
  if (text::all_ascii(text) && !casefold) return std::string(text);
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | (casefold ? UTF8PROC_CASEFOLD : 0));
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                              static_cast<utf8proc_ssize_t>(text.size()), &out, options);
  FORGE_CHECK(bytes >= 0, "utf8proc: " << utf8proc_errmsg(bytes));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(out, std::free);
  return {reinterpret_cast<const char*>(out), static_cast<size_t>(bytes)};
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    if ((text::classes_of(text::next_char(text, at)) & text::kSpace) == 0) continue;
    if (here > begin) words.push_back(text.substr(begin, here - begin));
    begin = at;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
  return words;
}

}  // namespace forge
