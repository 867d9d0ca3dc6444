#include "core/run/heartbeat.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/temporary.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"

namespace forge {
namespace {

constexpr int64_t kLargest = 4096;  // bytes
constexpr std::chrono::milliseconds kSecondLook{1500};
// File systems that one machine alone mounts: ext4, xfs, btrfs, f2fs, zfs, tmpfs, overlayfs.
constexpr std::array<uint64_t, 7> kLocal{0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x2FC12FC1, 0x01021994, 0x794C7630};

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Returns the machine's boot id, or the host's name where there is no /proc. The file is read as a
// stream, because files in /proc have no size.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) && !id.empty() ? id : host_name();
}

std::optional<Json> read_beat(const std::string& path) {
  try {
    const Json beat = parse_json(read_file(path, kLargest, ErrorKind::environment), path, ErrorKind::environment);
    if (beat.is_object() && beat.value("boot", Json()).is_string() && beat.value("host", Json()).is_string()) return beat;
  } catch (const Error&) {  // no beat, or what a full disk left of one
  }
  return std::nullopt;
}

std::optional<double> changed_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
}

// Returns the seconds since the file was written, by the clock of its file system: a new file
// beside it gives the present time.
std::optional<double> age_of(const std::string& path) {
  const std::string now = temporary_of(path);
  const int descriptor = ::open(now.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return std::nullopt;
  (void)!::write(descriptor, "\n", 1);
  ::close(descriptor);
  const std::optional<double> here = changed_at(now), there = changed_at(path);
  ::unlink(now.c_str());
  return here && there ? std::optional(*here - *there) : std::nullopt;
}

void refuse_beat_of_others(const std::string& folder, const std::string& path) {
  const std::optional<Json> beat = read_beat(path);
  if (!beat || (*beat)["boot"] == boot_id()) return;
  const std::optional<double> age = age_of(path);
  const auto stale = static_cast<double>(kStaleBeat.count());
  if (!age || *age >= stale) return;
  throw Error(ErrorKind::environment, folder + ": the machine " + show_name((*beat)["host"].get<std::string>()) +
                                          " is working on this run; its last sign of life was " + format_seconds(std::max(0.0, *age)) + " ago")
      .hint("stop it there, or, if that machine is gone, run again in " + format_seconds(std::min(stale, stale - *age)));
}

}  // namespace

HeartbeatTimes heartbeat_times(const std::string& folder) {
  struct statfs status {};
  const bool known = ::statfs(folder.c_str(), &status) == 0;
  const auto type = static_cast<uint64_t>(static_cast<uint32_t>(status.f_type));
  const bool local = known && std::find(kLocal.begin(), kLocal.end(), type) != kLocal.end();
  return {.second_look = local ? std::chrono::milliseconds(0) : kSecondLook};
}

Heartbeat::Heartbeat(const std::string& folder, const HeartbeatTimes& times) : folder_(folder), path_(folder + "/" + kHeartbeat) {
  refuse_beat_of_others(folder_, path_);
  beat();
  if (times.second_look.count() > 0) {
    std::this_thread::sleep_for(times.second_look);
    refuse_beat_of_others(folder_, path_);
  }
  // A thread starts with its parent's signal mask. All signals are blocked here, so that only the
  // main thread receives them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, every = times.beat] {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, every, [this] { return ends_; }) && beat_alone()) {
    }
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (const std::optional<Json> beat = read_beat(path_); beat && (*beat)["boot"] == boot_id()) ::unlink(path_.c_str());
}

// Never waits: the thread holds the lock while it beats, and a file system may hang then.
void Heartbeat::require_alone() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && fault_) throw *fault_;
}

bool Heartbeat::beat_alone() {
  try {
    refuse_beat_of_others(folder_, path_);
  } catch (const Error& error) {
    fault_ = Error(error.kind(), std::string(error.what()) + "; it ends here at once, so that two do not write to one run")
                 .hint("it goes on there, from its last checkpoint; run it on one machine at a time");
    return false;
  }
  beat();
  return true;
}

// Overwrites the file in place. A half-written beat does not count as one, and the next one
// follows. There is no rename and no sync: a beat that a power cut loses is one of a machine that
// is gone.
void Heartbeat::beat() const {
  const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor < 0) return;
  const std::string text = dump_json({{"host", host_name()}, {"boot", boot_id()}, {"process", static_cast<int64_t>(::getpid())}}) + "\n";
  (void)!::write(descriptor, text.data(), text.size());
  ::close(descriptor);
}

}  // namespace forge
