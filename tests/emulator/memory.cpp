#include "tests/emulator/memory.h"

#include "tests/emulator/grid.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace forge::emulator {
namespace {

constexpr size_t kGuardBytes = 4096;
constexpr unsigned char kPoison = 0xFF, kGuard = 0xA5;

struct Owned {
  Allocation allocation;
  unsigned char* raw = nullptr;
  size_t raw_bytes = 0;
};

std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}

// Returns the allocations by the address of their first byte.
std::map<const unsigned char*, std::unique_ptr<Owned>>& registry() {
  static std::map<const unsigned char*, std::unique_ptr<Owned>> instance;
  return instance;
}

Owned& owned(const void* pointer) {
  auto found = registry().find(static_cast<const unsigned char*>(pointer));
  if (found == registry().end()) throw std::runtime_error("emulator: not the start of a device allocation");
  return *found->second;
}

}  // namespace

void* allocate(size_t bytes, const std::string& name, size_t misalign) {
  auto entry = std::make_unique<Owned>();
  entry->raw_bytes = (bytes + misalign + 2 * kGuardBytes + 255) / 256 * 256;
  entry->raw = static_cast<unsigned char*>(std::aligned_alloc(256, entry->raw_bytes));
  if (entry->raw == nullptr) throw std::runtime_error("emulator: no memory for " + name);
  std::memset(entry->raw, kGuard, entry->raw_bytes);
  unsigned char* begin = entry->raw + kGuardBytes + misalign;
  std::memset(begin, kPoison, bytes);
  entry->allocation = {.name = name, .begin = begin, .bytes = bytes, .written = std::vector<uint8_t>(bytes)};
  std::lock_guard lock(mutex());
  registry()[begin] = std::move(entry);
  return begin;
}

void release(void* pointer) {
  if (pointer == nullptr) return;
  std::lock_guard lock(mutex());
  auto entry = registry().extract(static_cast<unsigned char*>(pointer));
  if (entry.empty()) throw std::runtime_error("emulator: not the start of a device allocation");
  Allocation& allocation = entry.mapped()->allocation;
  std::free(entry.mapped()->raw);
  if (!runtime_hooks().forget) return;
  runtime_hooks().forget(&allocation);
  // Work that was captured may still point to it, and finds nothing there.
  allocation.name += ", which was released", allocation.bytes = 0;
  allocation.written = {}, allocation.writes = allocation.reads = {}, allocation.global_writes = allocation.global_reads = {};
  static auto* graveyard = new std::vector<std::unique_ptr<Owned>>;
  graveyard->push_back(std::move(entry.mapped()));
}

void expose(void* begin, size_t bytes, const std::string& name, bool writable, size_t granule) {
  auto entry = std::make_unique<Owned>();
  auto* first = static_cast<unsigned char*>(begin);
  entry->allocation = {.name = name,
                       .begin = first,
                       .bytes = bytes,
                       .written = std::vector<uint8_t>(bytes, 1),
                       .writable = writable,
                       .granule = granule};
  std::lock_guard lock(mutex());
  registry()[first] = std::move(entry);
}

namespace {

Allocation* registered(const void* pointer) {
  const auto* address = static_cast<const unsigned char*>(pointer);
  std::lock_guard lock(mutex());
  auto after = registry().upper_bound(address);
  if (after == registry().begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second->allocation;
  // The address one past the end belongs to it, so that an empty range can be named.
  return address <= allocation.begin + allocation.bytes ? &allocation : nullptr;
}

}  // namespace

Allocation* find_allocation(const void* pointer) {
  if (Allocation* found = registered(pointer)) return found;
  return runtime_hooks().adopt ? runtime_hooks().adopt(pointer) : nullptr;
}

void mark_written(void* pointer, size_t bytes) {
  Allocation* allocation = find_allocation(pointer);
  if (allocation == nullptr) throw std::runtime_error("emulator: copy to memory that is not the device's");
  size_t offset = static_cast<size_t>(static_cast<unsigned char*>(pointer) - allocation->begin);
  if (offset + bytes > allocation->bytes)
    throw std::runtime_error("emulator: copy past the end of " + allocation->name);
  std::memset(allocation->written.data() + offset, 1, bytes);
}

int64_t first_unwritten(const void* pointer) {
  std::lock_guard lock(mutex());
  const std::vector<uint8_t>& written = owned(pointer).allocation.written;
  const void* found = written.empty() ? nullptr : std::memchr(written.data(), 0, written.size());
  return found == nullptr ? -1 : static_cast<const uint8_t*>(found) - written.data();
}

void check_guards(const void* pointer) {
  std::lock_guard lock(mutex());
  const Owned& entry = owned(pointer);
  const unsigned char* end = entry.allocation.begin + entry.allocation.bytes;
  for (const unsigned char* byte = entry.raw; byte < entry.raw + entry.raw_bytes; ++byte)
    if ((byte < entry.allocation.begin || byte >= end) && *byte != kGuard)
      throw std::runtime_error("emulator: the guard region of " + entry.allocation.name +
                               " was overwritten " + std::to_string(byte - entry.allocation.begin) +
                               " bytes from its start");
}

}  // namespace forge::emulator
