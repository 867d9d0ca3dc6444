#pragma once
// Memory of the hollow cards and memory pinned for them: pages of the host, all zero, which cost
// nothing until they are written.
#include <cstddef>

namespace forge::hollow {

enum class Kind { device, pinned, reserved };

struct Range {
  Kind kind = Kind::device;
  int card = 0;
  char* begin = nullptr;
  size_t bytes = 0;
};

// The card's memory that a process may still take.
size_t free_bytes(int card);
// Null where the card, or the host, has not so much.
void* take(Kind kind, int card, size_t bytes);
// False where nothing begins at the pointer.
bool give_back(const void* pointer);
// The range that holds the address; kind `reserved` for address space without memory. Null:
// neither.
const Range* find(const void* address);

// True if all of it is memory of the kind.
bool lies_in(Kind kind, const void* at, size_t bytes);

// Counts memory that has no address yet (cuMemCreate). False where the card has not so much.
bool charge(int card, size_t bytes);
void discharge(int card, size_t bytes);
// Address space without memory, and memory in it.
void* reserve(size_t bytes);
void map(void* at, size_t bytes, int card);
void unmap(void* at, size_t bytes);

// Writes `value` to every byte; large zeros give the pages back instead.
void fill(void* at, int value, size_t bytes);

}  // namespace forge::hollow
