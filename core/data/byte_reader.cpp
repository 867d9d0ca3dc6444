#include "core/data/byte_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/text.h"

namespace forge {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// What files are that look like text by their names.
struct Signature {
  const char* bytes;
  const char* what;
  const char* hint;
};
constexpr Signature kRefused[] = {
    {"\x1f\x8b", "compressed (gzip), expected plain text", "gunzip it"},
    {"\x28\xb5\x2f\xfd", "compressed (zstd), expected plain text", "unzstd it"},
    {"PK\x03\x04", "a zip archive, expected plain text", "unzip it"},
    {"PAR1", "Parquet, expected plain text",
     "write it as JSONL, e.g. with pandas: to_json(…, orient='records', lines=True)"},
    {"\xff\xfe", "UTF-16, expected UTF-8", "iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", "UTF-16, expected UTF-8", "iconv -f UTF-16 -t UTF-8"},
};

}  // namespace

ByteReader::ByteReader(const std::string& path) : path_(path), buffer_(kBufferBytes) {
  // O_NONBLOCK keeps open() from hanging on a FIFO; the type is checked on the descriptor, not on the name.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw Error(ErrorKind::data, path + ": cannot open: " + std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) {
    ::close(descriptor_);
    throw Error(ErrorKind::data,
                path + (S_ISDIR(status.st_mode) ? ": is a folder, expected a file"
                                                : ": is not a regular file (a pipe or device)"));
  }
  fill();
  const std::string_view start(buffer_.data(), filled_);
  if (starts_with(start, "\xEF\xBB\xBF")) position_ = 3;
  for (const Signature& signature : kRefused)
    if (starts_with(start, signature.bytes)) {
      ::close(descriptor_);
      throw Error(ErrorKind::data, path + ": is " + signature.what).hint(signature.hint);
    }
}

ByteReader::~ByteReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool ByteReader::fill() {
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, buffer_.data(), buffer_.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw Error(ErrorKind::data, path_ + ": cannot read: " + std::strerror(errno));
  position_ = 0;
  filled_ = static_cast<size_t>(count);
  return count > 0;
}

bool ByteReader::read_line(std::string& text, int64_t limit) {
  text.clear();
  if (peek() < 0) return false;
  while (peek() >= 0 && static_cast<int64_t>(text.size()) <= limit) {
    const char* begin = buffer_.data() + position_;
    const auto* end = static_cast<const char*>(std::memchr(begin, '\n', filled_ - position_));
    text.append(begin, end ? end : buffer_.data() + filled_);
    position_ = end ? static_cast<size_t>(end - buffer_.data()) + 1 : filled_;
    if (end) {
      ++line_;
      column_ = 1;
      return true;
    }
  }
  return true;
}

}  // namespace forge
