#pragma once
// The rows of a Parquet file as JSON texts, through an optional component: forge itself links no Arrow.
#include <cstdint>
#include <memory>
#include <string>

namespace forge {

class ParquetFile {
 public:
  virtual ~ParquetFile() = default;
  // The next row as one JSON object; false at the end. Throws Error(data).
  virtual bool next(std::string& row) = 0;
  // An estimate of how much of the file was used, for progress: by rows.
  virtual int64_t file_position() const = 0;
};

// Throws Error(data) for a file that is no Parquet, and Error(environment), with the command that converts
// the file, where the component is not installed.
std::unique_ptr<ParquetFile> open_parquet(const std::string& path);

}  // namespace forge
