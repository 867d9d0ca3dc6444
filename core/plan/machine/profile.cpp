#include "core/plan/machine/profile.h"

#include <algorithm>

#include "core/job/diagnostics.h"
#include "core/job/names.h"
#include "core/job/scalars.h"
#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// Reads a profile's map; unread keys are faults.
class ProfileReader {
 public:
  ProfileReader(const Node& map, Diagnostics& faults, std::string path)
      : map_(map), faults_(faults), path_(std::move(path)) {
    if (!map.is_map()) faults.add(map.at, path_, "expected a map");
  }

  const Node* find(const std::string& key, bool required = false) {
    read_.push_back(key);
    const Node* node = map_.find(key);
    if (!node && required) faults_.add(map_.at, key_path(key), "is missing");
    return node;
  }

  std::string text(const std::string& key, const std::vector<std::string>& choices = {}) {
    const Node* node = find(key, true);
    if (!node) return "";
    const Reading<std::string> reading = read_text(*node);
    const std::string value = checked(*node, key, reading);
    if (reading.value && !choices.empty() &&
        std::find(choices.begin(), choices.end(), value) == choices.end())
      faults_.add(node->at, key_path(key),
                  "\"" + value + "\" is not one of " + join(choices, ", "));
    return value;
  }

  int64_t integer(const std::string& key) {
    const Node* node = find(key, true);
    return node ? checked(*node, key, read_integer(*node)) : 0;
  }

  template <class Value>
  std::vector<Value> list(const std::string& key, Reading<Value> (*read)(const Node&)) {
    std::vector<Value> all;
    const Node* node = find(key);
    if (node && !node->is_list()) faults_.add(node->at, key_path(key), "expected a list");
    if (node && node->is_list())
      for (const Node& item : node->items) all.push_back(checked(item, key, read(item)));
    return all;
  }

  void refuse_unread() {
    for (const Member& member : map_.members)
      if (std::find(read_.begin(), read_.end(), member.key) == read_.end())
        faults_.add(member.key_at, key_path(member.key), "unknown key" + did_you_mean(member.key, read_));
  }

