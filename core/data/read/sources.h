#pragma once
// Reads a data file as a stream of rows: text with its place in the file. Memory is bounded by the
// longest row.
//
//   auto source = open_source("train.jsonl.gz");
//   SourceRow row;
//   while (source->next(row)) use(row.text, row.line);
//
// The extension, which .gz or .zst may follow, gives the kind: `.jsonl` and `.ndjson` (one JSON
// value a line; blank lines are skipped), `.json` (one array of rows, an object of which exactly
// one member is an array: that one, or rows one after the other), `.csv` and `.tsv` (io/csv.h: a
// header, then one row a record), `.txt` and `.md` (one row: the whole document; or a paragraph or
// a line, as `sample_by` says), `.parquet` (io/parquet.h, an optional component; its lines are row
// numbers). Rows are not parsed here: workers do that in parallel.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/data/rows/rows.h"
#include "core/job/job.h"
#include "core/lib/base/placed_error.h"
#include "core/lib/io/csv.h"
#include "core/lib/io/json.h"

namespace forge {

// Most bytes of a row: it takes some forty times its bytes while it is made into tokens.
constexpr int64_t kMaxRowBytes = int64_t{16} << 20;
constexpr int64_t kMaxDocumentBytes = int64_t{256} << 20;

enum class SourceKind { json_lines, json_array, csv, tsv, plain_text, parquet };

struct SourceRow {
  int64_t line = 1;    // of the row's first byte, from 1; in a file without lines the row's number
  int64_t column = 1;  // of the row's first byte in characters, from 1; 0 in a file without lines
  std::string text;
  RowKind kind = RowKind::json;
  std::shared_ptr<const CsvTable> table = nullptr;  // of a CSV row
  int64_t too_long =
      0;  // the bytes of a row longer than kMaxRowBytes, whose text is left out; parse_row refuses it
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  // Fills `row` and returns whether there was one. Throws Error(data) "file:line:col: what" when
  // the file itself cannot be cut into rows (a broken array, an unreadable file).
  virtual bool next(SourceRow& row) = 0;
  // Returns how many bytes of the file itself were used, for progress.
  virtual int64_t file_position() const = 0;
};

// Returns the kind that the name states; nothing for an unknown extension.
std::optional<SourceKind> kind_by_name(const std::string& path);
// Returns the kind of the file. Throws Error(data) for a missing file, a folder, a device or an
// unknown extension.
SourceKind source_kind(const std::string& path);
// Returns how the file writes its rows. Throws as source_kind() does.
RowKind row_kind(const std::string& path);
// Opens a file. `source` says how texts are cut and which columns are needed: a Parquet file with a
// column that JSON cannot express is refused when rows need that column.
std::unique_ptr<RowSource> open_source(const std::string& path, const DataSource& source = {});

// Returns the row as JSON. Throws PlacedError(data) for text that is not JSON, and for a row longer
// than kMaxRowBytes. A CSV row is an object of texts, with null for an empty cell without quotes; a
// row of a text file is {"text": …}.
Json parse_row(const SourceRow& row, const std::string& path);

// Most faults of one row that are placed, since finding a place reads the row again.
inline constexpr size_t kPlacedPerRow = 20;
// Returns where the value at `pointer` ("/messages/2/role") is in a row, as place_text of the file.
// A missing value is placed at the innermost value that exists.
std::string place_in_row(const SourceRow& row, const std::string& pointer, const std::string& path);
// Returns the position of a byte of a row's text.
PlaceInFile place_of_byte(const SourceRow& row, size_t byte, const std::string& path);
// Like place_in_row(), for a row of JSON text.
std::string place_of(const SourceRow& row, const std::string& pointer);

}  // namespace forge
