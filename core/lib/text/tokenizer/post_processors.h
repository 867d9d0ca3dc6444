#pragma once
// Post-processors trim offsets and put a template's tokens around the text's.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/lib/io/json.h"
#include "core/lib/text/tokenizer.h"

namespace forge::text {

// A text's tokens during post-processing.
struct Encoding {
  std::string_view input;
  std::vector<TokenSpan> tokens;
  // Returns the text of a token, for trimming.
  std::function<std::string(const TokenSpan& token, size_t index)> text_of;
};

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void apply(Encoding& encoding, bool add_special_tokens) const = 0;
  // Appends the ids that add_special_tokens puts before and after the text's own. Apart from
  // offsets, a processor does nothing else.
  virtual void wrap(std::vector<int32_t>& before, std::vector<int32_t>& behind) const = 0;
};

// Returns the post-processor for "post_processor" of a tokenizer.json. Throws Error(environment)
// naming an unknown type.
std::unique_ptr<PostProcessor> make_post_processor(const Json& spec, const std::string& where);
// Returns the template that puts these ids before and after a text.
std::unique_ptr<PostProcessor> make_template(std::vector<int32_t> before, std::vector<int32_t> behind);

}  // namespace forge::text
