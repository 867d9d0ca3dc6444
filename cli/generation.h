#pragma once
// Text from a model, piece by piece: the part that generate and chat share.
#include <functional>
#include <string>
#include <vector>

#include "cli/model_choice.h"
#include "cli/progress.h"

namespace forge {

inline constexpr Option kSamplingOptions[] = {
    {"--max-new-tokens", "N", "maximum number of new tokens (default 256)"},
    {"--temperature", "T", "0 (default) takes the most likely token; higher values vary more"},
    {"--top-k", "N", "sample from the N most likely tokens (default: all)"},
    {"--top-p", "P", "sample from the most likely tokens with total probability P (default 1)"},
    {"--min-p", "P", "exclude tokens less likely than P times the most likely one (default 0)"},
    {"--repetition-penalty", "P",
     "make tokens that occurred before less likely, if above 1 (default 1)"},
    {"--stop", "TEXT", "end before this text, which is not printed", true},
    {"--seed", "N", "random seed; the same seed gives the same text (default 42)"},
    {"--lookup", "N",
     "guess up to N tokens at once from the prompt and the text so far; the result is the same "
     "(default 0)"},
    {"--choice", "TEXT", "write one of these texts and nothing else", true},
    {"--json-schema", "FILE",
     "write JSON valid under this schema, complete within --max-new-tokens"},
};

// Cuts a stream of text before the first of several texts. A possible beginning of one is held back
// until it turns out to be none.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // Returns the part of `piece`, and of what was held back before, that can be shown; nothing after
  // a stop.
  std::string push(const std::string& piece);
  // Returns the text that was held back at the end.
  std::string finish();
  bool met() const { return met_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool met_ = false;
};

struct GeneratedText {
  std::string text;
  std::string reason;  // stop or length
  int64_t tokens = 0;
};

// Returns the sampling options and the constraints on answers as the engine's request has them.
// Throws Error(usage).
Json sampling_request(const Arguments& args);

// Generates after all prompts together. `on_text` gets the number of the prompt and its text, piece
// by piece and prompt after prompt, with an empty piece at the end of each. With `engine`,
// generates after one prompt by it: the engine keeps what it has computed for the next call.
std::vector<GeneratedText> generate_texts(Json request, const std::vector<std::vector<int32_t>>& prompts,
                                          const ModelText& text, const ModelChoice& choice,
                                          const Arguments& args, Progress& progress,
                                          const std::function<void(size_t, const std::string&)>& on_text,
                                          ModelEngine* engine = nullptr);

}  // namespace forge
