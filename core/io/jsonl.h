#pragma once
// The lines of a text file of any size, in bounded memory.
//
//   LineReader reader("train.jsonl");
//   for (Line line; reader.next(&line);) parse_json(line.text, path, ErrorKind::data, {}, line.number);
//
// Lines end with \n or \r\n, which are not part of them; the last may end with the file. A byte order mark at
// the file's start is skipped. Throws Error(data) as "path:line[:column]: …" for a file that is missing or
// not regular, a line longer than the limit, text that is not UTF-8 (with its column and byte offset), UTF-16
// and compressed files.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

struct Line {
  int64_t number = 0;     // from 1
  int64_t offset = 0;     // of the line's first byte in the file
  std::string_view text;  // valid until the next call of next()
};

class LineReader {
 public:
  explicit LineReader(const std::string& path, int64_t longest_line = 64 << 20);
  ~LineReader();
  LineReader(const LineReader&) = delete;

  // False at the end of the file. Empty lines are lines.
  bool next(Line* line);
  int64_t file_bytes() const { return file_bytes_; }

 private:
  bool fill();
  void check_start();
  void check_text(std::string_view text);
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "", int64_t column = 0) const;

  std::string path_;
  int descriptor_ = -1;
  int64_t file_bytes_ = 0;
  size_t longest_line_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // what is read and not yet given out
  int64_t number_ = 0, offset_ = 0;
  bool at_end_ = false;
};

}  // namespace forge
