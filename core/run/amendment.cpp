#include "core/run/amendment.h"

#include <algorithm>
#include <string_view>

#include "core/job/diagnostics.h"
#include "core/job/field.h"
#include "core/job/job_json.h"
#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/text.h"
#include "core/lib/io/members.h"
#include "core/plan/plan.h"

namespace forge {
namespace {

constexpr const char* kHash = "hash";
constexpr int64_t kLargestFile = 64 << 20;
constexpr int64_t kMostDivisor = int64_t{1} << 32;  // of a micro-batch, after running out of memory

// In the order of the enum.
constexpr std::string_view kKinds[] = {"out_of_memory", "replan", "settings", "extend"};

AmendmentKind kind_named(const std::string& name) {
  const auto found = std::ranges::find(kKinds, name);
  if (found == std::end(kKinds))
    throw MemberFault("kind: forge knows no amendment \"" + name + "\"");
  return static_cast<AmendmentKind>(found - std::begin(kKinds));
}

// Throws MemberFault unless an amendment may set `key` to `value`: a job key, or the number of
// steps.
void require_change(const std::string& key, const Json& value) {
  int64_t steps = 0;
  if (key == "steps") return read_value(value, steps, at_least(0));
  if (!find_field(key)) throw MemberFault(": is not a key of a job");
  Json job = to_json(Job()), *place = &job;
  for (const std::string& part : split(key, '.')) place = &(*place)[part];
  *place = value;
  try {
    job_from_json(job, "");
  } catch (const JobErrors& errors) {
    for (const Diagnostic& fault : errors.faults())
      if (fault.key == key) throw MemberFault(": " + fault.message);
  }
}

void require_changes(const Json& changes) {
  if (!changes.is_object()) throw MemberFault("changes: expected an object, found " + found_text(changes));
  for (const auto& [key, value] : changes.items()) try {
      require_change(key, value);
    } catch (const MemberFault& fault) {
      throw fault.inside("changes." + key);
    }
}

// Returns the hash of a line (without its own hash) and of all lines before it.
std::string hash_behind(const std::string& previous, const Json& amendment) {
  return Hasher().add(previous).add(dump_json(amendment)).hex();
}

// Removes the hash from a line, checks it and returns it: it is the next line's `previous`.
std::string take_hash(Json& amendment, const std::string& previous, const std::string& place) {
  if (!amendment.is_object() || !amendment.contains(kHash)) return previous;
  const Json stated = amendment[kHash];
  amendment.erase(kHash);
  const std::string hash = hash_behind(previous, amendment);
  if (stated == hash) return hash;
  throw Error(ErrorKind::environment,
              place + ": was edited, or a line before it was: it does not match its hash")
      .hint(
          "do not edit a run's amendments: undo that and change the job file instead, or start over "
          "with --fresh");
}

Amendment read_amendment(const Json& json, const std::string& place) {
  Amendment amendment;
  read_checked(json, place, [&](const Json& stated) {
    amendment = amendment_from_json(stated);
    if (!amendment.plan) return;
    take_plan_hash(*amendment.plan, place);
    plan_from_json(*amendment.plan, place);
  });
  return amendment;
}

// Returns the parsed lines with their numbers and without their hashes; `last` gets the hash of the
// last line.
std::vector<std::pair<int64_t, Json>> lines_of(const std::string& path, std::string& last) {
  std::vector<std::pair<int64_t, Json>> lines;
  if (!file_exists(path)) return lines;
  int64_t number = 0;
  for (const std::string& line : split(read_file(path, kLargestFile, ErrorKind::environment), '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    Json json = parse_json(line, path, ErrorKind::environment, {}, number);
    last = take_hash(json, last, path + ":" + std::to_string(number));
    lines.emplace_back(number, std::move(json));
  }
  return lines;
}

}  // namespace

Json to_json(const Amendment& amendment) {
  Json json{{"kind", kKinds[static_cast<size_t>(amendment.kind)]}};
  if (amendment.kind == AmendmentKind::out_of_memory) {
    json["step"] = amendment.step;
    json["micro_batch_divisor"] = amendment.micro_batch_divisor;
  }
  if (!amendment.changes.empty()) json["changes"] = amendment.changes;
  if (!amendment.reason.empty()) json["reason"] = amendment.reason;
  if (!amendment.identity.empty()) json["identity"] = amendment.identity;
  if (amendment.plan) json["plan"] = *amendment.plan;
  return json;
}

Amendment amendment_from_json(const Json& json) {
  Amendment amendment;
  std::string kind;
  MemberReader member{json};
  member("kind", kind, "");
  amendment.kind = kind_named(kind);
  member.later("reason", amendment.reason, "");
  member.later("identity", amendment.identity, "");
  if (amendment.kind == AmendmentKind::out_of_memory) {
    member("step", amendment.step, "", at_least(0));
    member("micro_batch_divisor", amendment.micro_batch_divisor, "", between(1, kMostDivisor));
  }
  if (json.contains("plan")) amendment.plan = json["plan"];
  if (json.contains("changes")) require_changes(amendment.changes = json["changes"]);
  return amendment;
}

void append_amendment(const std::string& path, Json amendment) {
  std::string previous, text;
  lines_of(path, previous);
  amendment.erase(kHash);
  amendment[kHash] = hash_behind(previous, amendment);
  // The file is rewritten as a whole: appending could leave a torn last line, which looks like a
  // damaged file.
  if (file_exists(path)) text = read_file(path, kLargestFile, ErrorKind::environment);
  if (!text.empty() && text.back() != '\n') text += '\n';
  write_file_durably(path, text + dump_json(amendment) + "\n");
}

std::vector<Amendment> read_amendments(const std::string& path) {
  std::vector<Amendment> amendments;
  std::string last;
  for (const auto& [number, json] : lines_of(path, last))
    amendments.push_back(read_amendment(json, path + ":" + std::to_string(number)));
  return amendments;
}

}  // namespace forge
