#include "core/export/staged_folder.h"

#include <filesystem>

#include "core/base/file.h"
#include "core/base/temporary.h"
#include "core/base/text.h"
#include "core/run/run_folder.h"

namespace forge {

namespace fs = std::filesystem;

StagedFolder::StagedFolder(const std::string& target, bool replace) : target_(fs::absolute(target).lexically_normal().string()) {
  if (ends_with(target_, "/")) target_.pop_back();
  std::error_code error;
  if (fs::exists(target_, error) && !replace)
    throw Error(ErrorKind::usage, target + ": is there already").hint("name another --output, or replace it with --fresh");
  const std::string parent = fs::path(target_).parent_path().string();
  make_directories(parent);
  remove_abandoned(parent);
  temporary_ = temporary_of(target_);
  make_directories(temporary_);
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
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