 private:
  std::string key_path(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  template <class Value>
  Value checked(const Node& node, const std::string& key, const Reading<Value>& reading) {
    if (!reading.value) faults_.add(node.at, key_path(key), reading.message(), reading.hint);
    return reading.value.value_or(Value());
  }

  const Node& map_;
  Diagnostics& faults_;
  std::string path_;
  std::vector<std::string> read_;
};

// Reads `key: {value: …, reason: …}`.
template <class Value, class Read>
Choice<Value> choice(ProfileReader& profile, Diagnostics& faults, const std::string& key, Read read) {
  Choice<Value> result;
  const Node* node = profile.find(key, true);
  if (!node) return result;
  ProfileReader entry(*node, faults, key);
  result.value = read(entry);
  result.reason = entry.text("reason");
  entry.refuse_unread();
  return result;
}

ProfileMatch read_match(const Node& node, Diagnostics& faults) {
  ProfileReader reader(node, faults, "match");
  ProfileMatch match;
  match.cuda = reader.text("device", {"cpu", "cuda"}) == "cuda";
  const std::vector<int64_t> range = reader.list("compute_capability", read_integer);
  if (range.size() == 2) {
    match.lowest_capability = range[0];
    match.highest_capability = range[1];
  } else if (!range.empty()) {
    faults.add(node.at, "match.compute_capability", "expected [lowest, highest], 86 being 8.6");
  }
  match.names = reader.list("names", read_text);
  match.isa = reader.list("isa", read_text);
  reader.refuse_unread();
  return match;
}


// Returns why the profile matches, or nothing.
std::optional<std::string> rule_of(const ProfileMatch& match, const Device& device) {
  if (match.cuda != device.cuda) return std::nullopt;
  std::vector<std::string> reasons;
  if (device.cuda) {
    const int64_t capability = device.gpu.compute_capability;
    if (capability < match.lowest_capability || capability > match.highest_capability) return std::nullopt;
    reasons.push_back("compute capability " + capability_text(capability));
  } else {
    reasons.push_back("the device is the CPU");
  }
  if (!match.names.empty()) {
    const std::string name = lower(device.name());
    const auto in_name = [&](const std::string& part) { return name.find(lower(part)) != name.npos; };
    const auto found = std::ranges::find_if(match.names, in_name);
    if (found == match.names.end()) return std::nullopt;
    reasons.push_back("its name contains \"" + *found + "\"");
  }
  if (!match.isa.empty()) {
    const auto found = std::ranges::find_if(match.isa, [&](const auto& name) { return device.cpu.has(name); });
    if (found == match.isa.end()) return std::nullopt;
    reasons.push_back("it has " + *found);
  }
  return join(reasons, ", ");
}

Profile named_profile(const Device& device, const std::string& name) {
  std::vector<std::string> known;
  for (const Profile& profile : profiles()) {
    known.push_back(profile.name);
    if (profile.name != name) continue;
    if (profile.match.cuda != device.cuda)
      throw KeyError(
          ErrorKind::job, "hardware.profile",
          name + " is for " + (profile.match.cuda ? "GPUs" : "CPUs") + ", the device is " + device.name());
    Profile picked = profile;
    picked.rule = "hardware.profile names it";
    return picked;
  }
  throw KeyError(ErrorKind::job, "hardware.profile",
                 "unknown profile \"" + name + "\"" + did_you_mean(name, known) + "; forge has auto, " +
                     join(known, ", "));
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& name) {
  const Node root = parse_yaml(text, name);
  Diagnostics faults;
  ProfileReader reader(root, faults, "");
  Profile profile;
  profile.name = reader.text("name");
  profile.title = reader.text("title");
  if (const Node* match = reader.find("match", true)) profile.match = read_match(*match, faults);
  const auto precision = [](ProfileReader& entry) {
    return enum_of<Precision>(entry.text("value", {"fp32", "bf16", "fp16"})).value_or(Precision::fp32);
  };
  profile.precision = choice<Precision>(reader, faults, "precision", precision);
  profile.storage = choice<Precision>(reader, faults, "storage", [&](ProfileReader& entry) {
    return enum_of<Precision>(entry.text("value", {"same", "fp32", "bf16", "fp16"})).value_or(profile.precision.value);
  });
  const auto one_of = [&](const std::string& key, const std::vector<std::string>& choices) {
    return choice<std::string>(reader, faults, key,
                               [&](ProfileReader& entry) { return entry.text("value", choices); });
  };
  profile.loss_scaling = one_of("loss_scaling", {"none", "dynamic"});
  profile.residual = choice<Residual>(reader, faults, "residual", [](ProfileReader& entry) {
    return enum_of<Residual>(entry.text("value", names(Residual()))).value_or(Residual::compute);
  });
  profile.attention = one_of("attention", {"tiles", "efficient", "flash"});
  profile.engine = one_of("engine", {"cpu", "cuda13", kNoEngine});
  const auto count = [&](const std::string& key) {
    return choice<int64_t>(reader, faults, key, [](ProfileReader& entry) { return entry.integer("value"); });
  };
  profile.micro_batch_tokens = count("micro_batch_tokens");
  profile.smallest_micro_batch_tokens = count("smallest_micro_batch_tokens");
  profile.reserve_bytes = count("reserve_mib");
  profile.reserve_bytes.value <<= 20;
  reader.refuse_unread();
  faults.throw_if_any();
  return profile;
}

const std::vector<Profile>& profiles() {
  static const std::vector<Profile> table = [] {
    std::vector<Profile> all;
    for (const EmbeddedFile& file : embedded_profiles())
      all.push_back(parse_profile(file.text, std::string("profiles/") + file.name));
    return all;
  }();
  return table;
}

Profile pick_profile(const Device& device, const HardwareConfig& config) {
  if (config.profile != "auto") return named_profile(device, config.profile);
  for (const Profile& profile : profiles()) {
    const std::optional<std::string> rule = rule_of(profile.match, device);
    if (!rule) continue;
    Profile picked = profile;
    picked.rule = *rule;
    return picked;
  }
  throw Error(ErrorKind::environment, device.name() + " has compute capability " +
                                          capability_text(device.gpu.compute_capability) +
                                          ", forge needs Pascal (6.0) or newer")
      .hint("hardware.device: cpu");
}

}  // namespace forge
