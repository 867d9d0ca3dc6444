#include "core/run/staging.h"

#include <fcntl.h>
#include <stdio.h>

#include <cstdlib>
#include <filesystem>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/temporary.h"

namespace forge {

namespace fs = std::filesystem;

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) throw Error(ErrorKind::environment, path + ": cannot create the folder: " + error.message());
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
}

std::string make_temporary_sibling(const std::string& target) {
  const std::string path = temporary_of(target);
  remove_tree(path);
  make_folder(path);
  return path;
}

void replace_directory(const std::string& source, const std::string& target) {
  const std::string parent = fs::path(target).parent_path().string();
  std::error_code error;
  // Where the file system can exchange both paths at once, there is always a result under the name.
  if (fs::exists(target) &&
      ::renameat2(AT_FDCWD, source.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    sync_directory(parent);
    return remove_tree(source);
  }
  std::string condemned;
  if (fs::exists(target)) {
    condemned = temporary_of((fs::path(parent) / (std::string(kCondemned) + fs::path(target).filename().string())).string());
    remove_tree(condemned);
    fs::rename(target, condemned, error);
    if (error) throw Error(ErrorKind::environment, target + ": cannot move it aside: " + error.message());
  }
  fs::rename(source, target, error);
  if (error) {
    std::error_code back;
    if (!condemned.empty()) fs::rename(condemned, target, back);
    Error failed(ErrorKind::environment, target + ": cannot rename into place: " + error.message());
    if (back) throw std::move(failed).hint("what was there is in " + condemned + ": " + back.message());
    throw failed;
  }
  sync_directory(parent);
  if (!condemned.empty()) remove_tree(condemned);
}

ScratchFolder::ScratchFolder() {
  remove_abandoned(fs::temp_directory_path().string());
  std::string pattern = temporary_of(fs::temp_directory_path() / "forge-eval") + "-XXXXXX";
  if (!::mkdtemp(pattern.data()))
    throw Error(ErrorKind::environment, pattern + ": cannot create the folder")
        .hint("set TMPDIR to a folder that can be written");
  path_ = pattern;
}

}  // namespace forge
