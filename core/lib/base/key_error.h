#pragma once
// Faults of a job that are found after its file was read, when model, data or machine are known.
// Each names its key, so that the caller that knows the file can give the key's place there.
//
//   throw KeyError(ErrorKind::job, "hardware.profile", "unknown profile \"hoper\"");
//   throw KeyError(ErrorKind::job, faults, "the linear layers are …");
#include <string>
#include <vector>

#include "core/lib/base/error.h"
#include "core/lib/base/position.h"

namespace forge {

struct KeyFault {
  std::string key;      // dotted; empty if the fault is not about a single key
  std::string message;  // what is wrong, without the key
  Position place;       // in the job; without a file while it is not known
  std::string text() const;  // "job.yaml:3:9: hardware.profile: unknown …"
};

// what() has one line for each fault.
class KeyError : public Error {
 public:
  KeyError(ErrorKind kind, std::vector<KeyFault> faults, const std::string& hint = "");
  KeyError(ErrorKind kind, const std::string& key, const std::string& message, const std::string& hint = "");
  const std::vector<KeyFault>& faults() const { return faults_; }

 private:
  std::vector<KeyFault> faults_;
};

}  // namespace forge
