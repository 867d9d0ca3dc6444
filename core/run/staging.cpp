#include "core/run/staging.h"

#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"

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
  const std::string path = target + ".tmp-" + std::to_string(::getpid());
  remove_tree(path);
  make_folder(path);
  return path;
}

void replace_directory(const std::string& source, const std::string& target) {
  fs::path parent = fs::path(target).parent_path();
  std::string condemned;
  std::error_code error;
  if (fs::exists(target)) {
    condemned = (parent / (".trash-" + fs::path(target).filename().string())).string();
    remove_tree(condemned);
    fs::rename(target, condemned, error);
    if (error) throw Error(ErrorKind::environment, target + ": cannot move it aside: " + error.message());
  }
  fs::rename(source, target, error);
  if (error) throw Error(ErrorKind::environment, target + ": cannot rename into place: " + error.message());
  sync_directory(parent.string());
  if (!condemned.empty()) remove_tree(condemned);
}

}  // namespace forge
