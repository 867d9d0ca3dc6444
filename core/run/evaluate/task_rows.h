#pragma once
// Rows of the tasks of forge eval. The file is anything that rows can be read from
// (core/data/read/sources.h).
//
//   answers   {"prompt", "references": [texts]}, {"prompt", "reference"} or {"prompt", "completion"};
//             {"messages": […]}: the last answer is the reference, unless the row has references
//   choices   {"prompt", "choices": [texts], "answer": the number of the right one from 0, or its text}
//
// `prompt` is a text, which is continued as it is, or a list of messages, which are rendered by the
// chat template. A row may have `messages` instead. A choice is appended to the prompt unchanged,
// so that the choices of a text begin with a blank.
#include <cstdint>
#include <string>
#include <vector>

#include "core/lib/io/json.h"

namespace forge {

struct AnswerRow {
  int64_t line = 1;
  Json prompt;  // a text or a list of messages
  std::vector<std::string> references;
};
struct ChoiceRow {
  int64_t line = 1;
  Json prompt;
  std::vector<std::string> choices;
  size_t answer = 0;
};
struct LongText {
  int64_t line = 1;
  std::string text;
};

// Read all rows of a file. Throw Error(data) that names up to 20 faulty rows by place, or says that
// the file has no rows.
std::vector<AnswerRow> read_answer_rows(const std::string& path);
std::vector<ChoiceRow> read_choice_rows(const std::string& path);
// Reads {"text"} of each row; a .txt or .md file is one text.
std::vector<LongText> read_long_texts(const std::string& path);

}  // namespace forge
