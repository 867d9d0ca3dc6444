#pragma once
// A folder that appears whole or not at all: it is filled under a temporary name beside its path,
// then renamed.
//
//   StagedFolder staged("out/model", /*replace=*/false, {"models/base"});
//   write_file_durably(staged.path() + "/config.json", …);
//   staged.commit();                                       // without it the destructor removes everything
#include <string>
#include <vector>

namespace forge {

class StagedFolder {
 public:
  // Removes what killed processes left beside `target`. Throws Error(usage) when `target` exists
  // and is not empty, unless `replace` is set and a StagedFolder wrote it before: files of others,
  // parts of a run and the `inputs` are never replaced. Throws Error(environment) when nothing can
  // be written there.
  StagedFolder(const std::string& target, bool replace, const std::vector<std::string>& inputs);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  const std::string& path() const { return temporary_; }
  void commit();

 private:
  std::string target_, temporary_;
  bool committed_ = false;
};

// Throws Error(environment) when fewer than `bytes` are free where `path` will be.
void require_free_bytes(const std::string& path, int64_t bytes);

}  // namespace forge
