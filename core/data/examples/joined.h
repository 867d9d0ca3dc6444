#pragma once
// Documents end to end, cut into rows of one length: data.join_documents.
#include <vector>

#include "core/data/examples/chunk_worker.h"

namespace forge {

class JoinedDocuments {
 public:
  explicit JoinedDocuments(int64_t length) : length_(length) {}

  // The rows that these documents fill, behind those that came before; each stands where its first token does.
  std::vector<LocatedExample> rows_of(std::vector<LocatedExample> documents);
  // What is left after the last document: a shorter row, or none where a single token is, which predicts nothing.
  std::vector<LocatedExample> rest();

 private:
  int64_t length_;
  LocatedExample row_;
};

}  // namespace forge
