#include "core/lib/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/lib/base/error.h"
#include "core/lib/base/temporary.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

[[noreturn]] void fail(ErrorKind kind, const std::string& path, const std::string& action, int error) {
  Error base(kind, path + ": cannot " + action + ": " + std::strerror(error));
  if (error == ENOSPC || error == EDQUOT)
    throw std::move(base).hint("free some space, or write to another disk (a job's runs: output_dir)");
  if (error == EFBIG)
    throw std::move(base).hint("the file reached the size limit: raise it (ulimit -f), or write to a file system that holds larger files");
  throw base;
}

// Opens a regular file. O_NONBLOCK keeps open() from blocking on a FIFO; the type is checked on the
// descriptor, not on the name.
int open_regular(const std::string& path, ErrorKind kind, int64_t* size) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail(kind, path, "open", errno);
  struct stat status{};
  const int error = ::fstat(descriptor, &status) == 0 ? 0 : errno;
  *size = status.st_size;
  if (error == 0 && S_ISREG(status.st_mode)) return descriptor;
  ::close(descriptor);
  if (error != 0) fail(kind, path, "examine", error);
  throw Error(kind, path + (S_ISDIR(status.st_mode) ? ": is a folder, expected a file"
                                                    : ": is not a regular file (a pipe, socket or device)"));
}

}  // namespace

std::string read_file(const std::string& path, int64_t limit, ErrorKind kind) {
  const RegularFile file(path, kind);
  if (file.size() > limit)
    throw Error(kind, path + ": is " + format_bytes(file.size()) + ", the limit is " + format_bytes(limit));
  std::string content(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, content);
  return content;
}

RegularFile::RegularFile(const std::string& path, ErrorKind kind)
    : path_(path), kind_(kind), descriptor_(open_regular(path, kind, &size_)) {}

RegularFile::~RegularFile() { ::close(descriptor_); }

void RegularFile::read_at(int64_t offset, std::span<char> into) const {
  for (size_t done = 0; done < into.size();) {
    const ssize_t count =
        ::pread(descriptor_, into.data() + done, into.size() - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(kind_, path_, "read", errno);
    if (count == 0) throw Error(kind_, path_ + ": became shorter while it was read");
    done += static_cast<size_t>(count);
  }
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int descriptor = open_regular(path, ErrorKind::environment, &size_);
  const void* address =
      size_ > 0 ? ::mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_SHARED, descriptor, 0) : "";
  const int error = errno;
  ::close(descriptor);
  if (address == MAP_FAILED) fail(ErrorKind::environment, path, "map", error);
  data_ = static_cast<const char*>(address);
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<char*>(data_), static_cast<size_t>(size_));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(other.data_), size_(std::exchange(other.size_, 0)) {}

OutputFile::OutputFile(const std::string& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(ErrorKind::environment, path, "create", errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(const void* bytes, size_t size) {
  const char* position = static_cast<const char*>(bytes);
  while (size > 0) {
    ssize_t count = ::write(descriptor_, position, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(ErrorKind::environment, path_, "write", errno);
    position += count;
    size -= static_cast<size_t>(count);
  }
}

void OutputFile::sync_and_close() {
  // After a failed fsync dirty pages may be gone: the caller must write the file anew, never retry
  // the fsync.
  const bool flushed = ::fsync(descriptor_) == 0 || errno == EINVAL || errno == EROFS;  // pipes and devices have nothing to flush
  if (!flushed) fail(ErrorKind::environment, path_, "flush", errno);
  int result = ::close(descriptor_);
  descriptor_ = -1;
  if (result != 0) fail(ErrorKind::environment, path_, "close", errno);
}

void sync_directory(const std::string& path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(ErrorKind::environment, path, "open", errno);
  int result = ::fsync(descriptor);
  int error = errno;
  ::close(descriptor);
  if (result != 0) fail(ErrorKind::environment, path, "flush", error);
}

void write_file_durably(const std::string& path, std::string_view content) {
  write_file_durably(path, [&](OutputFile& file) { file.write(content); });
}

void write_file_durably(const std::string& path, const std::function<void(OutputFile&)>& write) {
  std::string temporary = temporary_of(path);
  try {
    OutputFile file(temporary);
    write(file);
    file.sync_and_close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail(ErrorKind::environment, path, "replace", errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(folder_of(path));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error(ErrorKind::environment, path + ": cannot create the folder: " + error.message());
}

bool file_exists(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_directory(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

int64_t file_size(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) fail(ErrorKind::environment, path, "examine", errno);
  return status.st_size;
}

int64_t free_disk_bytes(const std::string& path) {
  std::filesystem::path folder = std::filesystem::absolute(path);
  while (!std::filesystem::exists(folder) && folder.has_relative_path()) folder = folder.parent_path();
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0) fail(ErrorKind::environment, folder.string(), "examine", errno);
  return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
}

std::vector<std::string> names_in(const std::string& folder, std::error_code* error) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    names.push_back(it->path().filename().string());
  if (error) *error = failed;
  std::sort(names.begin(), names.end());
  return names;
}

std::string name_with_suffix(const std::string& folder, std::string_view suffix) {
  for (const std::string& name : names_in(folder))
    if (name.ends_with(suffix)) return name;
  return "";
}

bool safe_file_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == ".." || name[0] == '-') return false;
  return name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

}  // namespace forge
