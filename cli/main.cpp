// forge: the program. Finds the command, runs it, and turns what it throws into words and an exit
// code.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/faults.h"
#include "core/lib/base/signals.h"
#include "core/lib/base/text.h"
#include "core/lib/base/unexpected.h"
#include "forge_build.h"

namespace forge {
namespace {

// Prints the final message. With --json it is data on stdout, or on stderr if stdout fails.
int report(const Error& original, bool json) {
  const FaultError error = hide_secrets(original, {});
  const int code = exit_code(error.kind());
  try {
    if (json && stdout_is_read()) {
      Json faults = Json::array();
      for (const Fault& fault : faults_of(error)) faults.push_back(to_json(fault));
      print_json({{"event", "error"},
                  {"kind", name_of(error.kind())},
                  {"message", error.what()},
                  {"hint", error.hint()},
                  {"faults", faults}});
      return code;
    }
  } catch (const Error&) {
  } catch (const ReaderGone&) {
  }
  say(error.what());
  if (!error.hint().empty()) say("  " + error.hint());
  return code;
}

// Leaves at once: while the program itself works there is nothing to save. (While an engine works,
// engine_process takes the signals.)
void leave_on_signal(int) {
  static constexpr char kText[] = "\ninterrupted\n";
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(exit_code(ErrorKind::interrupted));
}

void install_signal_handlers() {
  for (int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_IGN);  // so that write() reports EPIPE and EFBIG instead
  ::signal(SIGCHLD, SIG_DFL);  // a parent may have ignored it, and then waiting for an engine would fail
  struct sigaction action {};
  action.sa_handler = leave_on_signal;
  for (int number : kStopSignals)
    if (is_answered(number)) ::sigaction(number, &action, nullptr);
}

// If stdin, stdout or stderr is closed, the next file opened would get its number and print() would
// write into that file. /dev/null takes the number, opened read-only, so that writing still fails.
void occupy_standard_descriptors() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0) (void)::open("/dev/null", O_RDONLY);
}

// Throws Error(environment) if the stack is too small. Templates, JSON and YAML are read by
// recursive functions: their depth is bounded, but a shell may have left less stack than that
// needs. The engine inherits the limit.
void require_stack() {
  constexpr rlim_t kLeast = 1 << 20;
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  throw Error(ErrorKind::environment, "the stack is limited to " + format_bytes(static_cast<int64_t>(limit.rlim_cur)) + ", expected at least " +
                                          format_bytes(static_cast<int64_t>(kLeast)))
      .hint("ulimit -s 8192");
}

int run(const std::vector<std::string>& words) {
  if (words.empty()) {
    say(overview());
    return exit_code(ErrorKind::usage);
  }
  if (words[0] == "--help" || words[0] == "-h" || (words[0] == "help" && words.size() == 1)) {
    print(overview());
    return 0;
  }
  const auto says = [&](size_t i, const char* word) { return i < words.size() && words[i] == word; };
  const bool json_first = says(0, "--json");
  if (says(json_first, "--version") || says(json_first, "-V")) {
    print_either(json_first || says(1, "--json"), {{"version", kForgeVersion}},
                 std::string("forge ") + kForgeVersion + "\n");
    return 0;
  }
  require_stack();
  bool asks_for_help = words[0] == "help";
  const Command& command = find_command(words[asks_for_help ? 1 : 0]);
  std::optional<Arguments> arguments;
  if (!asks_for_help) arguments = parse_arguments(command, {words.begin() + 1, words.end()});
  if (arguments) return command.run(*arguments);
  print(help_text(command));
  return 0;
}

}  // namespace
}  // namespace forge

int main(int count, char** words) {
  using namespace forge;
  install_signal_handlers();
  occupy_standard_descriptors();
  std::vector<std::string> line(words + 1, words + count);
  bool json = std::find(line.begin(), line.end(), "--json") != line.end();
  try {
    return run(line);
  } catch (const ReaderGone&) {
    return kReaderGoneCode;
  } catch (const Error& error) {
    return report(error, json);  // not converted: it may be a subclass with its own faults
  } catch (const std::exception& exception) {
    return report(as_error(exception), json);
  }
}
