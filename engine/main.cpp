// forge-engine: one request on stdin, events on stdout (docs/engine-protocol.md), forge's exit codes.
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <csignal>
#include <iostream>
#include <string_view>
#include <thread>

#include "core/base/instruction_set.h"
#include "core/base/signals.h"
#include "core/base/unexpected.h"
#include "core/io/json.h"
#include "engine/requests.h"

namespace {

using namespace forge;

StopFlag stop;

// However often it is asked, since queues send their signals to program and engine both. Who is in a hurry is the
// program's to judge; it kills.
extern "C" void on_signal(int) {
  stop.requested = true;
  if (!stop.watched) _exit(exit_code(ErrorKind::interrupted));
}

void install_signal_handlers() {
  // A write past RLIMIT_FSIZE or to a closed pipe is an error to report, not a death.
  for (int number : {SIGXFSZ, SIGPIPE}) std::signal(number, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = on_signal;
  const sigset_t answered = answered_signals();
  for (int number : kStopSignals)
    if (sigismember(&answered, number)) sigaction(number, &action, nullptr);
  // The program starts the engine with these held back, so that none meets it without handlers.
  sigprocmask(SIG_UNBLOCK, &answered, nullptr);
}

// Events own the real stdout; whatever a library prints there goes to stderr instead.
int take_stdout() {
  int events = dup(STDOUT_FILENO);
  fcntl(events, F_SETFD, FD_CLOEXEC);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return events;
}

void send(int descriptor, const Json& event) {
  std::string line = dump_json(event) + "\n";
  const char* position = line.data();
  size_t left = line.size();
  while (left > 0) {
    ssize_t count = write(descriptor, position, left);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // the program is gone; its end of file on stdin stops the run
    position += count;
    left -= static_cast<size_t>(count);
  }
}

std::string read_request() {
  std::string line;
  char buffer[65536];
  while (true) {
    ssize_t count = read(STDIN_FILENO, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return line;
    const std::string_view part(buffer, static_cast<size_t>(count));
    const size_t end = part.find('\n');
    line += part.substr(0, end);
    if (end != part.npos) return line;  // the program sends one request and nothing behind it
  }
}

// The program keeps our stdin open as long as it lives.
void watch_program() {
  std::thread([] {
    char byte = 0;
    while (true) {
      ssize_t count = read(STDIN_FILENO, &byte, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
    }
    on_signal(0);
    // A run that cannot reach a safe point within the promised 10 s leaves without a checkpoint.
    std::this_thread::sleep_for(std::chrono::seconds(9));
    _exit(exit_code(ErrorKind::interrupted));
  }).detach();
}

}  // namespace

int main() {
  install_signal_handlers();
  int events = take_stdout();
  EventSink emit = [events](const Json& event) { send(events, event); };
  auto fail = [&](const Error& error) {
    send(events, {{"event", "error"},
                  {"kind", name_of(error.kind())},
                  {"message", error.what()},
                  {"hint", error.hint()}});
    return exit_code(error.kind());
  };
  int code = 0;
  try {
    hold_libraries_to_statement();
    Json request = parse_json(read_request(), "request", ErrorKind::internal, {.depth = 200});
    watch_program();
    answer(request, emit, stop);
  } catch (const c10::OutOfMemoryError& error) {
    code = fail(Error(ErrorKind::fit, std::string("out of memory: ") + error.what_without_backtrace())
                    .hint("lower train.micro_batch_tokens or data.max_length"));
  } catch (const std::exception& error) {
    code = fail(as_error(error));
  }
  // LibTorch's destructors have nothing left to do and take long.
  fflush(nullptr);
  _exit(code);
}
