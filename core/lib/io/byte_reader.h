#pragma once
// Reads the text of a file in order, through one buffer, with the line and column of the next byte.
// gzip and zstd files are decompressed on the way (compressed.h).
//
//   ByteReader reader("train.jsonl.zst");
//   for (std::string line; reader.read_line(line, kMaxRowBytes);) …
//
// A UTF-8 byte order mark at the start is skipped. Throws Error(data): "path: what" for a file that
// is missing, not regular, or of a kind that is no text (zip, UTF-16, …) or not the data (a Git LFS
// pointer, a web page), "path:line:col: what" where it is damaged.
#include <cstdint>
#include <string>
#include <vector>

#include "core/lib/base/placed_error.h"
#include "core/lib/io/compressed.h"

namespace forge {

class ByteReader {
 public:
  explicit ByteReader(const std::string& path);

  // Returns the next byte, or -1 at the end.
  int peek() { return position_ < filled_ || fill() ? static_cast<unsigned char>(buffer_[position_]) : -1; }
  void advance() { place_.pass(buffer_[position_++]); }
  // Reads up to the next '\n' or the end, without it, into `text`; false at the end of the file.
  // Stops with `text` longer than `limit` when the line is; `cut` then says that the line goes on.
  bool read_line(std::string& text, int64_t limit, bool* cut = nullptr);
  int64_t line() const { return place_.line; }
  int64_t column() const { return place_.column; }
  const std::string& path() const { return place_.file; }

  // Returns the bytes of the file itself that were used, for progress: exact for plain files, by
  // the decoder's buffer for compressed ones.
  int64_t file_position() const;

 private:
  bool fill();

  PlaceInFile place_;
  InputFile file_;
  std::vector<char> buffer_;
  size_t position_ = 0, filled_ = 0;
};

}  // namespace forge
