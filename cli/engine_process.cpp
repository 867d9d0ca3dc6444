#include "cli/engine_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "cli/engine_end.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/signals.h"
#include "core/lib/base/text.h"
#include "core/run/request_fields.h"

namespace forge {
namespace {

using namespace std::chrono_literals;

constexpr auto kLeaveAfterLastEvent = 10s;  // how long the engine may take to exit after its last event
constexpr auto kLeaveAfterKill = 20s;       // more than the kernel needs to take a large process's memory back
constexpr size_t kStandardErrorBytes = 32768;
constexpr int64_t kLongestEvent = 64 << 20;

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw Error(ErrorKind::environment, std::string("cannot make a pipe: ") + std::strerror(errno));
    read_end = ends[0], write_end = ends[1];
  }
  ~Pipe() { close_read(), close_write(); }
  void close_read() { close_end(read_end); }
  void close_write() { close_end(write_end); }
  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

// Queues signals in a descriptor while an engine runs; the destructor restores the old mask.
class ForwardedSignals {
 public:
  ForwardedSignals() {
    sigset_t set = answered_signals();
    sigaddset(&set, SIGTSTP);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    descriptor_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~ForwardedSignals() {
    ::close(descriptor_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  int descriptor() const { return descriptor_; }
  // Returns the next waiting signal, or 0.
  int next() const {
    signalfd_siginfo info{};
    return ::read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_;
  int descriptor_ = -1;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

Json parse_event(std::string_view line) {
  try {
    Json event = parse_json(line, "engine", ErrorKind::internal);
    if (event.is_object() && event.contains("event") && event["event"].is_string()) return event;
  } catch (const Error&) {
  }
  throw Error(ErrorKind::internal,
              "the engine sent a line that is not an event: " + std::string(line.substr(0, 200)))
      .hint("something in it prints to stdout; please report it with the job file");
}

[[noreturn]] void refuse_undying(pid_t pid) {
  throw Error(ErrorKind::environment, "the engine (process " + std::to_string(pid) + ") was killed but does not end")
      .hint("it waits inside the kernel, for a driver or a disk; dmesg may say which");
}

}  // namespace

struct EngineProcess::State {
  std::optional<ForwardedSignals> signals{std::in_place};
  Pipe requests, events, errors;
  pid_t pid = -1;
  std::optional<int> status;  // set once it has exited
  std::string request;        // being sent
  size_t sent = 0;            // bytes of it sent so far
  std::string line;           // the event being received
  std::string standard_error;
  int64_t memory_kills_before = memory_kills();
  int stop_requests = 0;
  bool trains = false;  // true if the request trains: only training writes checkpoints
  std::optional<Clock::time_point> deadline;
  std::function<void()> check;  // called while the engine works
  bool greeted = false;
  AnswerThread answers;  // after the signals, which it leaves to the main thread

  void start(const EngineLocation& location, const EngineSettings& settings) {
    std::vector<std::string> environment = merged_environment(engine_environment(location, settings));
    std::vector<std::string> words{location.program};
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, requests.read_end, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, events.write_end, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, errors.write_end, STDERR_FILENO);
    // This comes last, because the number may belong to one of the program's own pipes.
    if (settings.lock) posix_spawn_file_actions_adddup2(&files, *settings.lock, kEngineLock);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults;
    sigemptyset(&defaults);
    for (int number : {SIGINT, SIGTERM}) sigaddset(&defaults, number);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    // The signals are blocked until the engine has installed its handlers: it loads libraries for
    // most of a second first.
    const sigset_t held = answered_signals();
    posix_spawnattr_setsigmask(&attributes, &held);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int error = ::posix_spawn(&pid, location.program.c_str(), &files, &attributes, pointers(words).data(),
                              pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) {
      pid = -1;
      throw Error(ErrorKind::environment,
                  location.program + ": cannot start the engine: " + std::strerror(error));
    }
    requests.close_read(), events.close_write(), errors.close_write();
    for (int descriptor : {requests.write_end, events.read_end, errors.read_end})
      ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  }

  // Converses up to the engine's end, or up to the event `turn`.
  Json converse(const OnEvent& on_event) {
    std::optional<Json> done, error, turn;
    auto on_line = [&](Json event) {
      const std::string name = event.value("event", "");
      check_greeting(event);
      if (name == "error") {
        error = event;
        return;  // thrown at the end, so that the caller shows it once
      }
      if (name == "turn") {
        turn = std::move(event);
        return;
      }
      on_event(event);
      if (name != "done") return;
      done = std::move(event);
      deadline = Clock::now() + kLeaveAfterLastEvent;
    };
    bool events_open = true, errors_open = true;
    while (events_open) {
      wait_for_something(events_open, errors_open);
      run_check();
      if (!keep_deadline()) refuse_undying(pid);
      take_signals(on_event);
      while (const std::optional<Json> line = answers.next()) queue(*line);
      send_some();
      if (errors_open) errors_open = read_errors();
      bool ended = reap();
      events_open = read_events(on_line) && !ended;
      if (turn) return *turn;
    }
    requests.close_write();
    if (!deadline) deadline = Clock::now() + kLeaveAfterLastEvent;
    while (!reap()) {
      wait_for_something(false, errors_open);
      if (!keep_deadline()) refuse_undying(pid);
      take_signals(on_event);
      if (errors_open) errors_open = read_errors();
    }
    if (errors_open) read_errors();
    bool success = WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
    if (!success || error || !done) throw_end(error);
    return *done;
  }

  void wait_for_something(bool events_open, bool errors_open) {
    pollfd waits[] = {{signals ? signals->descriptor() : -1, POLLIN, 0},
                      {events_open ? events.read_end : -1, POLLIN, 0},
                      {errors_open ? errors.read_end : -1, POLLIN, 0},
                      {sent == request.size() ? -1 : requests.write_end, POLLOUT, 0},
                      {events_open ? answers.descriptor() : -1, POLLIN, 0}};
    // The timeout is for an engine that has exited while another process still holds its pipes.
    ::poll(waits, std::size(waits), events_open ? 200 : 5);
  }

  void run_check() {
    if (!check) return;
    try {
      check();
    } catch (...) {
      ::kill(pid, SIGKILL);
      throw;
    }
  }

  // Kills the engine once the deadline has passed. Returns false if even that does not end it.
  bool keep_deadline() {
    if (!deadline || Clock::now() <= *deadline) return true;
    ::kill(pid, SIGKILL);
    return Clock::now() <= *deadline + kLeaveAfterKill;
  }

  void queue(const Json& line) {
    request.erase(0, std::exchange(sent, 0));
    request += dump_json(line) + "\n";
  }

  void send_some() {
    while (sent < request.size()) {
      ssize_t count = ::write(requests.write_end, request.data() + sent, request.size() - sent);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count < 0)
        sent = request.size();  // it has exited; its exit status says why
      else
        sent += static_cast<size_t>(count);
    }
  }

  // Returns false at the end of the stream.
  bool read_errors() {
    char buffer[4096];
    for (;;) {
      ssize_t count = ::read(errors.read_end, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return true;
      if (count <= 0) return false;
      standard_error.append(buffer, static_cast<size_t>(count));
      if (standard_error.size() > 2 * kStandardErrorBytes)
        standard_error.erase(0, standard_error.size() - kStandardErrorBytes);
    }
  }

  bool read_events(const std::function<void(Json)>& on_line) {
    char buffer[65536];
    for (;;) {
      ssize_t count = ::read(events.read_end, buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return true;
      if (count <= 0) return false;
      for (std::string_view rest(buffer, static_cast<size_t>(count)); !rest.empty();) {
        const size_t end = rest.find('\n');
        line += rest.substr(0, end);
        if (static_cast<int64_t>(line.size()) > kLongestEvent)
          throw Error(ErrorKind::internal,
                      "the engine sent an event of more than " + format_bytes(kLongestEvent))
              .hint("please report it with the job file");
        if (end == rest.npos) break;
        on_line(parse_event(std::exchange(line, "")));
        rest.remove_prefix(end + 1);
      }
    }
  }

  void take_signals(const OnEvent& on_event) {
    while (int number = signals->next()) forward(number, on_event);
  }

  void forward(int number, const OnEvent& on_event) {
    if (number == SIGTSTP) {  // Ctrl-Z stops both, fg continues both
      ::kill(pid, SIGSTOP);
      ::raise(SIGSTOP);
      ::kill(pid, SIGCONT);
      return;
    }
    if (stop_requests > 0 && !means_now(number)) return;  // already asked to stop
    ::kill(pid, stop_requests > 0 ? SIGKILL : SIGTERM);   // a checkpoint being written is complete or does not exist
    if (stop_requests > 0) deadline = std::min(deadline.value_or(Clock::now()), Clock::now());
    ++stop_requests;
    const char* text = stop_requests > 1 ? "leaving"
                       : trains          ? "stopping after a checkpoint; interrupt again to stop without one"
                                         : "stopping; interrupt again to leave at once";
    on_event({{"event", "notice"}, {"level", "info"}, {"text", text}});
  }

  bool reap() {
    if (status) return true;
    int value = 0;
    if (::waitpid(pid, &value, WNOHANG) != pid) return false;
    status = value;
    return true;
  }

  void check_greeting(const Json& event) {
    if (greeted) return;
    greeted = true;
    bool fits = event.value("event", "") == "hello" && event.value("protocol", 0) == kProtocol;
    if (fits || event.value("event", "") == "error") return;
    ::kill(pid, SIGKILL);
    throw Error(ErrorKind::environment, "the engine speaks a different protocol than this program (" +
                                            std::to_string(kProtocol) + "): " + dump_json(event).substr(0, 200))
        .hint("program and engine must come from one build; unset FORGE_ENGINE, or build both again");
  }

  [[noreturn]] void throw_end(const std::optional<Json>& error) {
    if (error)
      throw Error(error_kind_of(error->value("kind", "")),
                  error->value("message", "the engine gave no message"))
          .hint(error->value("hint", ""));
    bool out_of_memory = memory_kills() > memory_kills_before;
    throw explain_end({*status, standard_error, out_of_memory, stop_requests, trains});
  }
};

EngineProcess::EngineProcess(const EngineLocation& location, const EngineSettings& settings)
    : state_(std::make_unique<State>()) {
  state_->start(location, settings);
}

EngineProcess::~EngineProcess() {
  state_->requests.close_write();
  state_->events.close_read();
  if (!state_->deadline) state_->deadline = Clock::now() + kLeaveAfterLastEvent;
  while (state_->pid > 0 && !state_->reap() && state_->keep_deadline()) {
    state_->wait_for_something(false, false);
    // The engine is leaving already, so that one signal is as good as two.
    while (const int number = state_->signals ? state_->signals->next() : 0)
      if (means_now(number)) state_->deadline = std::min(*state_->deadline, Clock::now());
  }
}

void EngineProcess::watch(std::function<void()> check) { state_->check = std::move(check); }

Json EngineProcess::request(const Json& request, const OnEvent& on_event) {
  state_->trains = request.value("command", "") == "train";
  state_->queue(request);
  // The destructor cancels the work: objects that it reads may be destroyed once this returns or
  // throws.
  const struct Ended {
    AnswerThread& answers;
    ~Ended() { answers.cancel(); }
  } ended{state_->answers};
  return state_->converse(on_event);
}

Json EngineProcess::turn(const Json& request, const OnEvent& on_event) {
  if (!state_->signals) state_->signals.emplace();
  state_->queue(request);
  const struct Ended {
    std::optional<ForwardedSignals>& signals;
    ~Ended() { signals.reset(); }
  } ended{state_->signals};
  return state_->converse(on_event);
}

void EngineProcess::answer(AnswerThread::Work work) { state_->answers.begin(std::move(work)); }
void EngineProcess::hear(const Json& reply) { state_->answers.hear(reply); }

}  // namespace forge
