#include "cli/engine_end.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "cli/engine_location.h"
#include "core/lib/base/signals.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// Returns the value of a line "oom_kill 3".
int64_t counter(const std::string& path) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  while (file >> name >> value)
    if (name == "oom_kill") return value;
  return 0;
}

constexpr size_t kShownLines = 12;
const char* const kContinue = "run the same command again to continue from the last checkpoint";
const char* const kReport = "this is a bug in forge; please report it with the job file";

// Returns the last lines of stderr, indented, to print below a message.
std::string tail(const std::string& text) {
  std::vector<std::string> lines = split(trim(text), '\n');
  size_t begin = lines.size() > kShownLines ? lines.size() - kShownLines : 0;
  std::string result;
  for (size_t i = begin; i < lines.size(); ++i)
    if (!trim(lines[i]).empty()) result += "\n  | " + lines[i];
  return result;
}

std::string after(const std::string& text, const std::string& key) {
  size_t begin = text.find(key);
  if (begin == std::string::npos) return "";
  begin += key.size();
  return std::string(trim(text.substr(begin, text.find('\n', begin) - begin)));
}

// Returns the remedy for "libcufile.so.0: cannot open shared object file: …", or another complaint
// of the loader about a library.
std::string way_past(const std::string& complaint) {
  if (complaint.find("cannot open shared object file") == std::string::npos)
    return "forge doctor shows which LibTorch was found: install it again";
  return library_remedy({complaint.substr(0, complaint.find(':'))});
}

std::string how_to_go_on(const EngineEnd& end) { return end.trains ? kContinue : "run the same command again"; }

Error interrupted(const EngineEnd& end) {
  if (!end.trains) return Error(ErrorKind::interrupted, "interrupted");
  return Error(ErrorKind::interrupted, "interrupted before a checkpoint could be written").hint(kContinue);
}

Error explain_signal(int number, const EngineEnd& end) {
  std::string name = std::string("SIG") + sigabbrev_np(number);
  if (end.stop_requests > 1) return interrupted(end);
  if (number == SIGKILL && end.out_of_memory)
    return Error(ErrorKind::fit,
                 "the kernel killed the engine: the machine or its control group ran out of memory")
        .hint(
            "lower train.micro_batch_size or data.max_length, or set train.activation_checkpointing: full; "
            "forge plan shows the largest lines");
  if (number == SIGKILL)
    return Error(ErrorKind::environment,
                 "the engine was killed (SIGKILL), by a user or by the kernel for lack of memory" +
                     tail(end.standard_error))
        .hint(how_to_go_on(end));
  if (std::find(kStopSignals.begin(), kStopSignals.end(), number) != kStopSignals.end())
    return Error(ErrorKind::interrupted, "the engine was ended by " + name +
                                             (end.trains ? " before it wrote a checkpoint" : ""))
        .hint(how_to_go_on(end));
  if (number == SIGABRT && end.standard_error.find("std::bad_alloc") != std::string::npos)
    return Error(ErrorKind::fit, "the engine ran out of memory" + tail(end.standard_error))
        .hint("lower train.micro_batch_size or data.max_length; forge plan shows the largest lines");
  if (number == SIGBUS)
    return Error(ErrorKind::environment,
                 "the engine lost a mapped file (SIGBUS): a model or data file was cut "
                 "short meanwhile, or the disk is full" +
                     tail(end.standard_error))
        .hint("check the disk and the model's files");
  if (number == SIGILL)
    return Error(ErrorKind::environment,
                 "the engine met an instruction that this processor does not have (SIGILL)" +
                     tail(end.standard_error))
        .hint("build forge on this machine");
  return Error(ErrorKind::internal, "the engine crashed (" + name + ")" + tail(end.standard_error))
      .hint(kReport);
}

}  // namespace

int64_t memory_kills() {
  // Inside a container the group's own folder is often mounted as the root, so both places count.
  std::vector<std::string> files{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"};
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice" or "4:memory:/group"
    std::vector<std::string> parts = split(line, ':');
    if (parts.size() != 3 || parts[2] == "/") continue;
    if (parts[0] == "0") files.push_back("/sys/fs/cgroup" + parts[2] + "/memory.events");
    if (parts[1] == "memory") files.push_back("/sys/fs/cgroup/memory" + parts[2] + "/memory.oom_control");
  }
  int64_t kills = 0;
  for (const std::string& file : files) kills += counter(file);
  return kills;
}

Error explain_end(const EngineEnd& end) {
  if (WIFSIGNALED(end.status)) return explain_signal(WTERMSIG(end.status), end);
  int code = WEXITSTATUS(end.status);
  if (code == exit_code(ErrorKind::interrupted)) return interrupted(end);
  if (std::string missing = after(end.standard_error, "error while loading shared libraries: ");
      !missing.empty())
    return Error(ErrorKind::environment, "the engine cannot load a library: " + missing)
        .hint(way_past(missing));
  if (std::string version = after(end.standard_error, ": version `"); !version.empty())
    return Error(ErrorKind::environment,
                 "the engine was built for newer system libraries: version `" + version)
        .hint("build forge on this system");
  if (std::string symbol = after(end.standard_error, "symbol lookup error: "); !symbol.empty())
    return Error(ErrorKind::environment, "the engine does not fit the LibTorch that was found: " + symbol)
        .hint("forge doctor shows which LibTorch was found; the engine needs the one it was built with");
  if (std::string limit = after(end.standard_error, "libgomp: "); !limit.empty())
    return Error(ErrorKind::environment, "the engine's threads: " + limit)
        .hint("lower train.threads, or raise the process limit (ulimit -u, or the container's)");
  if (code == 0)
    return Error(ErrorKind::internal, "the engine ended before its work was done" + tail(end.standard_error))
        .hint(kReport);
  const std::string message = "the engine ended with code " + std::to_string(code) +
                              " without saying why" + tail(end.standard_error);
  for (ErrorKind kind :
       {ErrorKind::usage, ErrorKind::job, ErrorKind::fit, ErrorKind::environment, ErrorKind::data,
        ErrorKind::diverged, ErrorKind::gate, ErrorKind::stopped, ErrorKind::interrupted})
    if (exit_code(kind) == code) return Error(kind, message);
  return Error(ErrorKind::internal, message).hint(kReport);
}

}  // namespace forge
