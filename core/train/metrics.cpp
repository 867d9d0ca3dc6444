#include "core/train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"

namespace forge {

MetricsLog::MetricsLog(const std::string& path, int64_t bytes) : path_(path), bytes_(bytes) {
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0 || ::ftruncate(descriptor_, bytes) != 0 || ::lseek(descriptor_, bytes, SEEK_SET) < 0)
    throw Error(ErrorKind::environment, path + ": cannot write: " + std::strerror(errno));
}

MetricsLog::~MetricsLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsLog::append(const Json& event) {
  std::string line = dump_json(event) + "\n";
  size_t done = 0;
  while (done < line.size()) {
    ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw Error(ErrorKind::environment, path_ + ": cannot write: " + std::strerror(errno));
    done += static_cast<size_t>(count);
  }
  bytes_ += static_cast<int64_t>(line.size());
}

int64_t MetricsLog::flush() {
  if (::fsync(descriptor_) != 0) throw Error(ErrorKind::environment, path_ + ": cannot flush: " + std::strerror(errno));
  return bytes_;
}

}  // namespace forge
