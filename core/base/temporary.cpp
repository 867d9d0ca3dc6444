#include "core/base/temporary.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>

namespace forge {
namespace {

// Between a file's name and a process's id.
std::string mark() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::string name(host);
  std::erase_if(name,
                [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-'; });
  return ".tmp-" + name + "-";
}

// "NAME.tmp-HOST-PID", or more behind the PID after another '-', of a process that no longer runs.
bool abandoned(const std::string& name, const std::string& own_mark) {
  const size_t begin = name.find(own_mark);
  if (begin == std::string::npos) return false;
  const char* end = name.data() + name.size();
  pid_t process = 0;
  const auto parsed = std::from_chars(name.data() + begin + own_mark.size(), end, process);
  const bool whole = parsed.ec == std::errc() && (parsed.ptr == end || *parsed.ptr == '-');
  return whole && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace

std::string temporary_of(const std::string& path) { return path + mark() + std::to_string(::getpid()); }

void remove_abandoned(const std::string& folder) {
  const std::string own_mark = mark();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (abandoned(entry.path().filename().string(), own_mark))
      std::filesystem::remove_all(entry.path(), ignored);
}

}  // namespace forge
