#pragma once
// Executes a grid of emulated CUDA threads, one fiber each, block after block.
//
// A barrier releases when all live threads of the block arrived; a warp collective when all lanes
// of its mask did. Anything else is a deadlock, reported with thread, line and barrier. Within a
// round every runnable thread runs until it waits, warps in the order asked for: forward, reverse,
// or shuffled anew each round by a seed. One order alone would hide races.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "kernels/device/launch.h"
#include "tests/emulator/memory.h"

namespace forge::emulator {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  unsigned count() const { return x * y * z; }
};

enum class Order { forward, reverse, seeded };

struct Schedule {
  Order order = Order::forward;
  uint64_t seed = 1;
};

// The schedule of the launches of this operating-system thread.
Schedule& schedule();

// Multiprocessors of the emulated GPU; those of an RTX 4070 until a test sets others.
int64_t& multiprocessors();

// The fault of a kernel: names kernel, block, thread and line.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Grid {
  const char* kernel = "kernel";
  Dim3 grid, block;
  size_t shared_bytes = 0;    // dynamic shared memory
  // The bound it was compiled with (__launch_bounds__); 0: a block's 1,024.
  unsigned most_threads = 0;
};

// Calls body() once per CUDA thread. Throws Fault.
void run_grid(const Grid& grid, const std::function<void()>& body);
// Returns the N of a kernel's __launch_bounds__(N), or 0. C++ has no way to ask for it, so the
// bound is compiled into the kernel: as instructions before its first one that do nothing, one for
// each kThreadsOfNothing threads.
constexpr unsigned kThreadsOfNothing = 16;
constexpr unsigned nothings(unsigned threads, unsigned = 1) { return threads / kThreadsOfNothing; }
unsigned launch_bounds_of(const void* kernel);

// The stream that launches, products and clears must be given. A test of launchers sets it; work on
// another stream, such as the default one, is a Fault. Null: any stream.
CudaStream& only_stream();
void check_stream(const char* what, CudaStream stream);

// Hooks for an emulated runtime around the kernels (engine/runtime.cpp); all are null without one.
struct RuntimeHooks {
  // Takes work that was queued; without one it runs at once.
  void (*queue)(const char* what, CudaStream stream, std::function<void()> work) = nullptr;
  // Called when the running work touches memory. Throws Fault.
  void (*access)(Allocation& allocation, size_t offset, size_t bytes, bool writes) = nullptr;
  // Returns foreign memory as an allocation; null if it is not device memory.
  Allocation* (*adopt)(const void* pointer) = nullptr;
  // Called before an allocation is released.
  void (*forget)(const Allocation* allocation) = nullptr;
};
RuntimeHooks& runtime_hooks();
// Queues a launch, a product, a clear.
void queue(const char* what, CudaStream stream, std::function<void()> work);
// Reports what the running work of an emulated library reads or writes: `rows` ranges of `bytes`,
// `stride` bytes apart.
void touch(const char* what, const void* begin, int64_t rows, int64_t bytes, int64_t stride, bool writes);
// Like touch(), for a copy or the host, which may touch memory for copies.
void touch_by_copy(const char* what, const void* begin, int64_t bytes, bool writes);

// ---- The view of the running thread. Valid inside run_grid only.
struct ThreadIndices {
  Dim3 thread, block, block_dim, grid_dim;
};
ThreadIndices& indices();

// Reports a fault of the running thread; the launch ends.
[[noreturn]] void fault(const std::string& what);

struct Site {
  const char* file;
  int line;
};

enum class BarrierKind { sync, count, any, all };
int block_barrier(BarrierKind kind, int predicate, Site site);

enum class CollectiveKind {
  sync,
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  any,
  all,
  reduce_add,
  reduce_min,
  reduce_max,
  reduce_min_signed,
  reduce_max_signed,
  reduce_and,
  reduce_or,
  reduce_xor
};
// Takes `value` and returns the lane's result; `operand` is the source lane, delta or lane mask of
// a shuffle.
uint64_t warp_collective(CollectiveKind kind, uint32_t mask, uint64_t value, int operand, int width,
                         Site site);

// Returns the static shared array with this key in the running block; it is made at first use and
// poisoned.
Allocation* shared_array(const void* key, size_t bytes, size_t alignment);
Allocation* dynamic_shared_array();

// Checks an access of the running thread and records it. `what` names the array when it is not in
// bounds.
void check_access(Allocation* allocation, const void* address, size_t bytes, size_t alignment, bool writes,
                  bool atomic);
// Does __threadfence for the running thread.
void fence();

}  // namespace forge::emulator
