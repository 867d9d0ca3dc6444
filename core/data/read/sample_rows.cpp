#include "core/data/read/sample_rows.h"

#include "core/data/read/expand.h"
#include "core/data/read/sources.h"
#include "core/data/rows/formats/format.h"
#include "core/data/rows/rows.h"
#include "core/learn/reward/rewards.h"
#include "core/lib/base/text.h"
#include "core/lib/io/column.h"

namespace forge {
namespace {

bool has(const Json& row, const char* key) { return member(row, key) != nullptr; }

// Returns the text of a message's content, or a text itself.
std::optional<std::string> text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content")) return text_of(value["content"]);
  // TRL's conversational completions are a list of one message.
  if (value.is_array() && value.size() == 1) return text_of(value[0]);
  return std::nullopt;
}

class RowSamples {
 public:
  RowSamples(const SampleRowOptions& options, std::vector<RewardSample>& samples)
      : options_(options), samples_(samples) {}

  void add(const Json& row, const std::string& place, RowFaults& faults) {
    const size_t before = samples_.size();
    if (!row.is_object())
      faults.push_back({"", "the row is not an object"});
    else if (!options_.completion.empty())
      add_column(row, options_.completion, faults);
    else if (has(row, "completions") || has(row, "completion"))
      add_column(row, has(row, "completions") ? "completions" : "completion", faults);
    else
      add_shape(row, faults);
    const auto shared = std::make_shared<const Json>(row);
    const bool several = samples_.size() > before + 1;
    for (size_t i = before; i < samples_.size(); ++i) {
      RewardSample& sample = samples_[i];
      sample.id = static_cast<int64_t>(i);
      sample.group = group_;
      sample.row = shared;
      sample.truncated = row.value("finish", Json()) == "length";
      sample.place = place + (several ? " (" + std::to_string(i - before + 1) + " of " +
                                            std::to_string(samples_.size() - before) + ")"
                                      : "");
    }
    ++group_;
  }

 private:
  void add_column(const Json& row, const std::string& column, RowFaults& faults) {
    const Json* value = find_column(row, column);
    if (!value || value->is_null()) {
      faults.push_back({"", "the row has no " + column + ", expected a completion"});
      return;
    }
    const bool one = text_of(*value).has_value();
    if (!one && (!value->is_array() || value->empty())) {
      faults.push_back({"/" + column, column + " is neither a text nor a list of texts"});
      return;
    }
    RewardSample sample;
    if (const Json* prompt = find_column(row, options_.prompt)) set_prompt(*prompt, sample);
    for (size_t i = 0; i < (one ? 1 : value->size()); ++i) {
      const std::optional<std::string> text = text_of(one ? *value : (*value)[i]);
      if (!text) faults.push_back({"/" + column + "/" + std::to_string(i), "a completion is not a text"});
      sample.completion = text.value_or("");
      samples_.push_back(sample);
    }
  }
  static void set_prompt(const Json& prompt, RewardSample& sample) {
    if (prompt.is_array() && !prompt.empty()) sample.messages = prompt;
    sample.prompt = text_of(prompt.is_array() && !prompt.empty() ? prompt.back() : prompt).value_or("");
  }

  void add_shape(const Json& row, RowFaults& faults) {
    const RowFormat format = has(row, "chosen")                                      ? RowFormat::preference
                             : has(row, "messages")                                  ? RowFormat::messages
                             : has(row, "conversations") || has(row, "conversation") ? RowFormat::sharegpt
                             : has(row, "instruction") && has(row, "output")         ? RowFormat::alpaca
                                                                                     : RowFormat::automatic;
    if (format == RowFormat::automatic) {
      faults.push_back({"", "the row has no completion, only " + join(keys_of(row), ", ")});
      return;
    }
    const std::optional<Row> converted = convert_row(row, format, {}, faults);
    if (!converted) return;
    if (const auto* answers = std::get_if<AnswersRow>(&*converted))
      for (const AnswersRow::Answer& answer : answers->answers)
        std::visit([&](const auto& kind) { add_answer(kind, faults); }, answer.row);
    else if (const auto* chat = std::get_if<ChatRow>(&*converted))
      add_answer(*chat, faults);
    else if (const auto* pair = std::get_if<PairRow>(&*converted))
      add_answer(*pair, faults);
  }
  void add_answer(const PairRow& pair, RowFaults&) {
    RewardSample sample;
    sample.prompt = pair.prompt;
    sample.completion = pair.completion;
    samples_.push_back(std::move(sample));
  }
  void add_answer(const ChatRow& chat, RowFaults& faults) {
    const bool answered = !chat.messages.empty() && chat.messages.back().value("role", "") == "assistant";
    const std::optional<std::string> text = answered ? text_of(chat.messages.back()) : std::nullopt;
    if (!text) {
      faults.push_back({"", "the conversation does not end with an answer of the assistant"});
      return;
    }
    RewardSample sample;
    Json before = chat.messages;
    before.erase(before.size() - 1);
    set_prompt(before, sample);
    sample.completion = *text;
    samples_.push_back(std::move(sample));
  }

  const SampleRowOptions& options_;
  std::vector<RewardSample>& samples_;
  int64_t group_ = 0;
};

}  // namespace

std::vector<RewardSample> read_samples(const std::string& path, const SampleRowOptions& options) {
  std::vector<RewardSample> samples;
  std::vector<std::string> problems;
  RowSamples reader(options, samples);
  int64_t rows = 0, faulty = 0;
  for (const SourceFile& file : expand_sources({{.path = path}})) {
    const std::unique_ptr<RowSource> source = open_source(file.path, file.source);
    SourceRow row;
    while ((options.limit == 0 || rows < options.limit) && source->next(row)) {
      ++rows;
      RowFaults faults;
      try {
        reader.add(parse_row(row, file.path), file.path + ":" + std::to_string(row.line), faults);
        for (const RowFault& fault : faults)
          problems.push_back(file.path + ":" + place_in_row(row, fault.pointer, file.path) + ": " +
                             fault.message);
      } catch (const PlacedError& error) {
        problems.emplace_back(error.what());
        faults.push_back({});
      }
      faulty += !faults.empty();
    }
  }
  if (!problems.empty()) {
    std::string text;
    for (size_t i = 0; i < problems.size() && i < static_cast<size_t>(kMostTold); ++i)
      text += (i ? "\n" : "") + problems[i];
    if (faulty > kMostTold) text += "\nand " + format_count(faulty - kMostTold) + " more rows";
    throw Error(ErrorKind::data, text)
        .hint(
            "a row needs completion, completions, messages, or chosen and rejected; --completion COLUMN "
            "names another column");
  }
  if (samples.empty()) throw Error(ErrorKind::data, path + ": holds no rows, expected at least one");
  return samples;
}

}  // namespace forge
