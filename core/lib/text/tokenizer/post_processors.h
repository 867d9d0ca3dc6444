#pragma once
// Post-processors trim offsets and put a template's tokens around the text's.
#include <functional>
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

struct PostStep {
  bool trims = false, add_prefix_space = true;  // trims offsets
  std::vector<int32_t> before, behind;  // ids that add_special_tokens puts around the text's own
};

using PostProcessor = std::vector<PostStep>;
void post_process(const PostProcessor& steps, Encoding& encoding, bool add_special_tokens);

// Returns the post-processor for "post_processor" of a tokenizer.json. Throws Error(environment)
// naming an unknown type.
PostProcessor make_post_processor(const Json& spec, const std::string& where);

}  // namespace forge::text
