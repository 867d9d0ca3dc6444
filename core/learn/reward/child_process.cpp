#include "core/learn/reward/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/text/tokenizer/unicode.h"

namespace forge {
namespace {

constexpr size_t kKeptErrors = 64 << 10;
constexpr size_t kReadAtOnce = 64 << 10;

[[noreturn]] void fail(const ChildSettings& settings, const std::string& what) {
  throw Error(ErrorKind::environment, "cannot start " + join(settings.command, " ") + ": " + what)
      .hint(
          "the first word names a program, found in PATH or relative to the key `directory`");
}

void close_end(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

struct Ends {
  int ours = -1, theirs = -1;
  Ends() = default;
  Ends(const Ends&) = delete;
  ~Ends() { close_end(ours), close_end(theirs); }
  bool open_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    ours = ends[0], theirs = ends[1];
    return true;
  }
  // Opens a socket, so that writing to a process that has ended gives an error and not a signal.
  bool open_socket() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    ours = ends[0], theirs = ends[1];
    ::shutdown(ours, SHUT_RD);
    return true;
  }
};

std::vector<std::string> environment_of(const ChildSettings& settings) {
  std::vector<std::string> names = child_environment(), values;
  names.insert(names.end(), settings.environment.begin(), settings.environment.end());
  for (const std::string& name : names)
    if (const char* value = std::getenv(name.c_str())) values.push_back(name + "=" + value);
  return values;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Runs between fork and exec: it calls only functions that a signal handler may call. Reports errno
// through `report`.
[[noreturn]] void become(const ChildSettings& settings, char* const* command, char* const* environment,
                         int input, int output, int errors, int report, pid_t parent) {
  const auto give_up = [&] {
    const int problem = errno;
    [[maybe_unused]] const ssize_t written = ::write(report, &problem, sizeof problem);
    ::_exit(127);
  };
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(number, SIG_DFL);
  if (::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(errors, 2) < 0) give_up();
  if (!settings.directory.empty() && ::chdir(settings.directory.c_str()) != 0) give_up();
  if (settings.memory_limit) {
    const rlimit limit{static_cast<rlim_t>(*settings.memory_limit),
                       static_cast<rlim_t>(*settings.memory_limit)};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) give_up();
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::execvpe(command[0], command, environment);
  give_up();
  ::_exit(127);
}

}  // namespace

const std::vector<std::string>& child_environment() {
  static const std::vector<std::string> names{"PATH",       "HOME",       "USER",   "LANG", "LANGUAGE",
                                              "LC_ALL",     "LC_CTYPE",   "TMPDIR", "TZ",   "LD_LIBRARY_PATH",
                                              "PYTHONPATH", "VIRTUAL_ENV"};
  return names;
}

ChildProcess::ChildProcess(const ChildSettings& settings) {
  Ends input, output, errors, report;
  if (!input.open_socket() || !output.open_pipe() || !errors.open_pipe() || !report.open_pipe())
    fail(settings, std::strerror(errno));
  std::vector<std::string> command = settings.command, environment = environment_of(settings);
  const std::vector<char*> words = pointers(command), variables = pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) fail(settings, std::strerror(errno));
  if (pid == 0)
    become(settings, words.data(), variables.data(), input.theirs, output.theirs, errors.theirs,
           report.theirs, parent);
  pid_ = pid;
  ::setpgid(pid, pid);  // parent and child both call it; the first call counts
  close_end(report.theirs);
  int problem = 0;
  if (::read(report.ours, &problem, sizeof problem) == sizeof problem) {
    ::waitpid(pid, nullptr, 0);
    pid_ = -1;
    const bool directory =
        problem == ENOENT && !settings.directory.empty() && ::access(settings.directory.c_str(), X_OK) != 0;
    fail(settings, (directory ? settings.directory + ": " : "") + std::strerror(problem));
  }
  std::swap(input_, input.ours);
  std::swap(output_, output.ours);
  std::swap(errors_, errors.ours);
  for (const int descriptor : {input_, output_, errors_})
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) end(std::chrono::milliseconds(0));
}

void ChildProcess::send(const std::string& line) {
  outgoing_ += line;
  outgoing_ += '\n';
}

