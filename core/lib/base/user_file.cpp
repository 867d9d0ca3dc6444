#include "core/lib/base/user_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

#include "core/lib/base/error.h"
#include "core/lib/base/temporary.h"

namespace forge {
namespace {

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw Error(ErrorKind::environment, path + ": cannot " + action + ": " + std::strerror(errno));
}

void write_through(const std::string& path, const std::function<void(OutputFile&)>& write) {
  OutputFile file(path);
  write(file);
  file.sync_and_close();
}

void copy_into(OutputFile& file, const std::string& source) {
  std::ifstream in(source, std::ios::binary);
  std::string block(size_t{1} << 20, '\0');
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0)
    file.write(std::string_view(block).substr(0, static_cast<size_t>(in.gcount())));
}

// Replaces a file by the finished temporary one. A file that is mounted by itself, as a container's
// -v does with one, cannot be renamed over and is written in place.
void take_place(const std::string& temporary, const std::string& path) {
  if (::rename(temporary.c_str(), path.c_str()) == 0) return;
  if (errno != EBUSY) fail(path, "replace");
  write_through(path, [&](OutputFile& file) { copy_into(file, temporary); });
  ::unlink(temporary.c_str());
}

// Writes like write_file_durably(). The new file has the group and the mode of the replaced one
// from the first byte on; a file whose group this user may not give is written in place.
void replace(const std::string& path, const struct stat& old, const std::function<void(OutputFile&)>& write) {
  const std::string temporary = temporary_of(path);
  constexpr auto kSameUser = static_cast<uid_t>(-1);
  try {
    OutputFile file(temporary);
    if (::chown(temporary.c_str(), kSameUser, old.st_gid) != 0) {
      ::unlink(temporary.c_str());
      return write_through(path, write);
    }
    if (::chmod(temporary.c_str(), old.st_mode & 07777) != 0) fail(temporary, "set the mode of");
    write(file);
    file.sync_and_close();
    take_place(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(folder_of(path));
}

// True if the file has rights beyond its mode, which a new file would lack.
bool has_access_list(const std::string& path) {
  return ::getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
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
  constexpr mode_t kAnyWrite = 0222;
  if (S_ISREG(status.st_mode) && (status.st_mode & kAnyWrite) == 0)
    throw Error(ErrorKind::environment, path + ": is read-only").hint("permit writing (chmod u+w), or name another file");
  const bool own = S_ISREG(status.st_mode) && status.st_nlink == 1 && status.st_uid == ::geteuid();
  if (!own || has_access_list(target) || ::access(folder_of(target).c_str(), W_OK) != 0) return write_through(target, write);
  replace(target, status, write);
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
