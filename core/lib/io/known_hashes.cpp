#include "core/lib/io/known_hashes.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestList = 16 << 20;
// Age of a settled timestamp: coarser than any file system's timestamps (FAT: 2 s).
constexpr int64_t kSettledSeconds = 3;

int64_t nanoseconds(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

struct stat status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw Error(ErrorKind::environment, path + ": cannot examine: " + std::strerror(errno));
  return status;
}

Json stamp_json(const struct stat& status) {
  return {static_cast<int64_t>(status.st_size), nanoseconds(status.st_mtim), nanoseconds(status.st_ctim),
          static_cast<int64_t>(status.st_ino), static_cast<int64_t>(status.st_dev)};
}

// True if the file is old enough that a further change would get a different timestamp.
bool is_settled(const struct stat& status) {
  return std::time(nullptr) - std::max(status.st_mtim.tv_sec, status.st_ctim.tv_sec) >= kSettledSeconds;
}

std::map<std::string, Json> read_list(const std::string& path) {
  std::map<std::string, Json> known;
  try {
    if (!file_exists(path)) return known;
    const Json list =
        parse_json(read_file(path, kLargestList, ErrorKind::environment), path, ErrorKind::environment);
    if (!list.is_object()) return known;
    for (const auto& [file, entry] : list.items())
      if (entry.is_object() && entry.contains("stamp") && entry.contains("hash") && entry["hash"].is_string())
        known[file] = entry;
  } catch (const Error&) {  // a damaged list is rebuilt
  }
  return known;
}

}  // namespace

Json stamp_of_file(const std::string& path) { return stamp_json(status_of(path)); }

KnownHashes::KnownHashes(std::string path) : path_(std::move(path)), known_(read_list(path_)) {}

std::string KnownHashes::of(const std::string& file) {
  const std::string path = fs::absolute(file).lexically_normal().string(), key = shown ? shown(path) : path;
  used_.insert(key);
  const struct stat before = status_of(file);
  const Json stamp = stamp_json(before);
  const bool settled = is_settled(before);
  if (const auto found = known_.find(key); found != known_.end() && found->second["stamp"] == stamp)
    return found->second["hash"].get<std::string>();
  if (on_read) on_read(file, before.st_size);
  std::string hash = hash_file(file);
  if (stamp_of_file(file) != stamp)
    throw Error(ErrorKind::environment, file + ": changed while it was read")
        .hint("run again when nothing writes to it");
  changed_ |= known_.erase(key) > 0;
  if (!settled) return hash;
  known_[key] = {{"stamp", stamp}, {"hash", hash}};
  changed_ = true;
  return hash;
}

void KnownHashes::save() {
  if (!changed_) return;
  Json list = Json::object();
  for (const auto& [file, entry] : known_)
    if (used_.contains(file) || file_exists(file)) list[file] = entry;
  try {
    make_directories(fs::path(path_).parent_path().string());
    write_file_durably(path_, list.dump(1) + "\n");
  } catch (const Error&) {  // unwritable folders are reported elsewhere
  }
  changed_ = false;
}

}  // namespace forge
