#include "core/run/evaluate/task_rows.h"

#include <algorithm>

#include "core/data/read/sources.h"
#include "core/data/rows/formats/format.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr size_t kMostFaults = 20;

struct Fault {
  std::string pointer, message;
};

bool is_texts(const Json& value) {
  return value.is_array() && !value.empty() && std::ranges::all_of(value, &Json::is_string);
}

bool is_messages(const Json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [](const Json& m) {
           return m.is_object() && m.contains("role") && m.contains("content");
         });
}

Json prompt_of(const Json& row) {
  if (const Json* messages = member(row, "messages")) {
    if (!is_messages(*messages))
      throw Fault{"/messages", "expected a list of messages, each with role and content"};
    return *messages;
  }
  const Json* prompt = member(row, "prompt");
  if (!prompt) throw Fault{"", "has no prompt, expected prompt (a text or a list of messages) or messages"};
  if (!prompt->is_string() && !is_messages(*prompt))
    throw Fault{"/prompt", "expected a text or a list of messages"};
  if (prompt->is_string() && prompt->get_ref<const std::string&>().empty())
    throw Fault{"/prompt", "is empty"};
  return *prompt;
}

// Returns the references from `references`, `reference` or `completion`; empty if the row has none
// of these.
std::vector<std::string> references_of(const Json& row) {
  if (const Json* several = member(row, "references")) {
    if (!is_texts(*several)) throw Fault{"/references", "expected a list of texts"};
    return several->get<std::vector<std::string>>();
  }
  for (const char* key : {"reference", "completion"})
    if (const Json* one = member(row, key)) {
      if (!one->is_string()) throw Fault{std::string("/") + key, "expected a text"};
      return {one->get<std::string>()};
    }
  return {};
}

AnswerRow answer_row(const Json& json) {
  AnswerRow row{.prompt = prompt_of(json), .references = references_of(json)};
  if (row.prompt.is_array() && row.prompt.back().value("role", Json()) == "assistant") {
    if (row.references.empty() && row.prompt.back()["content"].is_string())
      row.references = {row.prompt.back()["content"].get<std::string>()};
    row.prompt.erase(row.prompt.end() - 1);
  }
  if (row.references.empty())
    throw Fault{"", "has no reference, expected references (a list of texts), reference or completion"};
  if (row.prompt.empty()) throw Fault{"/messages", "holds no question"};
  return row;
}

ChoiceRow choice_row(const Json& json) {
  ChoiceRow row{.prompt = prompt_of(json)};
  const Json* choices = member(json, "choices");
  if (!choices || !is_texts(*choices) || choices->size() < 2)
    throw Fault{choices ? "/choices" : "", "expected choices: a list of at least two texts"};
  row.choices = choices->get<std::vector<std::string>>();
  for (size_t i = 0; i < row.choices.size(); ++i)
    if (row.choices[i].empty()) throw Fault{"/choices/" + std::to_string(i), "is empty"};
  const Json* answer = member(json, "answer");
  if (!answer) throw Fault{"", "has no answer, expected the number of a choice from 0, or its text"};
  if (answer->is_string()) {
    const auto found = std::find(row.choices.begin(), row.choices.end(), answer->get<std::string>());
    row.answer = static_cast<size_t>(found - row.choices.begin());
  } else if (answer->is_number_integer() && *answer >= 0) {
    row.answer = answer->get<size_t>();
  } else {
    throw Fault{"/answer", "expected the number of a choice from 0, or its text"};
  }
  if (row.answer >= row.choices.size())
    throw Fault{"/answer", "is none of the " + std::to_string(row.choices.size()) + " choices"};
  return row;
}

LongText long_text(const Json& json) {
  const Json* text = member(json, "text");
  if (!text || !text->is_string()) throw Fault{text ? "/text" : "", "expected text: a text"};
  return {.text = text->get<std::string>()};
}

template <class Row>
std::vector<Row> read_rows(const std::string& path, Row (*convert)(const Json&)) {
  std::vector<Row> rows;
  std::vector<std::string> faults;
  const auto source = open_source(path);
  for (SourceRow text; source->next(text);) try {
      const Json json = parse_row(text, path);
      Row row = convert(json);
      row.line = text.line;
      rows.push_back(std::move(row));
    } catch (const Fault& fault) {
      faults.push_back(path + ":" + place_in_row(text, fault.pointer, path) + ": " + fault.message);
    } catch (const PlacedError& error) {
      faults.push_back(error.what());
    }
  if (!faults.empty()) {
    const size_t all = faults.size();
    faults.resize(std::min(all, kMostFaults));
    throw Error(
        ErrorKind::data,
        join(faults, "\n") + (all > kMostFaults
                                  ? "\nand " + format_count(static_cast<int64_t>(all - kMostFaults)) + " more"
                                  : ""))
        .hint("fix them, or leave them out of the file");
  }
  if (rows.empty()) throw Error(ErrorKind::data, path + ": holds no rows");
  return rows;
}

}  // namespace

std::vector<AnswerRow> read_answer_rows(const std::string& path) { return read_rows(path, answer_row); }
std::vector<ChoiceRow> read_choice_rows(const std::string& path) { return read_rows(path, choice_row); }
std::vector<LongText> read_long_texts(const std::string& path) { return read_rows(path, long_text); }

}  // namespace forge
