#pragma once
// One block of emulated CUDA threads: a fiber each, barriers, warp collectives, shared memory.
// Other files use grid.h.
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulator/fiber.h"
#include "tests/emulator/grid.h"

namespace forge::emulator {

constexpr int kWarpSize = 32;

enum class State { ready, at_barrier, at_collective, done };

struct Thread {
  State state = State::ready;
  Site site{"", 0};
  // at_barrier
  BarrierKind barrier = BarrierKind::sync;
  int predicate = 0;
  // at_collective
  CollectiveKind collective = CollectiveKind::sync;
  uint32_t mask = 0;
  int operand = 0, width = kWarpSize;
  uint64_t value = 0;
  // The result of the wait.
  uint64_t result = 0;
};

struct SharedArray {
  std::unique_ptr<unsigned char[]> storage;
  Allocation allocation;
};

Dim3 unflatten(unsigned index, Dim3 dim);
// Returns 0 … count − 1 in the order in which the schedule visits them; advances `random`.
std::vector<int> visiting_order(int count, Order order, uint64_t& random);

class Block {
 public:
  Block(const Grid& grid, Dim3 index, const std::function<void()>& body, uint64_t& random);

  // Runs until all threads are done. Throws Fault.
  void run();
  // Act for the running thread; see grid.h.
  [[noreturn]] void stop(const std::string& what);
  int barrier(BarrierKind kind, int predicate, Site site);
  uint64_t collective(CollectiveKind kind, uint32_t mask, uint64_t value, int operand, int width, Site site);
  Allocation* shared(const void* key, size_t bytes, size_t alignment);
  Allocation* dynamic_shared() { return shared(&grid_.shared_bytes, grid_.shared_bytes, 128); }
  // True if two threads touched a byte, one of them writing, and nothing orders them.
  bool races(const Allocation::Access& earlier) const;
  Allocation::Access stamp() const;
  // Returns the block's number in its grid.
  size_t number() const { return index_.x + grid_.grid.x * (index_.y + size_t{grid_.grid.y} * index_.z); }

 private:
  static void enter(void* self);
  int count() const { return static_cast<int>(threads_.size()); }
  Thread& current();
  int alive() const;
  std::string prefix(int thread) const;
  // Runs every runnable thread once; false when there was none.
  bool run_round();
  bool release_barrier();
  bool complete(int warp, uint32_t mask, CollectiveKind kind, Site site) const;
  void resolve(int warp, uint32_t mask);
  uint64_t answer(const Thread* lanes, int lane, uint32_t mask);
  void report_deadlock();

  const Grid& grid_;
  const Dim3 index_;
  const std::function<void()>& body_;
  uint64_t& random_;
  std::vector<Thread> threads_;
  std::vector<uint32_t> warp_epochs_;
  uint32_t block_epoch_ = 0;
  std::map<const void*, std::unique_ptr<SharedArray>> arrays_;
  std::string fault_;
};

// The block and the thread that run on this operating-system thread; null outside run_grid.
Block*& running_block();
ThreadIndices& running_indices();

}  // namespace forge::emulator
