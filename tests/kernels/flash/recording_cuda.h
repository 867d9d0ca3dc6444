#pragma once
// A CUDA runtime without a GPU: it answers as several cards, its device memory is the host's, and kernels are recorded instead of run.
//
// LibTorch's CUDA libraries bind cudart's functions by name, so a program that defines them (recording_cuda.cpp) stands before
// libcudart. What LibTorch launches, with which grid and which bytes as arguments, can then be seen on any machine.
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

// What was launched since the last call. Copies and clears by the runtime are launches of that name.
std::vector<Launch> take();
// Shared memory that a kernel may have on a card, bytes.
size_t shared_bytes(int card);
// How large a kernel's first argument is; cudart does not say.
void set_argument_bytes(std::function<size_t(const std::string& kernel)> bytes);

}  // namespace forge::recording
