// forge-engine: one request on stdin, events on stdout (docs/engine-protocol.md), forge's exit
// codes.
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "core/lib/base/instruction_set.h"
#include "core/lib/base/signals.h"
#include "core/lib/base/unexpected.h"
#include "core/lib/io/json.h"
#include "engine/requests.h"

namespace {

using namespace forge;

StopFlag stop;

// Reacts to a signal once, however often it is sent, since queues signal both program and engine.
// The program decides when to stop waiting, and kills.
extern "C" void on_signal(int) {
  stop.requested = true;
  if (!stop.watched) _exit(exit_code(ErrorKind::interrupted));
}

void install_signal_handlers() {
  // A write past RLIMIT_FSIZE or to a closed pipe is an error to report, not a reason to die.
  for (int number : {SIGXFSZ, SIGPIPE}) std::signal(number, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = on_signal;
  const sigset_t answered = answered_signals();
  for (int number : kStopSignals)
    if (sigismember(&answered, number)) sigaction(number, &action, nullptr);
  // The program starts the engine with these blocked, so that none arrives before the handlers are
  // installed.
  sigprocmask(SIG_UNBLOCK, &answered, nullptr);
}

// The real stdout is for events only; whatever a library prints goes to stderr instead.
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
    if (count < 0) return;  // the program has exited; end of file on stdin stops the run
    position += count;
    left -= static_cast<size_t>(count);
  }
}

// The program's lines as they arrive: the request, then replies to events that ask for one.
class ProgramLines {
 public:
  // Reads until the program exits.
  void watch() {
    std::thread([this] {
      std::string line;
      char buffer[65536];
      while (true) {
        const ssize_t count = read(STDIN_FILENO, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        for (std::string_view rest(buffer, static_cast<size_t>(count)); !rest.empty();) {
          const size_t end = rest.find('\n');
          line += rest.substr(0, end);
          if (end == rest.npos) break;
          put(std::exchange(line, ""));
          rest.remove_prefix(end + 1);
        }
      }
      put(std::nullopt);
      // The program keeps our stdin open as long as it lives.
      on_signal(0);
      // A run that cannot reach a safe point within the promised 10 s exits without a checkpoint.
      std::this_thread::sleep_for(std::chrono::seconds(9));
      _exit(exit_code(ErrorKind::interrupted));
    }).detach();
  }

  // Returns the next line; nothing once the program has exited or `given_up` returns true.
  std::optional<std::string> next(const std::function<bool()>& given_up) {
    using namespace std::chrono_literals;
    std::unique_lock lock(mutex_);
    while (lines_.empty() && !ended_ && !given_up()) arrived_.wait_for(lock, 50ms);
    if (lines_.empty()) return std::nullopt;
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

 private:
  // Adds a line; nothing means that no more lines come.
  void put(std::optional<std::string> line) {
    const std::lock_guard lock(mutex_);
    ended_ = !line;
    if (line) lines_.push_back(std::move(*line));
    arrived_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::string> lines_;
  bool ended_ = false;
};

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
    static ProgramLines lines;  // its thread may outlive main
    lines.watch();
    const auto never = [] { return false; };
    Json request = parse_json(lines.next(never).value_or(""), "request", ErrorKind::internal, {.depth = 200});
    const Ask ask = [&](const Json& event) {
      emit(event);
      const std::optional<std::string> line = lines.next([] { return stop.requested.load(); });
      if (!line) throw StepInterrupted{};
      return parse_json(*line, "answer", ErrorKind::internal, {.depth = 200});
    };
    answer(request, emit, ask, stop);
  } catch (const c10::OutOfMemoryError& error) {
    code = fail(Error(ErrorKind::fit, std::string("out of memory: ") + error.what_without_backtrace())
                    .hint("lower train.micro_batch_tokens or data.max_length"));
  } catch (const std::exception& error) {
    // oneDNN's message says no more than this if memory for a product's code is refused.
    const bool starved = std::string_view(error.what()).find("could not create a primitive") != std::string_view::npos;
    code = fail(starved ? Error(ErrorKind::fit, "out of memory: oneDNN could not make a product's kernel")
                              .hint("lift the limits on this process's memory (ulimit -v), or lower train.micro_batch_tokens")
                        : as_error(error));
  }
  // LibTorch's destructors take long and have nothing left to do.
  fflush(nullptr);
  _exit(code);
}
