#pragma once
// Errors shown to users, and forge's own invariants.
//
//   throw Error(ErrorKind::job, "job.yaml:3:3: train.steps: unknown key").hint("write train.max_steps");
//   FORGE_CHECK(offset <= size, "offset " << offset << " past the end " << size);
//
// User and world faults throw Error: the message says what, where and what was expected, the hint
// says what to do. Broken promises inside forge use FORGE_CHECK, always on. Both are caught once,
// in cli/main.cpp and in the engine's main.
#include <sstream>
#include <stdexcept>
#include <string>

namespace forge {

// Each kind has one exit code (exit_code). The codes are documented in `forge --help`.
enum class ErrorKind {
  usage,        // 2: the command line
  job,          // 3: the job text, an unknown architecture, a differing job under the same name
  fit,          // 4: the plan does not fit into memory
  environment,  // 5: a model, tokenizer or adapter file; a missing engine; the disk
  data,         // 6: a data file or row
  diverged,     // 7: the loss is not finite
  gate,         // 8: a gate of the job was not met
  internal,     // 70: a bug in forge
  stopped,      // 75: stopped on a signal, with a checkpoint
  interrupted,  // 130: interrupted before a checkpoint could be written
};

int exit_code(ErrorKind kind);
const char* name_of(ErrorKind kind);
// Returns the kind of a name, the inverse of name_of(); `internal` for an unknown name. The engine
// reports its errors by name.
ErrorKind error_kind_of(const std::string& name);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Error hint(std::string text) && {
    hint_ = std::move(text);
    return std::move(*this);
  }
  ErrorKind kind() const { return kind_; }
  // Returns the advice on what to do; may be empty.
  const std::string& hint() const { return hint_; }

 private:
  ErrorKind kind_;
  std::string hint_;
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace forge

#define FORGE_CHECK(condition, message)                                       \
  do {                                                                        \
    if (!(condition)) [[unlikely]] {                                          \
      std::ostringstream forge_check_text;                                    \
      forge_check_text << message;                                            \
      ::forge::check_failed(__FILE__, __LINE__, #condition, forge_check_text.str()); \
    }                                                                         \
  } while (false)
