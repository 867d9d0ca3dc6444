#include "core/data/read/expand.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "core/data/read/sources.h"
#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMostFiles = 1'000'000;
constexpr int kDeepest = 64;

// Returns the path as messages name it: relative to the working directory if inside it.
std::string seen_path(const std::string& path) {
  const fs::path relative = fs::path(path).lexically_relative(fs::current_path());
  return relative.empty() || *relative.begin() == ".." ? path : relative.string();
}

// Returns the names in the folder without hidden ones.
std::vector<std::string> visible_names(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names = names_in(folder.string(), &error);
  if (error) throw Error(ErrorKind::data, folder.string() + ": cannot list: " + error.message());
  std::erase_if(names, [](const std::string& name) { return starts_with(name, "."); });
  return names;
}

// Matches a pattern one path component at a time, starting from a folder.
class Glob {
 public:
  std::vector<std::string> files(const std::string& pattern) {
    for (const fs::path& part : fs::path(pattern).relative_path()) parts_.push_back(part.string());
    descend(fs::path(pattern).is_absolute() ? fs::path("/") : fs::path("."), 0, 0);
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

 private:
  void descend(const fs::path& folder, size_t part, int depth) {
    if (depth > kDeepest) return;
    const bool last = part + 1 == parts_.size();
    const std::string& pattern = parts_[part];
    if (pattern.find_first_of("*?[") == std::string::npos) return step(folder / pattern, last, part, depth);
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) return;
    if (pattern == "**" && !last) descend(folder, part + 1, depth + 1);
    for (const std::string& name : visible_names(folder)) {
      const fs::path path = folder / name;
      // ** does not follow links to folders: they may lead back up.
      if (pattern == "**" && fs::is_directory(fs::symlink_status(path, ignored)))
        descend(path, part, depth + 1);
      else if (::fnmatch(pattern == "**" ? "*" : pattern.c_str(), name.c_str(), FNM_PERIOD) == 0 &&
               (last || pattern != "**"))
        step(path, last, part, depth);
    }
  }
  void step(const fs::path& path, bool last, size_t part, int depth) {
    std::error_code ignored;
    if (!last) return descend(path, part + 1, depth + 1);
    if (fs::exists(path, ignored) && !fs::is_directory(path, ignored)) found_.push_back(path.string());
    if (found_.size() > kMostFiles)
      throw Error(ErrorKind::data, "the pattern matches more than " + format_count(kMostFiles) + " files");
  }

  std::vector<std::string> parts_, found_;
};

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files, below;
  std::map<SourceKind, std::string> kinds;  // with the first file of each
  for (const std::string& name : visible_names(folder)) {
    const std::string path = (fs::path(folder) / name).string();
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) below.push_back(name);
    const std::optional<SourceKind> kind = kind_by_name(path);
    if (!kind || !fs::is_regular_file(path, ignored) || lower(fs::path(path).extension().string()) == ".md")
      continue;
    kinds.emplace(*kind, name);
    files.push_back(path);
  }
  if (files.empty())
    throw Error(ErrorKind::data,
                seen_path(folder) +
                    ": the folder holds no data file, expected .jsonl, .json, .csv, .tsv, .txt "
                    "or .parquet")
        .hint(below.empty() ? "" : "for its subfolders write " + seen_path(folder) + "/**/*.jsonl");
  if (kinds.size() > 1) {
    std::vector<std::string> names;
    for (const auto& [kind, name] : kinds) names.push_back(name);
    throw Error(ErrorKind::data, seen_path(folder) + ": the folder holds files of several kinds (" +
                                     join(names, ", ") + "), expected one kind")
        .hint("write a pattern such as " + seen_path(folder) + "/*" +
              fs::path(names[0]).extension().string());
  }
  return files;
}

// Returns where relative paths start. A job's paths are absolute by now; those of the command line
// are as they were written.
std::string starting_hint(const std::string& path) {
  return fs::path(path).is_absolute() ? "relative paths start in the job file's folder, those of --set in the working directory"
                                      : "relative paths start in the working directory";
}

std::string missing_hint(const std::string& path) {
  const std::string meant = near_path(path);
  return meant.empty() ? starting_hint(path) : "did you mean " + seen_path(meant) + "?";
}

std::vector<std::string> files_of(const std::string& path) {
  std::error_code ignored;
  const auto status = fs::status(path, ignored);
  if (fs::is_directory(status)) return files_in(path);
  if (fs::exists(status)) return {path};
  if (path.find_first_of("*?[") == std::string::npos)
    throw Error(ErrorKind::data, seen_path(path) + ": no such file").hint(missing_hint(path));
  std::vector<std::string> files = Glob().files(path);
  if (files.empty())
    throw Error(ErrorKind::data, seen_path(path) + ": no file matches the pattern")
        .hint(starting_hint(path));
  return files;
}

// Throws Error(data) for a line break in a name, which would end the message's line. Other control
// characters are shown as escapes.
void require_one_line(const std::string& path) {
  const size_t at = path.find_first_of("\n\r");
  if (at == std::string::npos) return;
  throw Error(ErrorKind::data, seen_path(path.substr(0, at)) + "…: a line break in the file's name, expected none")
      .hint("rename the file");
}

}  // namespace

std::vector<SourceFile> expand_sources(const std::vector<DataSource>& sources) {
  std::vector<SourceFile> files;
  for (size_t entry = 0; entry < sources.size(); ++entry)
    for (const std::string& path : files_of(sources[entry].path)) {
      require_one_line(path);
      files.push_back({seen_path(path), sources[entry], entry});
    }
  return files;
}

}  // namespace forge
