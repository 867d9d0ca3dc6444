#pragma once
// Post-processors: trim offsets and put a template's tokens around the text's.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/json.h"
#include "core/text/tokenizer.h"

namespace forge::text {

// A text's tokens on their way through the post-processors.
struct Encoding {
  std::string_view input;
  std::vector<TokenSpan> tokens;
  // The text of a token, for trimming.
  std::function<std::string(const TokenSpan& token, size_t index)> text_of;
};

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void apply(Encoding& encoding, bool add_special_tokens) const = 0;
  // Ids put before and behind the text's own with add_special_tokens; offsets aside, that is all a processor
  // does.
  virtual void wrap(std::vector<int32_t>& before, std::vector<int32_t>& behind) const = 0;
};

// From the "post_processor" of a tokenizer.json. Throws Error(environment) naming an unknown type.
std::unique_ptr<PostProcessor> make_post_processor(const Json& spec, const std::string& where);
// The template [before…] text [behind…].
std::unique_ptr<PostProcessor> make_template(std::vector<int32_t> before, std::vector<int32_t> behind);

}  // namespace forge::text
