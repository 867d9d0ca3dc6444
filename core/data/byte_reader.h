#pragma once
// Bytes of a regular file in order, through one buffer, with the line and column of the next byte.
#include <cstdint>
#include <string>
#include <vector>

namespace forge {

class ByteReader {
 public:
  // Throws Error(data) when the file is missing or not a regular file. A UTF-8 byte order mark is skipped.
  explicit ByteReader(const std::string& path);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  // The next byte, or -1 at the end.
  int peek() { return position_ < filled_ || fill() ? static_cast<unsigned char>(buffer_[position_]) : -1; }
  void advance() {
    const char c = buffer_[position_++];
    if (c == '\n') {
      ++line_;
      column_ = 1;
    } else if ((static_cast<unsigned char>(c) >> 6) != 2) {
      ++column_;
    }
  }
  // Reads up to the next '\n' or the end, without it, into `text`; false at the end of the file. Stops with
  // `text` longer than `limit` when the line is.
  bool read_line(std::string& text, int64_t limit);
  int64_t line() const { return line_; }
  int64_t column() const { return column_; }
  const std::string& path() const { return path_; }

 private:
  bool fill();

  std::string path_;
  int descriptor_ = -1;
  std::vector<char> buffer_;
  size_t position_ = 0, filled_ = 0;
  int64_t line_ = 1, column_ = 1;
};

}  // namespace forge
