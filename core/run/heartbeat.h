#pragma once
// The heartbeat of a run: a file that tells other machines that its folder is in use. It is needed
// where not all machines see the folder's lock: network file systems may keep flock to each
// machine. Within one machine the lock alone decides.
//
//   RunLock lock(folder);
//   Heartbeat heartbeat(folder);   // beats until it goes out of scope
//   heartbeat.require_alone();     // again and again while the run goes on
//
// The file running.json holds {"host", "boot", "process"} and is written again every kBeat. Each
// beat reads before it writes: the file holds one beat, so of two machines that work on one run the
// one that finds the other's ends. A machine is identified by its boot id. Containers of one
// machine share it, as they share locks. Ages are differences of two times that the file system
// gave, so that no two clocks are compared.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/lib/base/error.h"

namespace forge {

constexpr const char* kHeartbeat = "running.json";
constexpr std::chrono::seconds kBeat{15};
constexpr std::chrono::seconds kStaleBeat{60};

struct HeartbeatTimes {
  std::chrono::milliseconds beat = kBeat;
  // Time from the first beat to a second look. Machines that start at once find no beat of each
  // other; a moment later one of them does. Zero: no second look.
  std::chrono::milliseconds second_look{0};
};
// Returns the times for a folder. A file system of one machine's own disks needs no second look.
HeartbeatTimes heartbeat_times(const std::string& folder);

class Heartbeat {
 public:
  // Throws Error(environment) when another machine's beat is younger than kStaleBeat, or appears by
  // the second look; an older one is taken over. A folder that cannot be written gets no file.
  Heartbeat(const std::string& folder, const HeartbeatTimes& times);
  explicit Heartbeat(const std::string& folder) : Heartbeat(folder, heartbeat_times(folder)) {}
  // Removes the file.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  // Throws Error(environment) once a beat of another machine was found. Its file is left as it is.
  void require_alone();

 private:
  void beat() const;
  // Beats if no other machine does. Returns false otherwise.
  bool beat_alone();

  const std::string folder_, path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::optional<Error> fault_;
  std::thread thread_;
};

}  // namespace forge
