#include "core/lib/base/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "core/lib/base/clock.h"

namespace forge {
namespace {


std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

pid_t start(std::vector<std::string>& command, std::vector<std::string>& environment, int output) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, command.at(0).c_str(), &files, nullptr, pointers(command).data(),
                                   environment.empty() ? environ : pointers(environment).data());
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? pid : -1;
}

void read_until_end(int descriptor, const ProgramLimits& limits, std::string& output) {
  const auto deadline = Clock::now() + limits.patience;
  char buffer[4096];
  while (output.size() < limits.most_bytes) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wait{descriptor, POLLIN, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return;
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    output.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace

std::string program_output(std::vector<std::string> command, std::vector<std::string> environment,
                           const ProgramLimits& limits) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const pid_t pid = start(command, environment, ends[1]);
  ::close(ends[1]);
  std::string output;
  if (pid > 0) read_until_end(ends[0], limits, output);
  ::close(ends[0]);
  if (pid <= 0) return "";
  ::kill(pid, SIGKILL);  // a program that continues after its output has ended is not waited for
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return output;
}

}  // namespace forge
