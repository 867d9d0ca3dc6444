#pragma once
// Finds the bytes of a rendered conversation that are trained.
//
//   TrainedText found = find_trained({name, messages, TrainTurns::assistant, marked, eos, render});
//   found.text.bytes.substr(found.spans[0].begin, …)   // "Paris.<|im_end|>\n"
//
// A template is a function from messages to text that does not tell turns apart. If it marks
// {% generation %}, the marked text is trained. Otherwise turns are found by rendering prefixes of
// the conversation, each of which must begin the text of all messages. A template for which that
// fails is refused, never masked wrongly.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/lib/io/json.h"
#include "core/lib/text/chat_template.h"
#include "core/lib/text/jinja/marked_text.h"

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
  std::string eos;  // what a template may write after the last turn only (Phi-3's); empty: nothing
  // Returns the text of the first `count` messages, with or without a generation prompt after them.
  std::function<jinja::MarkedText(size_t count, bool prompt)> render;
};

struct TrainedText {
  jinja::MarkedText text;
  std::vector<Span> spans;  // ascending, without overlap
};

// Returns the trained text and its spans. Throws Error(data) that names the turn whose span cannot
// be found.
TrainedText find_trained(const SpanSearch& search);

// Throws Error(data).
[[noreturn]] void data_fault(const std::string& message);

// Returns "messages[3]", the name of a turn in messages.
std::string turn_name(size_t index);

}  // namespace forge
