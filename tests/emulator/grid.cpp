#include "tests/emulator/grid.h"

#include <cstring>

#include "tests/emulator/block.h"

namespace forge::emulator {

Schedule& schedule() {
  thread_local Schedule instance;
  return instance;
}

int64_t& multiprocessors() {
  static int64_t count = 46;
  return count;
}

ThreadIndices& indices() { return running_indices(); }

void fault(const std::string& what) {
  if (running_block() == nullptr) throw Fault(what);
  running_block()->stop(what);
}

namespace {

// Returns why the driver would refuse a launch; empty if it would not.
std::string refusal(const Grid& grid) {
  constexpr unsigned kMostX = 0x7FFFFFFF, kMostY = 65535, kMostThreads = 1024;
  constexpr size_t kMostShared = 48 << 10;  // without asking for more
  const unsigned threads = grid.block.count(), most = grid.most_threads ? grid.most_threads : kMostThreads;
  const Dim3 blocks = grid.grid;
  if (threads == 0 || threads > kMostThreads || blocks.x == 0 || blocks.y == 0 || blocks.z == 0)
    return "a block has 1 to 1024 threads, a grid at least one block";
  if (threads > most) return "its __launch_bounds__ are " + std::to_string(most) + " threads";
  if (blocks.x > kMostX || blocks.y > kMostY || blocks.z > kMostY)
    return "a grid is at most 2147483647 blocks wide and 65535 high";
  if (grid.shared_bytes > kMostShared) return "more than 48 KiB of shared memory";
  return "";
}

}  // namespace

unsigned launch_bounds_of(const void* kernel) {
#if defined(__x86_64__)
  constexpr unsigned char kEnterBranch[] = {0xF3, 0x0F, 0x1E, 0xFA}, kNothing = 0x90;
  auto* code = static_cast<const unsigned char*>(kernel);
  if (std::memcmp(code, kEnterBranch, sizeof kEnterBranch) == 0) code += sizeof kEnterBranch;
  unsigned count = 0;
  while (code[count] == kNothing) ++count;
  return count * kThreadsOfNothing;
#else
  static_cast<void>(kernel);
  return 0;
#endif
}

CudaStream& only_stream() {
  thread_local CudaStream stream = nullptr;
  return stream;
}

void check_stream(const char* what, CudaStream stream) {
  if (only_stream() != nullptr && stream != only_stream())
    throw Fault(std::string(what) + ": on " + (stream ? "another" : "the default") +
                " stream, not on the one it was given");
}

RuntimeHooks& runtime_hooks() {
  static RuntimeHooks hooks;
  return hooks;
}

void queue(const char* what, CudaStream stream, std::function<void()> work) {
  check_stream(what, stream);
  if (runtime_hooks().queue) return runtime_hooks().queue(what, stream, std::move(work));
  work();
}

namespace {

enum class Toucher { device, copy };

void touch_by(Toucher by, const char* what, const void* begin, int64_t rows, int64_t bytes, int64_t stride, bool writes) {
  if (!runtime_hooks().access || bytes <= 0) return;
  for (int64_t row = 0; row < rows; ++row) {
    const auto* at = static_cast<const unsigned char*>(begin) + row * stride;
    Allocation* allocation = find_allocation(at);
    if (!allocation) throw Fault(std::string(what) + ": " + (writes ? "writes" : "reads") + " what is not device memory");
    if (allocation->for_copies && by == Toucher::device) throw Fault(std::string(what) + ": touches " + allocation->name + ", which is for copies alone");
    const auto offset = static_cast<size_t>(at - allocation->begin), count = static_cast<size_t>(bytes);
    if (offset + count > allocation->bytes) throw Fault(std::string(what) + ": past the end of " + allocation->name);
    uint8_t* written = allocation->written.data() + offset;
    if (writes)
      std::memset(written, 1, count);
    else if (std::memchr(written, 0, count) != nullptr)
      throw Fault(std::string(what) + ": reads " + allocation->name + " where nobody wrote, at offset " + std::to_string(offset));
    runtime_hooks().access(*allocation, offset, count, writes);
  }
}

}  // namespace

void touch(const char* what, const void* begin, int64_t rows, int64_t bytes, int64_t stride, bool writes) {
  touch_by(Toucher::device, what, begin, rows, bytes, stride, writes);
}
void touch_by_copy(const char* what, const void* begin, int64_t bytes, bool writes) {
  touch_by(Toucher::copy, what, begin, 1, bytes, 0, writes);
}

void run_grid(const Grid& grid, const std::function<void()>& body) {
  const Dim3 shape = grid.grid;
  if (std::string why = refusal(grid); !why.empty())
    throw Fault(std::string("kernel ") + grid.kernel + ": launch of " + std::to_string(shape.x) + " x " +
                std::to_string(shape.y) + " blocks of " + std::to_string(grid.block.count()) +
                " threads and " + std::to_string(grid.shared_bytes) + " bytes of shared memory: " + why);
  const unsigned blocks = shape.count();
  launch_order().begin(blocks);
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
void fence() { launch_order().fence(); }

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
  if (allocation->for_copies) fault(std::string(verb) + at() + ", which is for copies alone");
  uint8_t* written = allocation->written.data() + offset;
  if (writes)
    std::memset(written, 1, bytes);
  else if (std::memchr(written, 0, bytes) != nullptr)
    fault("uninitialised: " + std::string(verb) + at());
  if (running_block() == nullptr) return;
  if (!allocation->shared) {
    if (runtime_hooks().access) {
      try {
        runtime_hooks().access(*allocation, static_cast<size_t>(offset), bytes, writes);
      } catch (const Fault& unordered) {
        fault(std::string(verb) + at() + ", " + unordered.what());
      }
    }
    // Memory that no kernel writes cannot race.
    const int other = allocation->writable ? launch_order().access(*allocation, static_cast<size_t>(offset),
                                                                   bytes, writes, atomic)
                                           : -1;
    if (other >= 0)
      fault("race: " + std::string(verb) + at() + " that nothing orders after an access of thread " +
            std::to_string(other));
    return;
  }
  if (atomic) return;
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
