#pragma once
// Finds columns with other common names of forge's fields: question and answer, query and response,
// problem and solution. If only one reading is possible the columns are used; else a setting is
// proposed.
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
// Finds the columns of rows that have no format as they are.
CommonColumns common_columns(const std::vector<LocatedRow>& rows);

// Returns columns that rows of a format have under other names beside those that make the format:
// system_prompt, context, the question of a preference pair.
std::map<std::string, std::string> further_columns(const std::vector<LocatedRow>& rows, RowFormat format);

// Returns prompt and completion of rows for an encoder-decoder that have one column with a source's
// name and one with an answer's ("document" and "summary"); nothing if they have several, or none.
CommonColumns source_columns(const std::vector<LocatedRow>& rows);

// Proposes what to write for rows with a prompt and its answer under another name; empty if there
// is no such answer.
std::string answered_prompt_proposal(const std::vector<LocatedRow>& rows);

// Returns the name as YAML reads it back: in JSON's quotes if it would be something else without.
std::string yaml_name(const std::string& name);

// Returns "{instruction: question, output: answer}".
std::string columns_text(const std::map<std::string, std::string>& columns);

}  // namespace forge
