#pragma once
// Fibers: stacks that one operating-system thread switches between by hand. A switch saves the
// registers that the calling convention keeps and swaps the stack pointer, some nanoseconds;
// swapcontext would make a system call.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace forge::emulator {

struct FiberContext;  // where a suspended stack continues

// Stacks of `kStackBytes`, reused from block to block. A stack that grew past its end is reported.
class FiberPool {
 public:
  static constexpr size_t kStackBytes = 64 << 10;

  FiberPool();
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  // Makes fiber `index` ready to call entry(argument), which must never return: it ends by
  // switching out for good.
  void prepare(int index, void (*entry)(void*), void* argument);
  // Switches from the scheduler to fiber `index`; returns when that fiber calls switch_out().
  void switch_in(int index);
  // Switches from the running fiber back to the scheduler.
  void switch_out();
  // False when fiber `index` overran its stack.
  bool intact(int index) const;

 private:
  void reserve(int count);

  unsigned char* memory_ = nullptr;
  size_t mapped_ = 0;
  int running_ = -1;
  std::vector<std::unique_ptr<FiberContext>> fibers_;
  std::unique_ptr<FiberContext> scheduler_;
};

}  // namespace forge::emulator
