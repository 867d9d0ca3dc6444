#pragma once
// The faults of a job, collected and thrown together.
//
//   Diagnostics faults;
//   faults.add(node.at, "adapter.rank", "0 is outside 1 to 65536");
//   faults.add(member.key_at, "adapter.ranks", "unknown key", "did you mean \"rank\"?");
//   faults.throw_if_any();
//   // job.yaml:3:9: adapter.rank: 0 is outside 1 to 65536
//   // job.yaml:4:3: adapter.ranks: unknown key (did you mean "rank"?)
#include <string>
#include <vector>

#include "core/job/node.h"
#include "core/lib/base/error.h"

namespace forge {

struct Diagnostic {
  Position at;
  std::string key;               // dotted; empty: the file as a whole
  std::string message;
  std::string hint;  // the remedy
  // Returns "file:line:column: key: message (hint)".
  std::string text() const;
};

// Every fault of a job's files and options: what() has one line for each. Exit code 3.
class JobErrors : public Error {
 public:
  explicit JobErrors(std::vector<Diagnostic> faults);
  const std::vector<Diagnostic>& faults() const { return faults_; }

 private:
  std::vector<Diagnostic> faults_;
};

// Limit of the collected faults. A file with this many is not a job, and more would not help.
constexpr size_t kFaultLimit = 200;

class Diagnostics {
 public:
  void add(const Position& at, std::string key, std::string message, std::string hint = "");
  void add(const JobErrors& errors);
  const std::vector<Diagnostic>& all() const { return faults_; }
  bool full() const { return faults_.size() >= kFaultLimit; }
  // True if a fault is about `section`, a key below it, or a file as a whole.
  bool concern(const std::string& section) const;
  // Replaces a text in every message and hint, for values that must not be shown.
  void hide(const std::string& secret);
  // Throws JobErrors if there is any fault, in the order of files, lines and columns. Faults beyond
  // kFaultLimit are only counted.
  void throw_if_any() const;

 private:
  std::vector<Diagnostic> faults_;
  int64_t untold_ = 0;  // faults beyond kFaultLimit
};

}  // namespace forge
