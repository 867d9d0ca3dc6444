#pragma once
// Joins documents end to end and cuts them into rows of one length: data.join_documents.
#include <vector>

#include "core/data/examples/chunk_worker.h"

namespace forge {

class JoinedDocuments {
 public:
  explicit JoinedDocuments(int64_t length) : length_(length) {}

  // Returns the rows that these documents fill, after those that came before. Each row has the line
  // of its first token.
  std::vector<LocatedExample> rows_of(std::vector<LocatedExample> documents);
  // Returns the rest after the last document: a shorter row, or none if it is a single token, which
  // predicts nothing. transformers' run_clm.py drops the rest.
  std::vector<LocatedExample> rest();

 private:
  int64_t length_;
  LocatedExample row_;
};

}  // namespace forge
