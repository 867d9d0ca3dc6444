#pragma once
// The rows of a Parquet file as JSON texts, through an optional component (parquet_arrow.cpp, built
// where Arrow's C++ libraries are): forge itself links no Arrow and loads the component when the
// first Parquet file is opened.
//
//   auto file = open_parquet("train.parquet");
//   for (std::string row; file->next(row);) …   // {"messages":[{"role":"user","content":"…"}]}
//
// A row is the value that a line of JSON would hold: texts, booleans, integers of 64 bits, doubles
// (NaN and infinities are null, as is what is absent), lists, structs and maps with texts as keys
// (objects), dictionaries (what they stand for). JSON has no value for the other types (binary,
// timestamps, dates, decimals): columns that hold such are left out, unread.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace forge {

struct ParquetColumn {
  std::string name, type;  // type in Arrow's words: "timestamp[us]"
};

class ParquetFile {
 public:
  virtual ~ParquetFile() = default;
  // Reads the next row as one JSON object; false at the end. Throws Error(data) "path:row N: what".
  // Memory: a batch of about 1 MiB of rows and one page of each column, at most 1 GiB whatever the
  // file claims.
  virtual bool next(std::string& row) = 0;
  virtual const std::vector<ParquetColumn>& left_out() const = 0;
  // Returns an estimate of how much of the file was used, for progress: by rows.
  virtual int64_t file_position() const = 0;
};

// Throws Error(environment) if the component cannot be loaded.
void require_parquet();

// Opens a file. Throws Error(data) for a file that is no Parquet or is damaged, and
// Error(environment), with the command that builds the component, if it is not installed.
std::unique_ptr<ParquetFile> open_parquet(const std::string& path);

}  // namespace forge
