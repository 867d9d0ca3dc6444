#pragma once
// A job with the machine, model and data that it is planned for: the first of the values that a
// plan is made through.
//
//   Setup → Compute → Batching → Rollouts → Schedule → Fitted → Plan
//
// Each is the plan so far: the value before it, with more of the job's open values settled and with
// what follows from them. A function that takes one of them may read all that is settled there.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/data/examples/data_summary.h"
#include "core/job/job.h"
#include "core/job/origin.h"
#include "core/model/families/model_spec.h"
#include "core/plan/files/start_files.h"
#include "core/plan/machine/device.h"

namespace forge {

struct ValueOrigin {
  OriginKind kind = OriginKind::unset;
  std::string source;  // to be shown: "default", "job.yaml:9:9", "--set …", "profile hopper", "derived"
  std::string reason;  // for values that no person chose
};
using Origins = std::map<std::string, ValueOrigin>;  // by dotted key: "train.precision"

// The origin of a value that follows from other values, the model, the data or the machine.
inline ValueOrigin derived(const std::string& why) { return {OriginKind::derived, "derived", why}; }
// The origin of a default that depends on other values.
inline ValueOrigin by_default(const std::string& why) {
  return {OriginKind::unset, "default", why};
}

// A value for a key of the job, with its origin if the key was open.
template <class T>
struct Settled {
  T value{};
  std::optional<ValueOrigin> origin{};
};

struct Setup {
  Job job;  // in a Plan every Auto holds a value
  Origins origins;
  Device device;
  ModelSpec model;
  std::string model_hash;              // TensorFile::header_hash
  int64_t model_bytes = 0;             // TensorFile::file_bytes
  std::vector<StartFile> start_files;  // empty where nothing is run: `forge plan` reads no weights
  DataSummary train;
  DataSummary eval;  // examples 0: nothing to evaluate

  // Sets a member of the job, and the origin of its key if it was open.
  template <class Member, class T>
  void settle(const char* key, Member& member, const Settled<T>& settled) {
    member = settled.value;
    if (settled.origin) origins[key] = *settled.origin;
  }
  std::string device_name() const { return device.cuda ? "cuda:" + std::to_string(device.index) : "cpu"; }
};

}  // namespace forge
