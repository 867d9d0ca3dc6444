#pragma once
// Findings of a DataReport, short enough to keep: the count of each check and the first place.
// `forge data` prints all places; plan, run and report warn in these sentences.
//
//   DataFindings findings = findings_of(report);      // after report.finish()
//   for (const DataFinding& finding : findings.found)
//     if (is_warning(finding)) warn(sentence_of(finding));
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forge {

class DataReport;

struct DataFinding {
  std::string check;  // its name in data_checks()
  int64_t count = 0;
  std::string place, detail;  // of the first: "train.jsonl:12:31", "repeats train.jsonl:3"
};

struct DataFindings {
  std::vector<DataFinding> found;   // in the order of data_checks()
  std::vector<std::string> limits;  // what was not looked at, as sentences
};

DataFindings findings_of(const DataReport& report);
// True for faults and warnings; notes are for `forge data` alone.
bool is_warning(const DataFinding& finding);
// Returns "rows that repeat an earlier row: 3, the first train.jsonl:12 (repeats train.jsonl:3)".
std::string sentence_of(const DataFinding& finding);

// Returns the file that keeps the findings in these splits, beside their token caches. `eval_cache`
// and its sources are empty without evaluation data. Content decides the caches' names, so the
// sources' own paths are part of the name.
std::string findings_path(const std::string& train_cache, const std::string& eval_cache,
                          const std::vector<std::string>& sources);
// Returns the stored findings; nothing if there is no such file, or it is damaged.
std::optional<DataFindings> stored_findings(const std::string& path);
// Writes the findings. If the file cannot be written, they are looked for again next time.
void store_findings(const DataFindings& findings, const std::string& path);

}  // namespace forge
