#include "core/run/output_dir.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/lib/base/file.h"
#include "core/lib/base/temporary.h"
#include "core/lib/base/text.h"
#include "core/plan/disk.h"
#include "core/run/run_folder.h"
#include "core/run/staging.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

int64_t bytes_in(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    if (const auto size = entry->is_regular_file(gone) ? entry->file_size(gone) : 0; !gone)
      bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// Opens an unnamed file if the file system supports it, so that a kill leaves no file.
int open_unnamed(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return descriptor;
  const std::string path = temporary_of(folder + "/room");
  const int named = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

// True if blocks may be reserved: the file system only marks them (tmpfs would clear every page),
// and no limit on file sizes is set.
bool may_reserve(int descriptor) {
  struct statfs status {};
  rlimit limit{};
  const bool memory = ::fstatfs(descriptor, &status) != 0 || status.f_type == TMPFS_MAGIC;
  return !memory && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

// Finds problems that the number of free bytes does not show: a quota, a read-only folder.
void try_room(const std::string& folder, int64_t bytes) {
  const int descriptor = open_unnamed(folder);
  if (descriptor < 0)
    throw Error(ErrorKind::environment, folder + ": cannot write: " + std::strerror(errno))
        .hint("set output_dir to a folder that can be written");
  int error = 0;
  if (bytes > 0 && may_reserve(descriptor) && ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0)
    error = errno;
  ::close(descriptor);
  if (error == ENOSPC || error == EDQUOT)
    throw Error(ErrorKind::environment, folder + ": the run writes up to " + format_bytes(bytes) + ", " +
                                            (error == EDQUOT ? "your quota" : "the disk") +
                                            " does not allow it")
        .hint("free space, set output_dir to another disk, or keep fewer checkpoints (checkpoint.keep_last)");
}

}  // namespace

void require_room(const Plan& plan, const std::string& run_folder) {
  const std::string& folder = plan.job.output_dir;
  make_directories(folder);
  const int64_t held = bytes_in(run_folder);
  require_disk(plan, free_disk_bytes(folder) + held);
  try_room(folder, plan.disk_bytes - held);
}

void remove_output_litter(const std::string& output_dir) {
  for (const char* place : {"", "/.cache", "/.cache/tokens"}) remove_abandoned(output_dir + place);
  for (const std::string& name : names_in(output_dir)) {
    if (!starts_with(name, ".") || !ends_with(name, kDiscarded)) continue;
    const std::string path = output_dir + "/" + name;
    try {
      RunLock lock(path);  // locked by another process that is removing the folder
      remove_tree(path);
    } catch (const Error&) {
    }
  }
}

}  // namespace forge
