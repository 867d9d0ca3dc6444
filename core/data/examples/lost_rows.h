#pragma once
// Reports the rows that give no example: one error that names them, or a list of them beside the
// cache.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/data/examples/chunk_worker.h"
#include "core/job/job.h"
#include "core/lib/base/file.h"
#include "core/lib/base/key_error.h"

namespace forge {

// Returns the path of the list of a cache file's lost rows: JSON lines of source, line, place and
// reason.
std::string lost_rows_path(const std::string& cache_path);

class LostRows {
 public:
  // An empty `cache_path` writes no list.
  LostRows(BadRow policy, const std::string& cache_path);
  ~LostRows();  // without finish(): removes the unfinished list
  LostRows(const LostRows&) = delete;
  LostRows& operator=(const LostRows&) = delete;

  void add(const ChunkResult& result, const std::string& source);
  // Returns the first faults at their places, and the count of the others.
  std::vector<KeyFault> faults() const;
  // Throws KeyError(data) with the first faults at their places, and the count of the others, if
  // the policy is to stop. A key that nothing reads is one fault, with its rows.
  void throw_if_any(int64_t rows, const std::string& hint) const;
  // Makes the list durable and returns its path; empty when no row was lost.
  std::string finish();

 private:
  void list(const LostRow& row, const std::string& source);

  BadRow policy_;
  std::string path_, temporary_;  // of the list
  std::unique_ptr<OutputFile> file_;
  struct UnreadKey {
    KeyFault first;
    int64_t rows = 0;
  };
  std::vector<KeyFault> shown_;
  std::map<std::string, UnreadKey> keys_;
  int64_t faults_ = 0, bad_rows_ = 0;  // faults of other kinds; rows with any
};

}  // namespace forge
