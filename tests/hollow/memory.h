#pragma once
// Memory of the hollow cards and pinned memory: zeroed pages of the host, which cost nothing until
// they are written.
#include <cstddef>

namespace forge::hollow {

enum class Kind { device, pinned, reserved };

struct Range {
  Kind kind = Kind::device;
  int card = 0;
  char* begin = nullptr;
  size_t bytes = 0;
};

// Returns the card's memory that a process may still take.
size_t free_bytes(int card);
// Takes memory; null if the card, or the host, does not have as much.
void* take(Kind kind, int card, size_t bytes);
// Releases memory; false if no range begins at the pointer.
bool give_back(const void* pointer);
// Returns the range that holds the address; kind `reserved` for address space without memory. Null
// if there is neither.
const Range* find(const void* address);

// True if the whole range is memory of the kind.
bool lies_in(Kind kind, const void* at, size_t bytes);

// Counts memory that has no address yet (cuMemCreate); false if the card does not have as much.
bool charge(int card, size_t bytes);
void discharge(int card, size_t bytes);
// Reserve address space without memory, and map memory to it.
void* reserve(size_t bytes);
void map(void* at, size_t bytes, int card);
void unmap(void* at, size_t bytes);

// Writes `value` to every byte; large zeros give the pages back instead.
void fill(void* at, int value, size_t bytes);

}  // namespace forge::hollow
