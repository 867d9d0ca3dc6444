#pragma once
// Which bytes of a rendered conversation are trained.
//
//   TrainedText found = find_trained({name, messages, TrainTurns::assistant, marked, eos, render});
//   found.text.bytes.substr(found.spans[0].begin, …)   // "Paris.<|im_end|>\n"
//
// A template is a function from messages to text that says nothing of turns. Where it marks {% generation %}, the marks
// are what is trained. Elsewhere turns are found by rendering prefixes of the conversation, each of which must begin the
// text of all messages: a template for which that fails is refused, never masked wrongly.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/io/json.h"
#include "core/text/chat_template.h"
#include "core/text/jinja/marked_text.h"

namespace forge {

// Byte range [begin, end).
struct Span {
  int64_t begin, end;
};

struct SpanSearch {
  const std::string& template_name;
  const Json& messages;
  TrainTurns train_on;
  bool marks_generation;
  std::string eos;  // what a template may write behind the last turn only (Phi-3's); empty for nothing
  // The text of the first `count` messages, with or without a generation prompt behind them.
  std::function<jinja::MarkedText(size_t count, bool prompt)> render;
};

struct TrainedText {
  jinja::MarkedText text;
  std::vector<Span> spans;  // ascending, without overlap
};

// Throws Error(data) that names the turn whose span cannot be found.
TrainedText find_trained(const SpanSearch& search);

// "messages[3]", as messages call it.
std::string turn_name(size_t index);

}  // namespace forge
