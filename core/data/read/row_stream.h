#pragma once
// Reads the rows of all sources of a split, in chunks that workers take whole.
//
//   RowStream stream(expand_sources(job.data.train), byte_budget);
//   for (RowChunk chunk; stream.next(chunk);) work(chunk);
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/read/expand.h"
#include "core/data/read/sources.h"
#include "core/data/rows/rows.h"

namespace forge {

struct RowChunk {
  size_t source = 0;  // which of the files
  RowFormat format = RowFormat::automatic;
  std::vector<SourceRow> rows;  // in the order of the file
  int64_t bytes = 0;            // of the file that were used for these rows
};

class RowStream {
 public:
  // Opens every source and settles every format before the first chunk. `byte_budget` bounds the
  // text that is read of all sources together, each in proportion to its size; compressed files
  // count kTypicalRatio times. `sources` is detect_format's argument. Throws Error(data).
  RowStream(std::vector<SourceFile> files, std::optional<int64_t> byte_budget = {}, bool sources = false);
  // Returns false when all rows were given out.
  bool next(RowChunk& chunk);

  // Returns the files, with the columns that their rows were found to have (Detected::columns).
  const std::vector<SourceFile>& files() const { return files_; }
  int64_t total_bytes() const { return total_bytes_; }
  // True if the budget leaves rows unread.
  bool partial() const { return partial_; }
  int64_t source_bytes(size_t source) const { return sizes_[source]; }
  // Returns the formats, each once.
  std::vector<RowFormat> formats() const;
  // Returns the formats with their reasons: "messages: 3 of the first 3 rows have messages; text:
  // as the job says".
  std::string formats_text() const;
  // Returns the advice of the first file that has one (Detected::advice).
  std::string advice() const;

 private:
  bool may_take(const SourceFile& file) const;

  std::vector<SourceFile> files_;
  std::vector<int64_t> sizes_, budgets_;
  std::vector<Detected> formats_;
  int64_t total_bytes_ = 0;
  std::unique_ptr<RowSource> open_;
  size_t current_ = 0;
  size_t entry_ = 0;                        // of the current file
  int64_t rows_ = 0, skipped_ = 0;          // given out and left out of the current entry
  int64_t file_rows_ = 0, file_bytes_ = 0;  // read of the current file
  bool partial_ = false;
};

}  // namespace forge
