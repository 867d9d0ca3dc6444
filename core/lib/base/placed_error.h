#pragma once
// Faults at a place in a text file, thrown by readers of JSON, CSV or rows.
//
//   throw PlacedError(ErrorKind::data, {"train.jsonl", 3, 14}, "expected a colon");   // "train.jsonl:3:14: expected …"
#include <cstdint>
#include <string>

#include "core/lib/base/error.h"

namespace forge {

struct PlaceInFile {
  std::string file;
  int64_t line = 1;    // from 1; in a file without lines the row's number
  int64_t column = 1;  // in characters, from 1; 0 in a file without lines

  // Moves past a byte of the file, which is UTF-8.
  void pass(char byte) {
    column = byte == '\n' ? 1 : column + ((static_cast<unsigned char>(byte) >> 6) != 2);
    line += byte == '\n';
  }
};
// Returns the place inside the file in the form of messages: "12:31", or "row 12" when `column` is
// 0.
std::string place_text(int64_t line, int64_t column);

class PlacedError : public Error {
 public:
  PlacedError(ErrorKind kind, PlaceInFile at, std::string problem, const std::string& hint = "");
  const PlaceInFile& at() const { return at_; }
  // Returns what is wrong, without the place.
  const std::string& problem() const { return problem_; }

 private:
  PlaceInFile at_;
  std::string problem_;
};

}  // namespace forge
