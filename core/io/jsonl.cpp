#include "core/io/jsonl.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/text.h"

namespace forge {
namespace {

constexpr size_t kChunk = 1 << 18;  // stays in the second-level cache

// A vectorised test; text that is all ASCII needs no further look.
bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (char character : text) all |= static_cast<unsigned char>(character);
  return all < 0x80;
}

}  // namespace

LineReader::LineReader(const std::string& path, int64_t longest_line)
    : path_(path), longest_line_(static_cast<size_t>(longest_line)), buffer_(kChunk) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw Error(ErrorKind::data, path + ": cannot open: " + std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  try {
    if (!regular)
      throw Error(ErrorKind::data, path + (S_ISDIR(status.st_mode) ? ": is a folder, expected a file"
                                                                   : ": is not a regular file"));
    file_bytes_ = status.st_size;
    check_start();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

LineReader::~LineReader() { ::close(descriptor_); }

void LineReader::fail(const std::string& what, const std::string& hint, int64_t column) const {
  std::string place =
      path_ + ":" + std::to_string(number_) + (column > 0 ? ":" + std::to_string(column) : "");
  throw Error(ErrorKind::data, place + ": " + what).hint(hint);
}

void LineReader::check_start() {
  number_ = 1;
  while (end_ < 4 && fill()) {
  }
  const std::string_view start(buffer_.data(), end_);
  if (starts_with(start, "\x1f\x8b") || starts_with(start, "\x28\xb5\x2f\xfd"))
    fail("is compressed, expected plain text", "decompress it first: gunzip or unzstd");
  if (starts_with(start, "\xff\xfe") || starts_with(start, "\xfe\xff"))
    fail("is UTF-16, expected UTF-8", "convert it: iconv -f UTF-16 -t UTF-8");
  if (starts_with(start, "\xef\xbb\xbf")) begin_ = 3;
  offset_ = static_cast<int64_t>(begin_);
  number_ = 0;
}

// Reads more behind what is there; false at the end of the file.
bool LineReader::fill() {
  if (at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
  ssize_t count = 0;
  do count = ::read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
  while (count < 0 && errno == EINTR);
  if (count < 0) throw Error(ErrorKind::data, path_ + ": cannot read: " + std::strerror(errno));
  at_end_ = count == 0;
  end_ += static_cast<size_t>(count);
  return !at_end_;
}

bool LineReader::next(Line* line) {
  size_t searched = 0;
  const char* newline = nullptr;
  ++number_;
  for (;;) {
    const char* from = buffer_.data() + begin_ + searched;
    newline = static_cast<const char*>(std::memchr(from, '\n', end_ - begin_ - searched));
    searched = newline ? static_cast<size_t>(newline - buffer_.data()) - begin_ : end_ - begin_;
    if (searched > longest_line_)
      fail("the line is longer than " + format_bytes(static_cast<int64_t>(longest_line_)));
    if (newline || !fill()) break;
  }
  if (!newline && searched == 0) return false;
  std::string_view text(buffer_.data() + begin_, searched);
  check_text(text);
  const size_t consumed = searched + (newline ? 1 : 0);
  if (ends_with(text, "\r")) text.remove_suffix(1);
  *line = {number_, offset_, text};
  begin_ += consumed;
  offset_ += static_cast<int64_t>(consumed);
  return true;
}

void LineReader::check_text(std::string_view text) {
  size_t bad = 0;
  if (is_ascii(text) || valid_utf8(text, &bad)) return;
  int64_t column = 1;
  for (char character : text.substr(0, bad)) column += (static_cast<unsigned char>(character) >> 6) != 2;
  fail("not valid UTF-8 (byte " + std::to_string(offset_ + static_cast<int64_t>(bad)) + " of the file)", "",
       column);
}

}  // namespace forge
