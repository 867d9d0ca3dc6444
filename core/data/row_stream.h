#pragma once
// The rows of all sources of a split, in chunks that workers take whole.
//
//   RowStream stream(sources, needs, byte_budget);
//   for (RowChunk chunk; stream.next(chunk);) work(chunk);
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/rows.h"
#include "core/data/sources.h"

namespace forge {

struct RowChunk {
  size_t source = 0;  // which of the sources
  RowFormat format = RowFormat::automatic;
  bool plain_text = false;      // the rows are documents, not JSON
  std::vector<SourceRow> rows;  // in the order of the file
  int64_t bytes = 0;            // of the file that were used for these rows
};

class RowStream {
 public:
  // Opens every source and settles every format before the first chunk. `byte_budget` bounds the text that is
  // read of all sources together, each in proportion to its size; compressed files count kTypicalRatio times.
  // Throws Error(data).
  RowStream(std::vector<DataSource> sources, std::optional<int64_t> byte_budget = {});
  // False when all rows were given out.
  bool next(RowChunk& chunk);

  int64_t total_bytes() const { return total_bytes_; }
  // Whether the budget leaves rows unread.
  bool partial() const { return partial_; }
  int64_t source_bytes(size_t source) const { return sizes_[source]; }
  // The formats found, each once: "messages, text".
  std::string formats() const;

 private:
  std::vector<DataSource> sources_;
  std::vector<int64_t> sizes_, budgets_;
  std::vector<RowFormat> formats_;
  int64_t total_bytes_ = 0;
  std::unique_ptr<RowSource> open_;
  size_t current_ = 0;
  int64_t rows_ = 0, bytes_ = 0;  // given out of the current source
  bool partial_ = false;
};

}  // namespace forge
