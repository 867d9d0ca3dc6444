#pragma once
// CSV and TSV as RFC 4180 writes them: quotes around cells, doubled inside them, newlines within
// quotes, \n or \r\n between records, a header first. Two steps, so that cutting the file is one
// cheap pass and cells are parsed by many threads:
//
//   CsvFile file("train.csv", ',');
//   for (CsvRecord record; file.next(record);)
//     for (const CsvCell& cell : parse_csv_record(record, file.table(), "train.csv")) …
//
// In a file of commas whose header has none, but semicolons, tabs or bars, those separate the
// cells: spreadsheets write them where the comma is a decimal point. Blank lines are skipped.
// Refused with "path:line:col: what": a quote inside an unquoted cell, text after a closing quote,
// a quote that is not closed, a lone carriage return, bytes that are not UTF-8, header names that
// occur twice or are empty (except those of an index at the beginning: Unnamed: 0, as pandas reads
// them), and records with more or fewer cells than the header.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/lib/io/byte_reader.h"

namespace forge {

struct CsvRecord {
  int64_t line = 1, column = 1;  // of the record's first byte
  std::string text;              // as it stands in the file, without the newline at its end
  int64_t too_long = 0;          // the bytes of a record longer than the limit, whose text is left out
};

struct CsvCell {
  std::string text;
  bool quoted = false;           // an empty cell without quotes is absent, "" is an empty text
  int64_t line = 1, column = 1;  // of its first byte, the quote included
};

struct CsvTable {
  char delimiter = ',';
  std::vector<std::string> header;
};

// Returns the cells of one record. Throws Error(data) at the first fault. With an empty header any
// number of cells is good.
std::vector<CsvCell> parse_csv_record(const CsvRecord& record, const CsvTable& table,
                                      const std::string& path);

class QuoteState;

class CsvFile {
 public:
  // Reads the header. `longest_record` in bytes bounds the memory: longer records come without
  // their text; a header that is longer, or a record that the file ends in, is refused.
  CsvFile(const std::string& path, char delimiter, int64_t longest_record = int64_t{16} << 20);
  // Reads the next record; false at the end of the file.
  bool next(CsvRecord& record);
  const std::shared_ptr<const CsvTable>& table() const { return table_; }
  int64_t file_position() const { return reader_.file_position(); }

 private:
  // Adds the next line; false at the end of the file.
  bool add_line(CsvRecord& record, QuoteState& quotes);
  [[noreturn]] void fail_too_long(const CsvRecord& record) const;

  ByteReader reader_;
  int64_t longest_record_;
  std::string line_;
  std::shared_ptr<const CsvTable> table_;
};

}  // namespace forge
