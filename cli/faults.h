#pragma once
// Errors as lists of faults: a fault as a program reads it (--json), and several errors as one.
//
//   FaultCollector faults;
//   faults.attempt([&] { spec = read_model_spec(path); });
//   faults.attempt([&] { text = open_model_text(path); });
//   faults.throw_if_any();   // every fault of both
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "core/job/layers.h"
#include "core/lib/base/error.h"
#include "core/lib/io/json.h"

namespace forge {

struct Fault {
  ErrorKind kind = ErrorKind::internal;
  Position at;         // without a file where no place is known
  std::string key;     // dotted; empty: about no single one
  std::string message;
  std::string hint;  // remedy
};
std::vector<Fault> faults_of(const Error& error);
// Returns {"kind", "file", "line", "column", "key", "message", "hint"}; a line of 0 means that
// there is none.
Json to_json(const Fault& fault);

// An error that is a list of faults: several errors of one command.
class FaultError : public Error {
 public:
  FaultError(ErrorKind kind, std::vector<Fault> faults, const std::string& text, const std::string& hint)
      : Error(Error(kind, text).hint(hint)), faults_(std::move(faults)) {}
  const std::vector<Fault>& faults() const { return faults_; }

 private:
  std::vector<Fault> faults_;
};

// Collects failures and continues, so that one report shows everything that is wrong.
class FaultCollector {
 public:
  // Returns true if `work` threw no Error. Keeps an Error for throw_if_any(); errors of kind
  // internal or interrupted, and anything else that it throws, are passed on.
  bool attempt(const std::function<void()>& work);
  bool empty() const { return errors_.empty(); }
  // Throws a single error as it was, and several as one FaultError of the first one's kind.
  void throw_if_any() const;

 private:
  std::vector<std::exception_ptr> errors_;
};

// Returns the error without the job's secrets.
FaultError hide_secrets(const Error& error, const std::vector<Secret>& secrets);

}  // namespace forge
