#include "cli/memory_kills.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/lib/base/text.h"

namespace forge {
namespace {

// Returns the value of a line "oom_kill 3".
int64_t counter(const std::string& path) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  while (file >> name >> value)
    if (name == "oom_kill") return value;
  return 0;
}

}  // namespace

int64_t memory_kills() {
  // Inside a container the group's own folder is often mounted as the root, so both places count.
  std::vector<std::string> files{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"};
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/user.slice" or "4:memory:/group"
    std::vector<std::string> parts = split(line, ':');
    if (parts.size() != 3 || parts[2] == "/") continue;
    if (parts[0] == "0") files.push_back("/sys/fs/cgroup" + parts[2] + "/memory.events");
    if (parts[1] == "memory") files.push_back("/sys/fs/cgroup/memory" + parts[2] + "/memory.oom_control");
  }
  int64_t kills = 0;
  for (const std::string& file : files) kills += counter(file);
  return kills;
}

}  // namespace forge
