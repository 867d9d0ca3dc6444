#pragma once
// Gathers the faults of one file, so that all are reported at once; after `kShown` it only counts.
//
//   Faults faults(path);
//   faults.add("tensor \"a\": unknown dtype \"F4\"");
//   faults.raise(ErrorKind::environment);   // throws if there were any, one line each, "path: fault"
#include <cstdint>
#include <string>
#include <vector>

#include "core/lib/base/error.h"

namespace forge {

class Faults {
 public:
  explicit Faults(std::string path) : path_(std::move(path)) {}
  void add(const std::string& fault) {
    if (++total_ <= kShown) lines_ += (lines_.empty() ? "" : "\n") + path_ + ": " + fault;
  }
  void raise(ErrorKind kind, const std::string& hint = "") const {
    if (total_ == 0) return;
    std::string more = total_ > kShown ? "\n… and " + std::to_string(total_ - kShown) + " more" : "";
    throw Error(kind, lines_ + more).hint(hint);
  }

 private:
  static constexpr int64_t kShown = 10;
  std::string path_, lines_;
  int64_t total_ = 0;
};

}  // namespace forge
