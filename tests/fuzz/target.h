#pragma once
// The base of every fuzz target. It takes bytes, which are read, or refused with an Error that is
// not a bug of forge. A crash, a hang, a sanitizer's report, another exception or Error(internal)
// is a finding.
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "core/lib/base/error.h"

// libFuzzer's entry; driver.cpp calls the same one.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace forge {

// False when the input was refused.
template <class Action>
bool read_or_refuse(Action action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::internal) return false;
    std::fprintf(stderr, "internal error: %s\n", error.what());
    std::abort();
  }
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file in memory for readers that take a path; one per extension, written anew for each input.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& extension)
      : path_("/dev/shm/forge-fuzz-" + std::to_string(getpid()) + extension) {}
  ~ScratchFile() { unlink(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  const std::string& write(std::string_view content) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path_;
  }

 private:
  std::string path_;
};

}  // namespace forge
