#pragma once
// A child process that reads lines on its standard input and writes lines on its standard output.
// Its standard error is kept.
//
//   ChildProcess child({.command = {"python3", "reward.py"}, .directory = "/jobs"});
//   child.send("{\"id\":1}");
//   while (child.alive()) { child.exchange(100ms); while (auto line = child.next_line()) use(*line); }
//
// It is not a sandbox: a process may do whatever its user may. Its address space is bounded. It
// leads a process group of its own, which is killed with it, and it dies with the thread that
// started it. A grandchild that leaves the group is not killed.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forge {

struct ChildSettings {
  std::vector<std::string> command;      // a program, looked for in PATH, and its arguments
  std::string directory;                 // to work in; empty: this process's
  std::vector<std::string> environment;  // names of variables to pass on beside child_environment()
  std::optional<int64_t> memory_limit;   // bytes of address space
};

// Returns the names of the variables that every process gets, if they are set: those for finding
// programs, for folders and for languages. No other variable is passed on unless it is named, so
// that tokens and keys in forge's own environment stay private.
const std::vector<std::string>& child_environment();

class ChildProcess {
 public:
  // Throws Error(environment) when it cannot be started.
  explicit ChildProcess(const ChildSettings& settings);
  // Kills the process and its group.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;

  // Puts a line in the queue; `exchange` writes it.
  void send(const std::string& line);
  bool all_sent() const { return sent_ == outgoing_.size(); }
  // Reads and writes as much as is possible without waiting, and checks whether the process has
  // ended.
  void exchange();
  // Returns the next complete line, without its end. Nothing while none is complete.
  std::optional<std::string> next_line();
  // True if a line is longer than kLongestLine bytes.
  bool babbles() const;

  // False once the process ended, or closed its input or output: why_ended() says which.
  bool alive() const { return alive_; }
  const std::string& why_ended() const { return why_ended_; }
  // Returns the last 64 KiB of its standard error, with invalid UTF-8 replaced.
  std::string standard_error() const;
  int64_t id() const { return pid_; }
  // Returns descriptors for poll.
  int output() const { return output_; }
  int input() const { return input_; }
  int error_output() const { return errors_; }

  // Closes its input, which tells it to exit.
  void close_input();
  // Closes its input, waits `patience` for its exit, then kills it with its group.
  void end(std::chrono::milliseconds patience);

 private:
  void read_from(int& descriptor, std::string& into);
  void write_some();
  std::optional<std::string> exit_reason() const;

  int64_t pid_ = -1;
  int input_ = -1, output_ = -1, errors_ = -1;
  std::string outgoing_, incoming_, standard_error_;
  size_t sent_ = 0;     // bytes of outgoing_
  size_t taken_ = 0;    // bytes of incoming_ whose lines were returned
  size_t scanned_ = 0;  // bytes of incoming_ after them that hold no end of line
  bool alive_ = true;
  std::string why_ended_;
};

constexpr size_t kLongestLine = size_t{1} << 20;

// Waits until one of the processes has written something or can be written to, `most` at most.
void wait_for_any(const std::vector<ChildProcess*>& children, std::chrono::milliseconds most);

}  // namespace forge
