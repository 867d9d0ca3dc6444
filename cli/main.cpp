// forge: the program. Finds the command, runs it, and turns what it throws into words and an exit code.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "forge_build.h"

namespace forge {
namespace {

// The last words. With --json they are data; where stdout cannot take them, stderr does.
int report(ErrorKind kind, const std::string& message, const std::string& hint, bool json) {
  try {
    if (json) {
      print_json({{"event", "error"}, {"kind", name_of(kind)}, {"message", message}, {"hint", hint}});
      return exit_code(kind);
    }
  } catch (const Error&) {
  }
  say_error(message, hint);
  return exit_code(kind);
}

// While the program itself works there is nothing to save. (While an engine works, engine_process takes the
// signals.)
void leave_on_signal(int) {
  static constexpr char kText[] = "\ninterrupted\n";
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(exit_code(ErrorKind::interrupted));
}

void install_signal_handlers() {
  ::signal(SIGPIPE, SIG_IGN);  // writes report EPIPE instead
  struct sigaction action {};
  action.sa_handler = leave_on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
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
  if (words[0] == "--version") {
    print(std::string("forge ") + kForgeVersion + "\n");
    return 0;
  }
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
  std::vector<std::string> line(words + 1, words + count);
  bool json = std::find(line.begin(), line.end(), "--json") != line.end();
  try {
    return run(line);
  } catch (const Error& error) {
    return report(error.kind(), error.what(), error.hint(), json);
  } catch (const std::bad_alloc&) {
    return report(ErrorKind::fit, "out of memory", "", json);
  } catch (const std::exception& error) {
    return report(ErrorKind::internal, error.what(),
                  "this is a bug in forge; please report it with the job file", json);
  }
}
