#pragma once
// Launches of LibTorch on the cards of the hollow GPU (tests/hollow), with grids and bytes of arguments: seen on
// any machine.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace forge::recording {

// By device number.
inline constexpr int kCapabilities[] = {80, 86, 90, 100, 120};
inline constexpr int kCards = sizeof(kCapabilities) / sizeof(*kCapabilities);

struct Launch {
  std::string kernel;  // mangled
  unsigned grid[3] = {}, block[3] = {};
  size_t shared_bytes = 0;  // dynamic
  const void* stream = nullptr;
  std::vector<char> argument;  // the first one's bytes, as many as argument_bytes said
};

// Launches since the last call. Copies and fills by the runtime are launches of that name.
std::vector<Launch> take();
// Shared memory that a kernel may have on a card, bytes.
size_t shared_bytes(int card);
// Says how large a kernel's first argument is, which cudart does not.
void set_argument_bytes(std::function<size_t(const std::string& kernel)> bytes);

}  // namespace forge::recording
