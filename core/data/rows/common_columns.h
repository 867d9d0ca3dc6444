#pragma once
// Rows whose columns have the field's other common names: question and answer, query and response, problem and
// solution. Where only one reading is possible the columns are taken by themselves; else what to write is proposed.
//
//   CommonColumns common = common_columns(rows);
//   common.columns     // {{"instruction", "question"}, {"output", "answer"}}: as the job's `columns` would say it
//   common.proposal    // "columns: {instruction: article, output: summary}"; empty when nothing comes to mind
#include <map>
#include <string>
#include <vector>

#include "core/data/rows/rows.h"

namespace forge {

struct CommonColumns {
  RowFormat format = RowFormat::automatic;  // automatic: no reading is certain
  std::map<std::string, std::string> columns;
  std::string proposal;
};
// Of rows that have no format as they are.
CommonColumns common_columns(const std::vector<LocatedRow>& rows);

// Columns that rows of a format have under other names beside those that make the format: system_prompt, context, the
// question of a preference pair.
std::map<std::string, std::string> further_columns(const std::vector<LocatedRow>& rows, RowFormat format);

// prompt and completion of rows for an encoder-decoder that have one column with a source's name and one with an answer's
// ("document" and "summary"); nothing where they have several, or none.
CommonColumns source_columns(const std::vector<LocatedRow>& rows);

// What to write for rows with a prompt and its answer under another name; empty if there is none.
std::string answered_prompt_proposal(const std::vector<LocatedRow>& rows);

// "{instruction: question, output: answer}".
std::string columns_text(const std::map<std::string, std::string>& columns);

}  // namespace forge
