#include "core/lib/text/turn_spans.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge {

using jinja::MarkedText;

std::string turn_name(size_t index) { return "messages[" + std::to_string(index) + "]"; }

void data_fault(const std::string& message) { throw Error(ErrorKind::data, message); }

namespace {

bool turned_off(const Json& message, size_t index) {
  bool off = false;
  if (const auto train = message.find("train"); train != message.end() && !train->is_null()) {
    if (!train->is_boolean()) data_fault(turn_name(index) + ".train: expected true or false");
    off = !train->get<bool>();
  }
  if (const auto weight = message.find("weight"); weight != message.end() && !weight->is_null()) {
    if (!weight->is_number() || (weight->get<double>() != 0 && weight->get<double>() != 1))
      data_fault(turn_name(index) + ".weight: expected 0 or 1");
    off |= weight->get<double>() == 0;
  }
  return off;
}

bool is_assistant(const Json& message) { return message["role"] == "assistant"; }

std::vector<Span> generated_spans(const MarkedText& text) {
  std::vector<Span> spans;
  int64_t begin = 0;
  for (const jinja::MarkedRun& run : text.runs) {
    const bool joins = !spans.empty() && spans.back().end == begin;
    if (run.mark & jinja::kGenerated)
      joins ? void(spans.back().end = run.end) : spans.push_back({begin, run.end});
    begin = run.end;
  }
  return spans;
}

bool begins(const MarkedText& text, const MarkedText& prefix) {
  return text.bytes.compare(0, prefix.bytes.size(), prefix.bytes) == 0;
}

// Finds where turns begin and end by rendering prefixes of the conversation, each of which must
// begin the full text.
class PrefixSpans {
 public:
  PrefixSpans(const SpanSearch& search, const MarkedText& full) : search_(search), full_(full) {}

  // Returns the span that the assistant turn adds after its generation prompt.
  Span answer(size_t turn) const {
    const int64_t begin = prefix_size(turn, turn, true, "with its generation prompt");
    const int64_t end = end_of(turn);
    if (begin > end) unstable(turn, "the generation prompt is longer than the turn");
    return {begin, end};
  }

  // Set if answer() failed because the prompt contains text that the full text does not.
  const std::optional<MarkedText>& foreign_prompt() const { return foreign_prompt_; }

  Span whole(size_t turn) const {
    const int64_t begin = turn == 0 ? 0 : prefix_size(turn, turn, false, "before it");
    return {begin, end_of(turn)};
  }

 private:
  [[noreturn]] void unstable(size_t turn, const std::string& what, const std::string& hint = "") const {
    throw Error(ErrorKind::data, search_.template_name + ": the loss mask of " + turn_name(turn) +
                                     " cannot be found: " + what)
        .hint(!hint.empty()
                  ? hint
                  : "the template writes a turn differently when others follow (thinking removed, say); "
                    "train on each_assistant (every turn an example of its own) or last_assistant, or use a "
                    "template with {% generation %} markers");
  }

  bool stable_without_prompt(size_t count) const {
    try {
      return begins(full_, search_.render(count, false));
    } catch (const Error&) {
      return false;
    }
  }

  int64_t end_of(size_t turn) const {
    if (turn + 1 == search_.messages.size()) return full_.size();
    return prefix_size(turn, turn + 1, false, "up to and including it");
  }

  int64_t prefix_size(size_t turn, size_t count, bool prompt, const std::string& which) const {
    MarkedText prefix;
    try {
      prefix = search_.render(count, prompt);
    } catch (const Error& error) {
      unstable(turn, "the conversation " + which + " does not render (" + error.what() + ")");
    }
    const std::string& tail = search_.eos;
    const bool has_tail = !prompt && ends_with(prefix.bytes, tail) && ends_with(full_.bytes, tail);
    if (!begins(full_, prefix) && has_tail)
      prefix = prefix.slice(0, prefix.size() - static_cast<int64_t>(tail.size()));
    if (begins(full_, prefix)) return prefix.size();
    // A template that adds its own system turn inspects the first message, which an empty prefix
    // lacks.
    if (count == 0)
      unstable(turn,
               "the conversation begins with it, and the template writes more in front of it than its prompt",
               "begin the conversation with a turn of system or user");
    if (prompt && stable_without_prompt(count)) {
      foreign_prompt_ = std::move(prefix);
      unstable(turn,
               "the generation prompt writes text that the conversation does not hold (an opened thought, say)",
               "an answer that begins with it (\"<think>…</think>…\" in content) can be trained on "
               "each_assistant or last_assistant; a template with {% generation %} markers trains every answer");
    }
    unstable(turn, "the text of the conversation " + which + " is not the beginning of the whole text");
  }

