#include "core/data/report/findings.h"

#include <filesystem>

#include "core/data/report/report.h"
#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"
#include "core/lib/io/members.h"

namespace forge {
namespace {

// Increase this whenever the same rows give other findings.
constexpr int64_t kChecksVersion = 2;

constexpr auto kFindingMembers = [](auto& finding, auto&& member) {
  member("check", finding.check, "its name in forge data");
  member("count", finding.count, "of rows, where the check is about rows");
  member("place", finding.place, "of the first");
  member("detail", finding.detail, "of the first");
};
constexpr auto kFindingsMembers = [](auto& findings, auto&& member) {
  member("found", findings.found, "one entry a check that found something");
  member("limits", findings.limits, "what was not looked at");
};

}  // namespace

void to_json(Json& json, const DataFinding& finding) { json = write_members(finding, kFindingMembers); }
void from_json(const Json& json, DataFinding& finding) { read_members(json, finding, kFindingMembers); }

DataFindings findings_of(const DataReport& report) {
  DataFindings findings{{}, report.limits()};
  for (size_t i = 0; i < data_checks().size(); ++i) {
    const CheckResult& result = report.found()[i];
    if (result.count <= 0 || result.first.empty()) continue;
    const Finding& first = result.first[0];
    findings.found.push_back({data_checks()[i].name, result.count, first.place, first.detail});
  }
  return findings;
}

bool is_warning(const DataFinding& finding) {
  return data_checks()[check_named(finding.check)].severity != Severity::note;
}

std::string sentence_of(const DataFinding& finding) {
  const Check& check = data_checks()[check_named(finding.check)];
  const std::string means = check.means;
  return std::string(check.says) + ": " + format_count(finding.count) + ", the first " + finding.place + " (" +
         finding.detail + ")" + (means.empty() ? "" : "; " + means);
}

std::string findings_path(const std::string& train_cache, const std::string& eval_cache,
                          const std::vector<std::string>& sources) {
  const auto name = [](const std::string& path) { return std::filesystem::path(path).stem().string(); };
  Hasher hasher;
  hasher.add(kChecksVersion).add(name(eval_cache));
  for (const std::string& source : sources) hasher.add(source);
  return (std::filesystem::path(train_cache).parent_path() / name(train_cache)).string() + "." +
         hasher.hex().substr(0, 16) + ".findings.json";
}

std::optional<DataFindings> stored_findings(const std::string& path) {
  if (!file_exists(path)) return std::nullopt;
  try {
    DataFindings findings;
    read_members(parse_json(read_file(path, int64_t{16} << 20, ErrorKind::environment), path, ErrorKind::environment),
                 findings, kFindingsMembers);
    for (const DataFinding& finding : findings.found) is_warning(finding);
    return findings;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void store_findings(const DataFindings& findings, const std::string& path) {
  const Json json = write_members(findings, kFindingsMembers);
  try {
    write_file_durably(path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const Error&) {
    // No error for a full disk: writers that need the room report it.
  }
}

}  // namespace forge