void ChildProcess::write_some() {
  while (!all_sent() && input_ >= 0) {
    const ssize_t written = ::send(input_, outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL);
    if (written > 0) {
      sent_ += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      if (errno != EAGAIN) close_end(input_);
      return;
    }
  }
  outgoing_.clear();
  sent_ = 0;
}

void ChildProcess::read_from(int& descriptor, std::string& into) {
  // The number of reads is bounded, so that a process that writes without end does not block the
  // others.
  for (int turn = 0; turn < 16 && descriptor >= 0; ++turn) {
    char bytes[kReadAtOnce];
    const ssize_t count = ::read(descriptor, bytes, sizeof bytes);
    if (count > 0)
      into.append(bytes, static_cast<size_t>(count));
    else if (count == 0)
      close_end(descriptor);
    else if (errno != EINTR)
      return;
  }
}

// Returns how the process has exited; nothing while it runs. It is not reaped until its group is
// killed, so that no other process can get its number.
std::optional<std::string> ChildProcess::exit_reason() const {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  const std::string status = std::to_string(info.si_status);
  if (info.si_code == CLD_EXITED) return "ended with exit code " + status;
  return "was killed by signal " + status + " (" + ::strsignal(info.si_status) + ")";
}

void ChildProcess::exchange() {
  if (!alive_) return;
  // This is checked before reading, so that the last output is read after it.
  std::optional<std::string> why = exit_reason();
  write_some();
  read_from(output_, incoming_);
  read_from(errors_, standard_error_);
  if (standard_error_.size() > 2 * kKeptErrors)
    standard_error_.erase(0, standard_error_.size() - kKeptErrors);
  // The pipes of a process close a moment before it is seen to have ended.
  for (int turn = 0; output_ < 0 && !why && turn < 40; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    why = exit_reason();
  }
  if (!why && output_ < 0) why = "closed its standard output";
  if (!why && input_ < 0) why = "closed its standard input";
  alive_ = !why;
  why_ended_ = why.value_or("");
}

std::optional<std::string> ChildProcess::next_line() {
  const size_t end = incoming_.find('\n', taken_ + scanned_);
  if (end == std::string::npos) {
    // Lines that were taken are erased together: erasing each would take quadratic time.
    incoming_.erase(0, taken_);
    taken_ = 0;
    scanned_ = incoming_.size();
    return std::nullopt;
  }
  std::string line = incoming_.substr(taken_, end - taken_);
  taken_ = end + 1;
  scanned_ = 0;
  return line;
}

bool ChildProcess::babbles() const { return scanned_ > kLongestLine; }

std::string ChildProcess::standard_error() const {
  const size_t from = standard_error_.size() > kKeptErrors ? standard_error_.size() - kKeptErrors : 0;
  return text::replace_invalid_utf8(std::string_view(standard_error_).substr(from));
}

void ChildProcess::close_input() { close_end(input_); }

void ChildProcess::end(std::chrono::milliseconds patience) {
  if (pid_ <= 0) return;
  close_input();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!exit_reason() && std::chrono::steady_clock::now() < deadline) {
    std::string ignored;
    read_from(output_, ignored);
    read_from(errors_, standard_error_);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(static_cast<pid_t>(-pid_), SIGKILL);
  ::kill(static_cast<pid_t>(pid_), SIGKILL);
  while (::waitpid(static_cast<pid_t>(pid_), nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  alive_ = false;
  read_from(errors_, standard_error_);
  close_end(output_);
  close_end(errors_);
}

void wait_for_any(const std::vector<ChildProcess*>& children, std::chrono::milliseconds most) {
  std::vector<pollfd> all;
  for (const ChildProcess* child : children) {
    if (child->output() >= 0) all.push_back({child->output(), POLLIN, 0});
    if (child->error_output() >= 0) all.push_back({child->error_output(), POLLIN, 0});
    if (child->input() >= 0 && !child->all_sent()) all.push_back({child->input(), POLLOUT, 0});
  }
  ::poll(all.data(), all.size(), static_cast<int>(most.count()));
}

}  // namespace forge