  const SpanSearch& search_;
  const MarkedText& full_;
  mutable std::optional<MarkedText> foreign_prompt_;
};

// Returns the text without trailing whitespace.
std::string_view trim_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

// Continues a prompt that opens a thought. DeepSeek-R1's prompt ends with "<think>\n", and its
// template leaves thoughts out of conversations. An answer that begins with that opening is what
// the model has to say after such a prompt, word for word. The text that the template writes after
// the answer's visible part follows it. Returns nothing if the answer begins differently, or if the
// template does not show the part after the thought. An answer without a thought is refused there:
// nothing says how the model would have closed the thought.
std::optional<TrainedText> continue_prompt(const MarkedText& full, const MarkedText& prompt,
                                           const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || !content->is_string()) return std::nullopt;
  const std::string_view said = trim_end(content->get_ref<const std::string&>()), asked = prompt.bytes,
                         shown = full.bytes;
  const size_t tag = asked.rfind('<');
  if (tag == std::string_view::npos || shown.substr(0, tag) != asked.substr(0, tag)) return std::nullopt;
  const std::string_view opening = asked.substr(tag), name = trim_end(opening);
  if (name.size() < 3 || name.back() != '>' || !starts_with(said, opening)) return std::nullopt;
  const std::string close = "</" + std::string(name.substr(1));
  const size_t closed = said.rfind(close);
  if (closed == std::string_view::npos) return std::nullopt;
  const std::string_view rest = shown.substr(tag);
  std::string_view visible = said.substr(closed + close.size());
  if (!starts_with(rest, visible)) visible = trim(visible);
  if (visible.empty() || !starts_with(rest, visible)) return std::nullopt;
  jinja::TextBuilder text;
  text.add(prompt);
  text.add(said.substr(opening.size()), jinja::kFromData);
  text.add(full, static_cast<int64_t>(tag + visible.size()), full.size());
  MarkedText all = text.take();
  const Span answer{prompt.size(), all.size()};
  return TrainedText{std::move(all), {answer}};
}

std::vector<size_t> assistant_turns(const Json& messages) {
  std::vector<size_t> turns;
  for (size_t i = 0; i < messages.size(); ++i)
    if (is_assistant(messages[i])) turns.push_back(i);
  return turns;
}

std::vector<size_t> trained_turns(const Json& messages, TrainTurns train_on) {
  std::vector<size_t> turns = assistant_turns(messages);
  if (train_on == TrainTurns::last_assistant && turns.size() > 1) turns.erase(turns.begin(), turns.end() - 1);
  std::erase_if(turns, [&](size_t turn) { return turned_off(messages[turn], turn); });
  return turns;
}

std::vector<std::string_view> texts_of(const MarkedText& text, const std::vector<Span>& blocks) {
  std::vector<std::string_view> texts;
  for (const Span& block : blocks)
    texts.push_back(
        std::string_view(text.bytes)
            .substr(static_cast<size_t>(block.begin), static_cast<size_t>(block.end - block.begin)));
  return texts;
}

// Finds the blocks of {% generation %} that belong to `turns`. A turn may print several (its
// thoughts, its call) or none. A turn's blocks are those that appear when its message is added.
class MarkedTurns {
 public:
  MarkedTurns(const SpanSearch& search, const MarkedText& full)
      : search_(search),
        blocks_(generated_spans(full)),
        texts_(texts_of(full, blocks_)),
        all_(assistant_turns(search.messages)) {}

  std::vector<Span> of(const std::vector<size_t>& turns) const {
    if (turns.size() == all_.size()) return blocks_;
    std::vector<Span> spans;
    for (const size_t turn : turns) {
      const Prefix before = prefix(turn), with = prefix(turn + 1);
      const size_t nth = static_cast<size_t>(std::find(all_.begin(), all_.end(), turn) - all_.begin());
      const bool one_each = blocks_.size() == all_.size() && before.count == nth && with.count == nth + 1;
      if (!one_each && !(before.agrees && with.agrees && before.count <= with.count))
        throw Error(ErrorKind::data, search_.template_name +
                                         ": the blocks that the template marks as generated by " +
                                         turn_name(turn) + " cannot be told from those of other turns")
            .hint(
                "the template marks a turn differently when others follow; train on every assistant turn, or "
                "on each_assistant");
      spans.insert(spans.end(), blocks_.begin() + static_cast<std::ptrdiff_t>(before.count),
                   blocks_.begin() + static_cast<std::ptrdiff_t>(with.count));
    }
    return spans;
  }

