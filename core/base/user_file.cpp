#include "core/base/user_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "core/base/temporary.h"

namespace forge {
namespace {

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw Error(ErrorKind::environment, path + ": cannot " + action + ": " + std::strerror(errno));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

void write_through(const std::string& path, const std::function<void(OutputFile&)>& write) {
  OutputFile file(path);
  write(file);
  file.sync_and_close();
}

// Writes like write_file_durably(). The new file has the mode of the replaced one from the first
// byte on.
void replace(const std::string& path, mode_t mode, const std::function<void(OutputFile&)>& write) {
  const std::string temporary = temporary_of(path);
  try {
    OutputFile file(temporary);
    if (::chmod(temporary.c_str(), mode) != 0) fail(temporary, "set the mode of");
    write(file);
    file.sync_and_close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail(path, "replace");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(folder_of(path));
}

}  // namespace

void write_user_file(const std::string& path, const std::function<void(OutputFile&)>& write) {
  std::string target = path;
  if (const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free); real) target = real.get();
  struct stat status{};
  if (::lstat(target.c_str(), &status) != 0) return write_file_durably(target, write);
  // A link to a file that does not exist yet.
  if (S_ISLNK(status.st_mode)) return write_through(target, write);
  if (S_ISDIR(status.st_mode)) throw Error(ErrorKind::environment, path + ": is a folder, expected a file");
  const bool own = S_ISREG(status.st_mode) && status.st_nlink == 1 && status.st_uid == ::geteuid();
  if (!own || ::access(folder_of(target).c_str(), W_OK) != 0) return write_through(target, write);
  replace(target, status.st_mode & 07777, write);
}

void write_user_file(const std::string& path, std::string_view content) {
  write_user_file(path, [&](OutputFile& file) { file.write(content); });
}

void append_line_to_user_file(const std::string& path, std::string_view line) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  // A pipe or a device may permit writing only.
  const int open = descriptor >= 0 ? descriptor : ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (open < 0) fail(path, "open");
  struct stat status{};
  char last = '\n';
  const bool regular = ::fstat(open, &status) == 0 && S_ISREG(status.st_mode);
  if (regular && status.st_size > 0 && ::pread(open, &last, 1, status.st_size - 1) != 1) last = '\n';
  const std::string text = (last == '\n' ? "" : "\n") + std::string(line) + "\n";
  const ssize_t written = ::write(open, text.data(), text.size());
  const bool whole = written == static_cast<ssize_t>(text.size());
  const int fault = errno;
  if (!whole && written > 0 && regular) (void)!::ftruncate(open, status.st_size);
  ::close(open);
  errno = written < 0 ? fault : ENOSPC;
  if (!whole) fail(path, "write");
}

}  // namespace forge
