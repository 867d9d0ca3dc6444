#pragma once
// Applies a source's `columns`, `roles`, `prompt`, `completion` and `ignore`: turns rows of any
// names into rows that the formats know.
//
//   RowMapping mapping(source, RowKind::json);
//   RowFaults faults;
//   Json row = mapping.apply(parse_row(…), faults);
//   mapping.original("/instruction")   // "/question": where a fault of the mapped row stands in the file
//
// A column is a key of the row or a dotted path (`answer.text`, `choices.0.text`); a key that
// contains dots comes first. A mapped field replaces one of that name, and its column is no longer
// a key of the row; a field whose column is absent stays absent. In CSV, lists and objects are JSON
// in a cell, and labels are words: both are parsed here, by field. Ignored keys are removed from
// rows and turns.
#include <string>
#include <utility>
#include <vector>

#include "core/data/rows/rows.h"
#include "core/job/job.h"
#include "core/job/row_template.h"

namespace forge {

class RowMapping {
 public:
  RowMapping(const DataSource& source, RowKind kind);
  // Returns the mapped row. A row that is no object is not changed.
  Json apply(Json row, RowFaults& faults) const;
  std::string original(const std::string& pointer) const;
  // Returns the fields that `columns` maps and the columns that it names for them, without those of
  // turns.
  const std::vector<std::pair<std::string, std::string>>& columns() const { return columns_; }
  // Returns the mapped fields whose columns a row, as it was read, does not have.
  std::vector<std::string> absent(const Json& row) const;
  // Says of faults about such fields, which are null in the mapped row, which columns are missing.
  void name_absent(const std::vector<std::string>& fields, RowFaults& faults) const;
  // True if the job ignores pictures.
  bool ignores_pictures() const;

 private:
  void leave_out(Json& row) const;
  void map_columns(Json& row) const;
  Json fill_templates(Json row, RowFaults& faults) const;
  void map_turns(Json& row) const;
  void map_turn(Json& turn) const;
  std::string fill(const std::vector<TemplatePiece>& pieces, const Json& row, RowFaults& faults) const;

  std::vector<std::pair<std::string, std::string>> columns_, turn_keys_;  // forge's name, the row's
  std::map<std::string, std::string> roles_;
  std::vector<TemplatePiece> prompt_, completion_;
  std::vector<std::string> ignored_;
  bool is_table_;
};

}  // namespace forge
