#include "core/model/families/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/lib/base/key_error.h"

namespace forge {

struct Pattern::State {
  std::string expression, key;
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  pcre2_match_context* limits = nullptr;
  ~State() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(limits);
    pcre2_code_free(code);
  }
};

Pattern::Pattern(const std::string& expression, const std::string& key) : state_(std::make_unique<State>()) {
  state_->expression = expression;
  state_->key = key;
  int fault = 0;
  PCRE2_SIZE offset = 0;
  const std::string whole = "\\A(?:" + expression + ")\\z";
  state_->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(), 0, &fault, &offset, nullptr);
  if (!state_->code) {
    PCRE2_UCHAR text[160];
    pcre2_get_error_message(fault, text, sizeof(text));
    throw KeyError(ErrorKind::job, key,
                   std::string("not a regular expression: ") + reinterpret_cast<char*>(text) + " in \"" +
                       expression + "\"");
  }
  state_->match = pcre2_match_data_create_from_pattern(state_->code, nullptr);
  state_->limits = pcre2_match_context_create(nullptr);
  // Module paths have at most a few hundred bytes: a sane expression needs far fewer steps.
  pcre2_set_match_limit(state_->limits, 100'000);
  pcre2_set_depth_limit(state_->limits, 10'000);
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

bool Pattern::matches(const std::string& text) const {
  const int found = pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                                state_->match, state_->limits);
  if (found >= 0) return true;
  if (found == PCRE2_ERROR_NOMATCH) return false;
  throw KeyError(
      ErrorKind::job, state_->key,
      "the expression \"" + state_->expression + "\" needs too many steps to match \"" + text + "\"",
      "write it without nested repetition");
}

}  // namespace forge
