#include "core/lib/base/temporary.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace forge {
namespace {

constexpr std::string_view kTemporary = ".tmp-";

// Returns the mark that separates a file's name from the process id.
std::string mark() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::string name(host);
  std::erase_if(name,
                [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-'; });
  return std::string(kTemporary) + name + "-";
}

struct ProcessStat {
  bool ended = false;  // a zombie (state Z) that its parent has not reaped; it holds no file any more
  int64_t start = 0;   // in clock ticks since boot; 0 if unknown
};

// Returns state and start time of a process (proc(5), /proc/PID/stat, fields 3 and 22). Process ids
// are reused, but not together with the start time.
ProcessStat stat_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  // Field 3 follows the program's name, which may itself contain spaces and parentheses.
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field;
  ProcessStat stat;
  for (int number = 3; number <= 22; ++number) {
    fields >> field;
    if (number == 3) stat.ended = field == "Z" || field == "X";
  }
  std::from_chars(field.data(), field.data() + field.size(), stat.start);
  return fields ? stat : ProcessStat();
}

bool runs(pid_t process, int64_t start) {
  if (::kill(process, 0) != 0 && errno == ESRCH) return false;
  const ProcessStat now = stat_of(process);
  return !now.ended && (start == 0 || now.start == 0 || now.start == start);
}

// True for a name "NAME.tmp-HOST-PID.START", possibly with another "-…" after it, of a process that
// no longer runs.
bool abandoned(const std::string& name, const std::string& own_mark) {
  const size_t begin = name.find(own_mark);
  if (begin == std::string::npos) return false;
  const char* end = name.data() + name.size();
  pid_t process = 0;
  int64_t start = 0;
  auto parsed = std::from_chars(name.data() + begin + own_mark.size(), end, process);
  if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '.')
    parsed = std::from_chars(parsed.ptr + 1, end, start);
  const bool whole = parsed.ec == std::errc() && (parsed.ptr == end || *parsed.ptr == '-');
  return whole && process > 0 && !runs(process, start);
}

}  // namespace

bool may_be_in_use(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1), own_mark = mark();
  const size_t begin = name.find(kTemporary);
  if (begin == std::string::npos) return false;
  if (name.find(own_mark) != std::string::npos) return !abandoned(name, own_mark);
  // In a name of another machine the host is before the process. Earlier versions of forge wrote
  // ".tmp-PID".
  return name.find_first_not_of("0123456789", begin + kTemporary.size()) != std::string::npos;
}

std::string temporary_of(const std::string& path) {
  return path + mark() + std::to_string(::getpid()) + "." + std::to_string(stat_of(::getpid()).start);
}

void remove_abandoned(const std::string& folder) {
  const std::string own_mark = mark();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (abandoned(entry.path().filename().string(), own_mark) && !put_back(entry.path().string()))
      std::filesystem::remove_all(entry.path(), ignored);
}

bool put_back(const std::string& path) {
  const std::filesystem::path condemned(path);
  const std::string name = condemned.filename().string();
  const size_t end = name.find(kTemporary);
  if (!name.starts_with(kCondemned) || end == std::string::npos || end == kCondemned.size()) return false;
  const std::filesystem::path target = condemned.parent_path() / name.substr(kCondemned.size(), end - kCondemned.size());
  std::error_code error;
  if (std::filesystem::symlink_status(target, error).type() != std::filesystem::file_type::not_found) return false;
  std::filesystem::rename(condemned, target, error);
  return !error;
}

}  // namespace forge
