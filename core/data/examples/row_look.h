#pragma once
// Notes that `forge data` takes of one row while it is made into examples: on a worker's thread, a
// few hundred bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/examples/examples.h"
#include "core/data/read/sources.h"
#include "core/data/rows/similar.h"

namespace forge {

struct RowNote {
  size_t check = 0;   // in data_checks()
  std::string place;  // as place_text writes it
  std::string detail;
};

struct RowLook {
  int64_t line = 0, column = 0;  // of the row, as SourceRow has them
  std::vector<RowNote> notes;
  RoleTokens roles;
  int64_t copies = 0;  // of the row among the examples; 0: it is lost
  int64_t tokens = 0;                            // before any cut
  uint64_t content = 0, prompt = 0, answer = 0;  // hashes of what was said; 0: nothing
  Sketch sketch;                                 // of all but system turns
};

// Looks at one row, of which `maker` made examples. The control tokens of its tokenizer are looked
// for.
RowLook look_at(const SourceRow& source, const Row& whole, const RowExamples& made, const RoleTokens& roles, const ExampleMaker& maker);

}  // namespace forge