 private:
  // The blocks of the first messages. They agree if they are also the first blocks of all messages.
  struct Prefix {
    size_t count = 0;
    bool agrees = true;
  };
  Prefix prefix(size_t count) const {
    if (count == 0) return {};
    if (count == search_.messages.size()) return {blocks_.size(), true};
    const MarkedText text = search_.render(count, false);
    const std::vector<std::string_view> texts = texts_of(text, generated_spans(text));
    const bool agrees =
        texts.size() <= texts_.size() && std::equal(texts.begin(), texts.end(), texts_.begin());
    return {texts.size(), agrees};
  }

  const SpanSearch& search_;
  std::vector<Span> blocks_;
  std::vector<std::string_view> texts_;
  std::vector<size_t> all_;
};

// Two prefixes are rendered for each trained turn, so the time grows with the square of the
// conversation: 16 s for 4,000 messages. A row that would take longer than a minute is refused.
// Rendering the conversation once and cutting it at its turns would hold only for templates that
// never look ahead, and the prefixes are there to find that out.
void require_short(size_t turns, size_t messages, const MarkedText& full) {
  const double seconds = static_cast<double>(turns) *
                         (2e-6 * static_cast<double>(messages) + 1e-9 * static_cast<double>(full.size()));
  if (seconds <= 60) return;
  throw Error(ErrorKind::data, format_count(static_cast<int64_t>(messages)) + " messages with " +
                                   format_count(static_cast<int64_t>(turns)) +
                                   " trained turns, whose mask would take minutes to find")
      .hint(
          "split the conversation, train on last_assistant, or use a template with {% generation %} markers");
}

// Returns the spans of everything but the turned-off messages.
std::vector<Span> all_spans(const PrefixSpans& prefixes, const MarkedText& full, const Json& messages) {
  std::vector<Span> spans;
  int64_t begin = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!turned_off(messages[i], i)) continue;
    const Span off = prefixes.whole(i);
    if (off.begin > begin) spans.push_back({begin, off.begin});
    begin = off.end;
  }
  if (begin < full.size()) spans.push_back({begin, full.size()});
  return spans;
}

// Returns the text, and the spans that the turns add after their prompts, found by rendering
// prefixes.
TrainedText answers_of(const SpanSearch& search, const PrefixSpans& prefixes, const MarkedText& full,
                       const std::vector<size_t>& turns) {
  require_short(turns.size(), search.messages.size(), full);
  std::vector<Span> spans;
  for (size_t turn : turns) {
    Span span;
    try {
      span = prefixes.answer(turn);
    } catch (const Error&) {
      const bool last_alone = turns.size() == 1 && turn + 1 == search.messages.size();
      if (!last_alone || !prefixes.foreign_prompt()) throw;
      auto continued = continue_prompt(full, *prefixes.foreign_prompt(), search.messages[turn]);
      if (!continued) throw;
      return std::move(*continued);
    }
    if (!spans.empty() && span.begin < spans.back().end)
      data_fault(search.template_name + ": " + turn_name(turn) +
                 " begins before the turn in front of it ends");
    spans.push_back(span);
  }
  return {full, std::move(spans)};
}

}  // namespace

TrainedText find_trained(const SpanSearch& search) {
  const Json& messages = search.messages;
  MarkedText full = search.render(messages.size(), false);
  const PrefixSpans prefixes(search, full);
  if (search.train_on == TrainTurns::all) {
    std::vector<Span> spans = all_spans(prefixes, full, messages);
    return {std::move(full), std::move(spans)};
  }
  const std::vector<size_t> turns = trained_turns(messages, search.train_on);
  if (!search.marks_generation) return answers_of(search, prefixes, full, turns);
  std::vector<Span> spans = MarkedTurns(search, full).of(turns);
  return {std::move(full), std::move(spans)};
}

}  // namespace forge
