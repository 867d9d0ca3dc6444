#include "core/data/examples/lost_rows.h"

#include <unistd.h>

#include <filesystem>

#include "core/lib/base/temporary.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"

namespace forge {
namespace {
constexpr size_t kShownFaults = 20;
}

std::string lost_rows_path(const std::string& cache_path) {
  return std::filesystem::path(cache_path).replace_extension(".lost.jsonl").string();
}

LostRows::LostRows(BadRow policy, const std::string& cache_path)
    : policy_(policy), path_(cache_path.empty() ? "" : lost_rows_path(cache_path)) {}

LostRows::~LostRows() {
  if (file_) ::unlink(temporary_.c_str());
}

void LostRows::add(const ChunkResult& result, const std::string& source) {
  for (const LostRow& row : result.lost) {
    list(row, source);
    if (!row.fatal) continue;
    bad_rows_ += row.first_of_row;
    if (!row.key.empty()) {
      UnreadKey& unread = keys_[source + "\n" + row.key];
      if (unread.rows++ == 0) unread.first = {"", row.reason, source + ":" + row.place};
      continue;
    }
    faults_ += row.faults;
    if (shown_.size() < kShownFaults) shown_.push_back({"", row.reason, source + ":" + row.place});
  }
}

void LostRows::list(const LostRow& row, const std::string& source) {
  if (path_.empty()) return;
  if (!file_) file_ = std::make_unique<OutputFile>(temporary_ = temporary_of(path_));
  const Json line{{"source", std::filesystem::absolute(source).string()},
                  {"line", row.line},
                  {"place", row.place},
                  {"reason", row.reason}};
  file_->write(dump_json(line) + "\n");
}

std::vector<KeyFault> LostRows::faults() const {
  std::vector<KeyFault> faults;
  for (const auto& [key, unread] : keys_) {
    faults.push_back(unread.first);
    if (unread.rows > 1) faults.back().message += " (" + format_count(unread.rows) + " rows)";
  }
  faults.insert(faults.end(), shown_.begin(), shown_.end());
  if (faults_ > static_cast<int64_t>(shown_.size()))
    faults.push_back(
        {"", "… and " + format_count(faults_ - static_cast<int64_t>(shown_.size())) + " more", ""});
  return faults;
}

void LostRows::throw_if_any(int64_t rows, const std::string& hint) const {
  if (policy_ == BadRow::skip || (shown_.empty() && keys_.empty())) return;
  std::vector<KeyFault> faults = this->faults();
  if (faults_ > 1 || (faults_ > 0 && !keys_.empty()))
    faults.push_back(
        {"", format_count(bad_rows_) + " of " + format_count(rows) + " rows cannot be used", ""});
  throw KeyError(ErrorKind::data, std::move(faults), hint);
}

std::string LostRows::finish() {
  if (!file_) return "";
  file_->sync_and_close();
  file_.reset();
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) throw Error(ErrorKind::environment, path_ + ": cannot replace: " + error.message());
  sync_directory(std::filesystem::path(path_).parent_path().string());
  return path_;
}

}  // namespace forge
