#pragma once
// Hardware profiles: what to choose on a kind of device, each choice with its reason. They are
// files in profiles/, compiled into the program.
//
//   Profile profile = pick_profile(device, job.hardware);
//   profile.precision.value    // Precision::fp16
//   profile.precision.reason   // "Turing has no bf16; its tensor cores multiply fp16"
#include <string>
#include <vector>

#include "core/job/job.h"
#include "core/lib/base/embedded_file.h"
#include "core/plan/machine/device.h"

namespace forge {

// The engine of cards that no engine of this version computes on.
inline constexpr const char* kNoEngine = "none";

template <class T>
struct Choice {
  T value{};
  std::string reason;
};

// Conditions on the device of a profile. Empty lists and absent ranges match everything.
struct ProfileMatch {
  bool cuda = false;
  int64_t lowest_capability = 0, highest_capability = 999;  // 86 is 8.6
  std::vector<std::string> names;  // parts of the device's name, any case
  std::vector<std::string> isa;    // any of these extensions
};

struct Profile {
  std::string name, title;
  ProfileMatch match;
  Choice<Precision> precision;
  Choice<Precision> storage;         // of frozen weights that are not quantised; arithmetic is in `precision`
  Choice<std::string> loss_scaling;  // none | dynamic
  Choice<Residual> residual;         // the stream's type in fp16
  Choice<std::string> attention;     // tiles | efficient | flash: of plain layers, by the provider fused
  Choice<std::string> engine;        // cpu | cuda13 | kNoEngine
  Choice<int64_t> micro_batch_tokens;           // the knee: more tokens at once gain nothing
  Choice<int64_t> smallest_micro_batch_tokens;  // below this a device is mostly waiting
  Choice<int64_t> reserve_bytes;  // taken by the runtime itself, outside of what the plan counts
  std::string rule;               // why it was picked; empty in the table
};

// Returns all profiles, the more specific ones first.
const std::vector<Profile>& profiles();

// Returns the job's hardware.profile, or the first that matches. Throws Error(job) for an unknown
// name or one of another kind of device, Error(environment) if nothing matches (a card older than
// Pascal).
Profile pick_profile(const Device& device, const HardwareConfig& config);

// Parses one profile file. Throws JobErrors naming every fault with file:line:col.
Profile parse_profile(std::string_view text, const std::string& name);

// Returns the files compiled into the program (generated from profiles/*.yaml).
const std::vector<EmbeddedFile>& embedded_profiles();

}  // namespace forge
