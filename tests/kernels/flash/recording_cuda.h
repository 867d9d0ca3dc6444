#pragma once
// Records launches of LibTorch on the cards of the hollow GPU (tests/hollow), with grids and bytes
// of arguments, on any machine.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace forge::recording {

// Compute capabilities by device number.
inline constexpr int kCapabilities[] = {80, 86, 90, 100, 120};
inline constexpr int kCards = sizeof(kCapabilities) / sizeof(*kCapabilities);

struct Launch {
  std::string kernel;  // mangled
  unsigned grid[3] = {}, block[3] = {};
  size_t shared_bytes = 0;  // dynamic
  const void* stream = nullptr;
  std::vector<char> argument;  // the first one's bytes, as many as argument_bytes said
};

// Returns the launches since the last call. Copies and fills by the runtime are launches of that
// name.
std::vector<Launch> take();
// Returns the bytes of shared memory that a kernel may have on a card.
size_t shared_bytes(int card);
// Sets the function that returns the size of a kernel's first argument, which cudart does not tell.
void set_argument_bytes(std::function<size_t(const std::string& kernel)> bytes);

}  // namespace forge::recording
