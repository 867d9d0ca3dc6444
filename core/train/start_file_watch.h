#pragma once
// Notices that a file which a run reads its base from is written while the run goes on. Weights are
// mapped, so that training would continue on other numbers without a word.
//
//   StartFileWatch watch(plan);                                       // before the files are opened
//   for (const std::string& text : watch.check()) warn(text);        // at each evaluation, checkpoint and at the end
#include <map>
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace forge {

class StartFileWatch {
 public:
  // Looks at the plan's start files that decide what is trained (core/plan/files/start_files.h).
  explicit StartFileWatch(const Plan& plan);
  // Costs a few reads of 4 KiB a file; a file whose stamp is another is read whole. Throws
  // Error(environment) naming one that was written to and has another content than the plan states.
  // A file that was removed or replaced is named in a sentence, once: the run goes on with the one
  // that it has open.
  std::vector<std::string> check();

 private:
  struct Look {
    Json stamp;         // size, times, inode, device
    std::string probe;  // hash of blocks spread over the file, where the disk's times are coarse
    bool operator==(const Look&) const = default;
  };
  struct Watched {
    std::string hash;  // of the whole content, as the plan states it
    Look last;
  };
  static Look look_at(const std::string& path);

  std::map<std::string, Watched> files_;  // by path
};

}  // namespace forge
