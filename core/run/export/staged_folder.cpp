#include "core/run/export/staged_folder.h"

#include <algorithm>
#include <filesystem>

#include "core/lib/base/file.h"
#include "core/lib/base/temporary.h"
#include "core/lib/base/text.h"
#include "core/run/run_folder.h"
#include "core/run/staging.h"

namespace forge {

namespace fs = std::filesystem;

namespace {

bool is_within(const std::string& path, const fs::path& folder) {
  const fs::path inner = fs::weakly_canonical(path), outer = fs::weakly_canonical(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// True for a folder that a merge or an export wrote: a flat folder with forge's card. Adapters and
// whole runs are neither.
bool is_ours(const fs::path& folder) {
  constexpr int64_t kLargestCard = 1 << 20;
  const std::string card = (folder / "README.md").string();
  if (fs::exists(folder / "adapter_config.json") || !file_exists(card)) return false;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory()) return false;
  return read_file(card, kLargestCard, ErrorKind::environment).find("\ntags:\n- forge\n") != std::string::npos;
}

// Returns why --fresh must not replace a folder; empty if it may.
std::string precious(const fs::path& target, const std::vector<std::string>& inputs) {
  if (!fs::is_directory(target)) return "is a file, expected a folder";
  for (const std::string& input : inputs)
    if (is_within(input, target)) return "holds " + input + ", which is read here";
  const bool of_run = target.filename() == "model" && fs::exists(target.parent_path() / "plan.json");
  if (of_run || fs::exists(target / "plan.json")) return "belongs to a run";
  return is_ours(target) ? "" : "holds files that neither forge merge nor forge export wrote";
}

// Returns the folder that is written, with links resolved.
std::string written_folder(const std::string& target) {
  if (target.empty()) throw Error(ErrorKind::usage, "--output: is empty, expected a folder");
  std::string path = fs::absolute(target).lexically_normal().string();
  if (path.size() > 1 && ends_with(path, "/")) path.pop_back();
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path folder = fs::canonical(path, error);
  if (error)
    throw Error(ErrorKind::usage, target + ": is a link to " + fs::read_symlink(path).string() + ", which does not exist").hint("name another --output");
  return folder.string();
}

void make_output(const std::string& path, const std::string& target) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error(ErrorKind::environment, target + ": cannot be written there: " + error.message()).hint("name another --output");
}

}  // namespace

StagedFolder::StagedFolder(const std::string& target, bool replace, const std::vector<std::string>& inputs) : target_(written_folder(target)) {
  const std::string parent = fs::path(target_).parent_path().string();
  remove_abandoned(parent);  // which may bring back what stood there before a kill
  std::error_code error;
  if (fs::exists(target_, error) && !(fs::is_directory(target_, error) && fs::is_empty(target_, error))) {
    const std::string reason = precious(target_, inputs);
    if (!reason.empty()) throw Error(ErrorKind::usage, target + ": already exists, and " + reason).hint("name another --output");
    if (!replace)
      throw Error(ErrorKind::usage, target + ": already exists").hint("name another --output, or replace it with --fresh");
  }
  make_output(parent, target);
  temporary_ = temporary_of(target_);
  make_output(temporary_, target);
}

StagedFolder::~StagedFolder() {
  if (!committed_) remove_tree(temporary_);
}

void StagedFolder::commit() {
  sync_directory(temporary_);
  replace_directory(temporary_, target_);
  committed_ = true;
}

void require_free_bytes(const std::string& path, int64_t bytes) {
  const int64_t room = free_disk_bytes(path);
  if (room < bytes)
    throw Error(ErrorKind::environment,
                path + ": needs " + format_bytes(bytes) + ", the disk has " + format_bytes(room) + " free")
        .hint("free space, or name another --output");
}

}  // namespace forge
