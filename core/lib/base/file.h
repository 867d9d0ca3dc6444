#pragma once
// Files: whole reads with a limit, read-only mappings, and writes that are whole and durable or do
// not happen.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/lib/base/error.h"

namespace forge {

// Returns the content of a regular file of at most `limit` bytes. Throws Error(kind) that names the
// file: missing, a folder, a pipe or device, too large, unreadable.
std::string read_file(const std::string& path, int64_t limit, ErrorKind kind);

// A regular file that any number of threads may read at any offset. Throws Error(kind) like
// read_file().
class RegularFile {
 public:
  RegularFile(const std::string& path, ErrorKind kind);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  int64_t size() const { return size_; }  // when it was opened
  // Fills all of `into`; throws when the file ends before that.
  void read_at(int64_t offset, std::span<char> into) const;

 private:
  std::string path_;
  ErrorKind kind_;
  int64_t size_ = 0;
  int descriptor_ = -1;
};

// A read-only mapping of a regular file. Throws Error(environment) when it cannot be opened; FIFOs
// and devices are refused. The mapping lives as long as the object.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::string_view bytes() const { return {data_, static_cast<size_t>(size_)}; }
  const char* data() const { return data_; }
  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const char* data_ = nullptr;
  int64_t size_ = 0;
};

// An append-or-create output file whose every error is reported, also those of close and fsync.
class OutputFile {
 public:
  // Creates or truncates `path` with mode 0666 & ~umask.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(const void* bytes, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Flushes to the device and closes. Must be called; the destructor only releases the descriptor.
  void sync_and_close();

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Replaces `path` with `content`, or with what `write` writes: temporary sibling, fsync, rename,
// fsync of the folder. After it returns the new content survives a power loss; if it throws, the
// old file is untouched and no temporary file is left.
void write_file_durably(const std::string& path, std::string_view content);
void write_file_durably(const std::string& path, const std::function<void(OutputFile&)>& write);

void sync_directory(const std::string& path);
// Returns the folder that a path lies in: "." for a name alone.
std::string folder_of(const std::string& path);
// Creates the folder and its parents. Throws Error(environment).
void make_directories(const std::string& path);
bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
int64_t file_size(const std::string& path);
// Returns the sorted names of a folder's entries; none if it cannot be read, with the reason in
// `error`.
std::vector<std::string> names_in(const std::string& folder, std::error_code* error = nullptr);
// Returns the first name in the folder that ends in `suffix`; empty if there is none.
std::string name_with_suffix(const std::string& folder, std::string_view suffix);
// Returns the bytes that an unprivileged user may still write on the file system of `path` (or its
// nearest existing parent).
int64_t free_disk_bytes(const std::string& path);

// True if a name found inside a file is safe: one component of a path, not empty, not "." or "..",
// no '/', '\\' or NUL, no leading '-', at most 255 bytes.
bool safe_file_name(std::string_view name);

}  // namespace forge
