#include "core/run/staging.h"

#include <fcntl.h>
#include <stdio.h>

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

namespace {

// Exchanges two paths at once where the file system supports it, so that there is always a result
// under the name.
bool exchange(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

void replace_directory(const std::string& source, const std::string& target) {
  const std::string parent = fs::path(target).parent_path().string();
  std::error_code error;
  if (fs::exists(target) && exchange(source, target)) {
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

}  // namespace forge
