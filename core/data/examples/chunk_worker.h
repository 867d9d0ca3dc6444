#pragma once
// Processes one chunk of rows on one thread: parses, chooses the split, converts, makes examples,
// notes what is lost.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/data/examples/data_summary.h"
#include "core/data/examples/examples.h"
#include "core/data/examples/row_look.h"
#include "core/data/read/expand.h"
#include "core/data/read/row_stream.h"

namespace forge {

// The part of the rows that goes to eval. With fraction 0 all rows belong. A hash of the row's
// meaning (content_of) decides: adding rows moves none, and equal rows stay together, whatever ids
// they carry. Rows without a meaning belong to train, which reports them.
struct EvalShare {
  double fraction = 0;
  bool eval = false;  // this split is eval
};

struct LocatedExample {
  Example example;
  int64_t line = 0;
  std::string label;  // as DataSet::label
};

// A row that gives no example, and the reason. Rows with a fault or untrained ones end the
// preparation; dropped ones do not.
struct LostRow {
  int64_t line = 0;
  std::string place;  // "line:col" of the fault
  std::string reason;
  bool fatal = false;        // under data.on_bad_row: error
  bool first_of_row = true;  // a row may have several faults
  int64_t faults = 1;        // that this stands for
  std::string key = {};      // RowFault::key
};

// A key that rows have and nothing reads.
struct UnreadKey {
  int64_t rows = 0;
  std::string place;  // in the first of them, as place_text
};

struct ChunkResult {
  size_t source = 0;
  int64_t bytes = 0;
  std::vector<LocatedExample> examples;
  std::vector<LostRow> lost;
  DataSummary summary;         // the counts of rows, cuts, pairs and columns
  std::vector<RowLook> looks;  // of rows with a meaning, when asked for
  std::map<std::string, UnreadKey> unread;
};

// Processes a chunk. May be called from any number of threads at once.
using ChunkWorker = std::function<ChunkResult(const RowChunk& chunk)>;

// Keeps a reference to `maker`; `sources` are the files of the stream. Weights count in the
// training split only, and after the eval rows were taken out, so that a repeated row is never in
// both. With `look`, also looks at what the rows say.
ChunkWorker chunk_worker(const ExampleMaker& maker, const std::vector<SourceFile>& sources,
                         const EvalShare& share, int64_t seed, bool look);

}  // namespace forge
