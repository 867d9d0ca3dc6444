#include "core/train/start_file_watch.h"

#include <algorithm>
#include <array>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"

namespace forge {
namespace {

constexpr int64_t kBlocks = 16, kBlockBytes = 4096;

std::string probe_of(const std::string& path) {
  const RegularFile file(path, ErrorKind::environment);
  Hasher hasher;
  std::array<char, kBlockBytes> block{};
  const auto size = static_cast<size_t>(std::min(file.size(), kBlockBytes));
  for (int64_t i = 0; i < kBlocks; ++i) {
    file.read_at((file.size() - static_cast<int64_t>(size)) / (kBlocks - 1) * i, {block.data(), size});
    hasher.add(block.data(), size);
  }
  return hasher.hex();
}

// True if inode and device are the same.
bool is_same_file(const Json& stamp, const Json& other) { return stamp[3] == other[3] && stamp[4] == other[4]; }

}  // namespace

StartFileWatch::Look StartFileWatch::look_at(const std::string& path) { return {stamp_of_file(path), probe_of(path)}; }

StartFileWatch::StartFileWatch(const Plan& plan) {
  for (const StartFile& file : plan.start_files) {
    const std::string path = path_of_start_file(plan.job, file.name);
    if (file.decides && !file.hash.empty() && file_exists(path)) files_[path] = {file.hash, look_at(path)};
  }
}

std::vector<std::string> StartFileWatch::check() {
  std::vector<std::string> gone;
  for (auto entry = files_.begin(); entry != files_.end();) {
    const std::string& path = entry->first;
    Watched& watched = entry->second;
    if (!file_exists(path) || !is_same_file(stamp_of_file(path), watched.last.stamp)) {
      gone.push_back(path + (file_exists(path) ? ": another file is in its place" : ": was removed") +
                     "; the run goes on with the one it started from, and cannot be continued without it");
      entry = files_.erase(entry);
      continue;
    }
    ++entry;
    Look now = look_at(path);
    if (now == watched.last) continue;
    // A touched file has another stamp and the same content.
    if (hash_file(path) != watched.hash)
      throw Error(ErrorKind::environment, path + ": was rewritten while the run was training on it")
          .hint("put the file back as it was and run the same command again: it continues from its last "
                "checkpoint, which was written before, or from its beginning; or train on the new file with --fresh");
    watched.last = std::move(now);
  }
  return gone;
}

}  // namespace forge
