#pragma once
// The memory that emulated kernels may touch. Every allocation knows which of its bytes were ever
// written, has guard regions around it, and is found again from any address in it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulator/order.h"

namespace forge::emulator {

struct Allocation {
  std::string name;
  unsigned char* begin = nullptr;
  size_t bytes = 0;
  std::vector<uint8_t> written;  // [bytes], 1 where a value was stored
  bool shared = false;
  bool writable = true;
  bool for_copies = false;  // the host's: kernels and libraries may not touch it

  // Last write and last read of each byte of shared memory, to find accesses that no barrier
  // orders.
  struct Access {
    uint32_t block_epoch = 0, warp_epoch = 0;
    int32_t thread = -1;
  };
  std::vector<Access> writes, reads;  // [bytes], shared memory only

  size_t granule = 1;                                     // bytes that are always accessed together
  std::vector<GlobalAccess> global_writes, global_reads;  // [bytes / granule], once a kernel touched it
};

// Allocates memory `misalign` bytes past a 256-byte boundary, filled with a pattern that is NaN in
// every float type.
void* allocate(size_t bytes, const std::string& name, size_t misalign = 0);
void release(void* pointer);
// Registers memory that another owner allocates and guards, with elements of `granule` bytes. It
// counts as written; release() forgets it.
void expose(void* begin, size_t bytes, const std::string& name, bool writable, size_t granule = 1);
// Marks the bytes as written, like a copy to the device does.
void mark_written(void* pointer, size_t bytes);
// Returns the offset of the first byte that was not written, or -1.
int64_t first_unwritten(const void* pointer);
// Throws when a guard region around an allocation was touched.
void check_guards(const void* pointer);
// Returns the allocation that holds `pointer`, or null.
Allocation* find_allocation(const void* pointer);

}  // namespace forge::emulator
