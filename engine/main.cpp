// forge-engine: one request on stdin, events on stdout (docs/engine-protocol.md), forge's exit codes.
#include <c10/util/Exception.h>
#include <csignal>
#include <fcntl.h>
#include <iostream>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include "core/base/error.h"
#include "core/io/json.h"
#include "engine/requests.h"

namespace {

using namespace forge;

StopFlag stop_requested{0};

// The first signal asks for a checkpoint, the second leaves at once.
extern "C" void on_signal(int) {
  if (stop_requested.fetch_add(1) >= 1) _exit(exit_code(ErrorKind::interrupted));
}

void install_signal_handlers() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) sigaction(signal, &action, nullptr);
  // A write past RLIMIT_FSIZE or to a closed pipe is an error to report, not a death.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
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
  char byte = 0;
  while (true) {
    ssize_t count = read(STDIN_FILENO, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || byte == '\n') return line;
    line.push_back(byte);
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
    stop_requested.fetch_add(1);
    // A run that cannot reach a safe point within the promised 10 s leaves without a checkpoint.
    std::this_thread::sleep_for(std::chrono::seconds(9));
    _exit(exit_code(ErrorKind::interrupted));
  }).detach();
}

}  // namespace

int main() {
  int events = take_stdout();
  install_signal_handlers();
  EventSink emit = [events](const Json& event) { send(events, event); };
  auto fail = [&](ErrorKind kind, const std::string& message, const std::string& hint) {
    send(events, {{"event", "error"}, {"kind", name_of(kind)}, {"message", message}, {"hint", hint}});
    return exit_code(kind);
  };
  int code = 0;
  try {
    Json request = parse_json(read_request(), "request", ErrorKind::internal, {.depth = 200});
    watch_program();
    answer(request, emit, stop_requested);
  } catch (const Error& error) {
    code = fail(error.kind(), error.what(), error.hint());
  } catch (const c10::OutOfMemoryError& error) {
    code = fail(ErrorKind::fit, std::string("out of memory: ") + error.what_without_backtrace(), "lower train.micro_batch_tokens or data.max_length");
  } catch (const std::exception& error) {
    code = fail(ErrorKind::internal, error.what(), "this is a bug in forge; please report it with the job file");
  }
  // LibTorch's destructors have nothing left to do and take long.
  fflush(nullptr);
  _exit(code);
}
