#include "core/lib/io/compressed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/decompressor.h"

namespace forge {

constexpr size_t kInputBytes = size_t{1} << 17;

InputFile::InputFile(const std::string& path) : input_(kInputBytes) {
  // O_NONBLOCK keeps open() from hanging on a FIFO; the type is checked on the descriptor, not on
  // the name.
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
  try {
    refill();
  } catch (const Error& error) {
    ::close(descriptor_);
    throw Error(ErrorKind::data, path + ": " + error.what());
  }
  decompressor_ = decompressor_for({input_.data(), end_});
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int64_t InputFile::read_raw(char* into, int64_t size) {
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, into, static_cast<size_t>(size));
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw Error(ErrorKind::data, std::string("cannot read: ") + std::strerror(errno));
  at_end_ = count == 0;
  raw_position_ += count;
  return count;
}

void InputFile::refill() {
  begin_ = 0;
  end_ = 0;
  end_ = static_cast<size_t>(read_raw(input_.data(), static_cast<int64_t>(input_.size())));
}

int64_t InputFile::read(char* into, int64_t size) {
  if (!problem_.empty()) throw Error(ErrorKind::data, problem_);
  if (decompressor_) return decode(into, size);
  if (begin_ == end_) return read_raw(into, size);
  const size_t count = std::min(static_cast<size_t>(size), end_ - begin_);
  std::memcpy(into, input_.data() + begin_, count);
  begin_ += count;
  return static_cast<int64_t>(count);
}

int64_t InputFile::decode(char* into, int64_t size) {
  int64_t made = 0;
  while (made < size && problem_.empty()) {
    if (begin_ == end_ && !at_end_) refill();
    const Decompressed step = decompressor_->decode({input_.data() + begin_, end_ - begin_}, into + made,
                                          static_cast<size_t>(size - made));
    begin_ += step.consumed;
    made += static_cast<int64_t>(step.produced);
    const std::string place = " at byte " + format_count(file_position()) + " of the compressed file";
    if (!step.problem.empty()) {
      problem_ = "damaged " + std::string(decompressor_->name()) + " data" + place + ": " + step.problem;
    } else if (step.consumed == 0 && step.produced == 0 && begin_ == end_ && at_end_) {
      if (!decompressor_->complete())
        problem_ = "the file ends inside its " + std::string(decompressor_->name()) + " data" + place;
      break;
    }
  }
  produced_ += made;
  if (problem_.empty() && produced_ > kExpansionFloor && produced_ / kMaxExpansion > file_position())
    problem_ = format_bytes(file_position()) + " of the file expanded to more than " +
               format_bytes(kExpansionFloor) + " of text, expected at most " + std::to_string(kMaxExpansion) +
               " times as much (a decompression bomb?)";
  if (made == 0 && !problem_.empty()) throw Error(ErrorKind::data, problem_);
  return made;
}

}  // namespace forge
