#pragma once
// A data file as a stream of rows: text with its place in the file. Memory is bounded by the longest row.
//
//   auto source = open_source("train.jsonl");
//   SourceRow row;
//   while (source->next(row)) use(row.text, row.line);
//
// By extension: `.jsonl` and `.ndjson` (one JSON value a line; blank lines are skipped), `.json` (one array
// of rows, or an object of which exactly one member is an array: that one), `.txt` and `.md` (the whole file
// is one row: one document). Rows are not parsed here: workers do that in parallel.
#include <cstdint>
#include <memory>
#include <string>

#include "core/io/json.h"

namespace forge {

constexpr int64_t kMaxRowBytes = int64_t{64} << 20;

enum class SourceKind { json_lines, json_array, plain_text };

struct SourceRow {
  int64_t line = 1;    // of the row's first byte, from 1
  int64_t column = 1;  // of the row's first byte in characters, from 1
  std::string text;
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  // Fills `row` and says whether there was one. Throws Error(data) "file:line:col: what" when the file itself
  // cannot be cut into rows (a broken array, a row of more than kMaxRowBytes, an unreadable file).
  virtual bool next(SourceRow& row) = 0;
  // How many bytes of the file itself were used, for progress.
  virtual int64_t file_position() const = 0;
};

// Throws Error(data) for a missing file, a folder, a device or an unknown extension.
SourceKind source_kind(const std::string& path);
std::unique_ptr<RowSource> open_source(const std::string& path);

// The row as JSON, faults at their place in the file. A row of plain text is an error of the caller.
Json parse_row(const SourceRow& row, const std::string& path);

// Where the value at `pointer` ("/messages/2/role") stands in a row's text, as "line:col" of the file. A
// missing value is placed at the innermost value that exists.
std::string place_of(const SourceRow& row, const std::string& pointer);

}  // namespace forge
