#pragma once
// The order of accesses to global memory in a launch. Ordered are accesses of one thread; of one
// block with a barrier between them; of one warp with a collective; and of two blocks when the
// first published it (a write, __threadfence, an atomic) and the second acquired it (an atomic,
// __threadfence). Two other accesses, one of them writing and not both atomic, are a race, in
// whichever order they ran here.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace forge::emulator {

struct Allocation;

// The last access to a few bytes: its thread and its time.
struct GlobalAccess {
  uint32_t launch = 0, block = 0, time = 0, block_epoch = 0, warp_epoch = 0;
  int16_t thread = -1;
  bool atomic = false;
  bool of_threads = false, of_warps = false, of_blocks = false;  // of several readers that nothing orders
};

// The running launch of this operating-system thread.
class LaunchOrder {
 public:
  void begin(size_t blocks);
  // Record an operation of the running thread. access() returns the thread of an earlier access
  // that is not ordered before it, else −1.
  void fence();
  int access(Allocation& allocation, size_t offset, size_t bytes, bool writes, bool atomic);

 private:
  struct Sync {
    uint32_t fenced = 0, seen = 0, acquired = 0;
    std::vector<std::pair<uint32_t, uint32_t>> published;  // everything before the first, at the second
  };
  void note_atomic();
  GlobalAccess now(bool atomic) const;
  bool ordered(const GlobalAccess& earlier, const GlobalAccess& now) const;
  bool races(const GlobalAccess& earlier, const GlobalAccess& now) const;

  uint32_t launch_ = 0, clock_ = 0;
  std::vector<Sync> blocks_;
};
LaunchOrder& launch_order();

}  // namespace forge::emulator
