#pragma once
// The heartbeat of a run: a file that tells other machines that its folder is in use. It is needed
// where not all machines see the folder's lock: network file systems may keep flock to each
// machine. Within one machine the lock alone decides.
//
//   RunLock lock(folder);
//   Heartbeat heartbeat(folder);   // beats until it goes out of scope
//
// The file running.json holds {"host", "boot", "process"} and is written again every kBeat. A
// machine is identified by its boot id. Containers of one machine share it, as they share locks.
// Ages are differences of two times that the file system gave, so that no two clocks are compared.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace forge {

constexpr const char* kHeartbeat = "running.json";
constexpr std::chrono::seconds kBeat{15};
constexpr std::chrono::seconds kStaleBeat{60};

class Heartbeat {
 public:
  // Throws Error(environment) when another machine's beat is younger than kStaleBeat; an older one
  // is taken over. A folder that cannot be written gets no file.
  explicit Heartbeat(const std::string& folder);
  // Removes the file.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;

 private:
  void beat() const;

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace forge
