#include "tests/emulator/grid.h"

#include <cstring>

#include "tests/emulator/block.h"

namespace forge::emulator {

Schedule& schedule() {
  thread_local Schedule instance;
  return instance;
}

ThreadIndices& indices() { return running_indices(); }

void fault(const std::string& what) {
  if (running_block() == nullptr) throw Fault(what);
  running_block()->stop(what);
}

void run_grid(const Grid& grid, const std::function<void()>& body) {
  unsigned threads = grid.block.count(), blocks = grid.grid.count();
  if (threads == 0 || threads > 1024 || blocks == 0)
    throw Fault(std::string("kernel ") + grid.kernel + ": launch of " + std::to_string(blocks) +
                " blocks of " + std::to_string(threads) +
                " threads; a block has 1 to 1024, a grid at least one block");
  uint64_t random = schedule().seed;
  for (int index : visiting_order(static_cast<int>(blocks), schedule().order, random))
    Block(grid, unflatten(static_cast<unsigned>(index), grid.grid), body, random).run();
}

int block_barrier(BarrierKind kind, int predicate, Site site) {
  return running_block()->barrier(kind, predicate, site);
}

uint64_t warp_collective(CollectiveKind kind, uint32_t mask, uint64_t value, int operand, int width,
                         Site site) {
  return running_block()->collective(kind, mask, value, operand, width, site);
}

Allocation* shared_array(const void* key, size_t bytes, size_t alignment) {
  return running_block()->shared(key, bytes, alignment);
}
Allocation* dynamic_shared_array() { return running_block()->dynamic_shared(); }

void check_access(Allocation* allocation, const void* address, size_t bytes, size_t alignment, bool writes,
                  bool atomic) {
  const char* verb = writes ? "write" : "read";
  if (allocation == nullptr) fault(std::string(verb) + " through a null pointer");
  auto offset = static_cast<const unsigned char*>(address) - allocation->begin;
  auto at = [&] {
    return " of " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) + " of " +
           allocation->name + " (" + std::to_string(allocation->bytes) + " bytes)";
  };
  if (offset < 0 || static_cast<size_t>(offset) + bytes > allocation->bytes)
    fault("out of bounds: " + std::string(verb) + at());
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
    fault("unaligned: " + std::string(verb) + at() + ", which needs a multiple of " +
          std::to_string(alignment));
  if (writes && !allocation->writable) fault("write to an input:" + at());
  uint8_t* written = allocation->written.data() + offset;
  if (writes)
    std::memset(written, 1, bytes);
  else if (std::memchr(written, 0, bytes) != nullptr)
    fault("uninitialised: " + std::string(verb) + at());
  if (!allocation->shared || atomic || running_block() == nullptr) return;
  for (size_t i = static_cast<size_t>(offset); i < static_cast<size_t>(offset) + bytes; ++i) {
    const Allocation::Access* earlier =
        running_block()->races(allocation->writes[i]) ? &allocation->writes[i] : nullptr;
    if (writes && running_block()->races(allocation->reads[i])) earlier = &allocation->reads[i];
    if (earlier != nullptr)
      fault("race: " + std::string(verb) + at() + " with no barrier after thread " +
            std::to_string(earlier->thread) + " touched it");
    (writes ? allocation->writes : allocation->reads)[i] = running_block()->stamp();
  }
}

}  // namespace forge::emulator
