#include "tests/hollow/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/hollow/card.h"
#include "tests/hollow/report.h"

namespace forge::hollow {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLarge = size_t{1} << 20;

struct Memory {
  std::mutex mutex;
  std::map<const char*, Range> ranges, reservations;  // by first address
  std::map<int, size_t> live;                         // by card
};

// Returns the memory, which is never destroyed: LibTorch's threads may outlive main.
Memory& memory() {
  static auto* const instance = new Memory;
  return *instance;
}

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

char* pages(size_t bytes, int protection) {
  void* at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

const Range* find_in(const std::map<const char*, Range>& ranges, const char* address) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return nullptr;
  const Range& range = std::prev(after)->second;
  return address < range.begin + range.bytes ? &range : nullptr;
}

size_t room(int card) {
  const size_t most = card_of(card).free_bytes - machine().taken_bytes, live = memory().live[card];
  return live < most ? most - live : 0;
}
void add_live(int card, size_t bytes) {
  holds(card, static_cast<int64_t>(memory().live[card] += bytes));
}

}  // namespace

size_t free_bytes(int card) {
  const std::lock_guard lock(memory().mutex);
  return room(card);
}

void* take(Kind kind, int card, size_t bytes) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  if (kind == Kind::device && bytes > room(card)) return nullptr;
  char* at = pages(whole_pages(bytes ? bytes : 1), PROT_READ | PROT_WRITE);
  if (!at) return nullptr;
  m.ranges[at] = {kind, card, at, bytes};
  if (kind == Kind::device) add_live(card, bytes);
  return at;
}

bool give_back(const void* pointer) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto found = m.ranges.find(static_cast<const char*>(pointer));
  if (found == m.ranges.end()) return false;
  const Range range = found->second;
  m.ranges.erase(found);
  if (range.kind == Kind::device) m.live[range.card] -= range.bytes;
  munmap(range.begin, whole_pages(range.bytes ? range.bytes : 1));
  return true;
}

const Range* find(const void* address) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto* at = static_cast<const char*>(address);
  const Range* range = find_in(m.ranges, at);
  return range ? range : find_in(m.reservations, at);
}

bool lies_in(Kind kind, const void* at, size_t bytes) {
  const auto* begin = static_cast<const char*>(at);
  for (const char* next = begin; next < begin + bytes;) {
    const Range* range = find(next);
    if (!range || range->kind != kind) return false;
    next = range->begin + range->bytes;
  }
  return true;
}

bool charge(int card, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  if (bytes > room(card)) return false;
  add_live(card, bytes);
  return true;
}
void discharge(int card, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().live[card] -= bytes;
}

void* reserve(size_t bytes) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  char* at = pages(bytes, PROT_NONE);
  if (at) m.reservations[at] = {Kind::reserved, -1, at, bytes};
  return at;
}
void map(void* at, size_t bytes, int card) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  mprotect(at, bytes, PROT_READ | PROT_WRITE);
  m.ranges[static_cast<char*>(at)] = {Kind::device, card, static_cast<char*>(at), bytes};
}
void unmap(void* at, size_t bytes) {
  Memory& m = memory();
  const std::lock_guard lock(m.mutex);
  const auto first = m.ranges.lower_bound(static_cast<char*>(at));
  m.ranges.erase(first, m.ranges.lower_bound(static_cast<char*>(at) + bytes));
  madvise(at, bytes, MADV_DONTNEED);
  mprotect(at, bytes, PROT_NONE);
}

void fill(void* at, int value, size_t bytes) {
  auto* begin = static_cast<char*>(at);
  if (value == 0 && bytes >= kLarge) {
    char* first = reinterpret_cast<char*>(whole_pages(reinterpret_cast<uintptr_t>(begin)));
    char* end = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(begin + bytes) / kPage * kPage);
    std::memset(begin, 0, static_cast<size_t>(first - begin));
    madvise(first, static_cast<size_t>(end - first), MADV_DONTNEED);
    begin = end, bytes -= static_cast<size_t>(end - static_cast<char*>(at));
  }
  std::memset(begin, value, bytes);
}

}  // namespace forge::hollow
