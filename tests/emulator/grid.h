#pragma once
// Executes a grid of emulated CUDA threads, one fiber each, block after block.
//
// A barrier releases when all live threads of the block arrived; a warp collective when all lanes of its mask
// did. Anything else is a deadlock, reported with thread, line and barrier. Within a round every runnable
// thread runs until it waits, warps in the order asked for: forward, reverse, or shuffled anew each round by
// a seed. One order alone would hide races.
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

// What a kernel did wrong: names kernel, block, thread and line.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Grid {
  const char* kernel = "kernel";
  Dim3 grid, block;
  size_t shared_bytes = 0;    // dynamic shared memory
  unsigned most_threads = 0;  // what the kernel was compiled for (__launch_bounds__); 0: a block's 1,024
};

// Calls body() once per CUDA thread. Throws Fault.
void run_grid(const Grid& grid, const std::function<void()>& body);
// The N of a kernel's __launch_bounds__(N), or 0. C++ has no way to ask for it, so the bound is compiled into the kernel: as
// instructions that do nothing, one for so many threads, before its first.
constexpr unsigned kThreadsOfNothing = 16;
constexpr unsigned nothings(unsigned threads, unsigned = 1) { return threads / kThreadsOfNothing; }
unsigned launch_bounds_of(const void* kernel);

// The stream that launches, products and clears must be given: whoever drives the launchers sets one, and work on another, such
// as the default stream, is a Fault. Null: any.
CudaStream& only_stream();
void check_stream(const char* what, CudaStream stream);

// Whoever emulates the runtime around the kernels (engine/runtime.cpp); all null without one.
struct RuntimeHooks {
  // Takes work that was queued; without one it runs at once.
  void (*queue)(const char* what, CudaStream stream, std::function<void()> work) = nullptr;
  // The running work touches memory. Throws Fault.
  void (*access)(Allocation& allocation, size_t offset, size_t bytes, bool writes) = nullptr;
  // Memory that is somebody else's, as an allocation; null: none of the device's.
  Allocation* (*adopt)(const void* pointer) = nullptr;
  // An allocation that is about to end.
  void (*forget)(const Allocation* allocation) = nullptr;
};
RuntimeHooks& runtime_hooks();
// Queues a launch, a product, a clear.
void queue(const char* what, CudaStream stream, std::function<void()> work);
// A library's twin says what the running work reads or writes: `rows` stretches of `bytes`, `stride` bytes apart.
void touch(const char* what, const void* begin, int64_t rows, int64_t bytes, int64_t stride, bool writes);
// A copy or the host does, who may touch memory for copies.
void touch_by_copy(const char* what, const void* begin, int64_t bytes, bool writes);

// ---- What the running thread sees. Valid inside run_grid only.
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
// `value` in, the lane's result out; `operand` is the source lane, delta or lane mask of a shuffle.
uint64_t warp_collective(CollectiveKind kind, uint32_t mask, uint64_t value, int operand, int width,
                         Site site);

// The static shared array with this key in the running block, made at first use; poisoned.
Allocation* shared_array(const void* key, size_t bytes, size_t alignment);
Allocation* dynamic_shared_array();

// Checks an access of the running thread and records it. `what` names the array when it is not in bounds.
void check_access(Allocation* allocation, const void* address, size_t bytes, size_t alignment, bool writes,
                  bool atomic);
// __threadfence of the running thread.
void fence();

}  // namespace forge::emulator
