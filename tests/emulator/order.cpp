#include "tests/emulator/order.h"

#include "tests/emulator/block.h"

namespace forge::emulator {

LaunchOrder& launch_order() {
  thread_local LaunchOrder instance;
  return instance;
}

void LaunchOrder::begin(size_t blocks) {
  ++launch_;
  clock_ = 0;
  blocks_.assign(blocks, {});
}

void LaunchOrder::fence() {
  Sync& own = blocks_[running_block()->number()];
  own.fenced = ++clock_;
  own.acquired = own.seen;
}

void LaunchOrder::note_atomic() {
  Sync& own = blocks_[running_block()->number()];
  own.seen = ++clock_;
  if (own.fenced > 0 && (own.published.empty() || own.published.back().first != own.fenced))
    own.published.push_back({own.fenced, clock_});
}

GlobalAccess LaunchOrder::now(bool atomic) const {
  const Allocation::Access stamp = running_block()->stamp();
  return {.launch = launch_,
          .block = static_cast<uint32_t>(running_block()->number()),
          .time = clock_,
          .block_epoch = stamp.block_epoch,
          .warp_epoch = stamp.warp_epoch,
          .thread = static_cast<int16_t>(stamp.thread),
          .atomic = atomic};
}

bool LaunchOrder::ordered(const GlobalAccess& earlier, const GlobalAccess& now) const {
  if (earlier.of_blocks) return false;
  if (earlier.block != now.block) {
    for (auto [before, at] : blocks_[earlier.block].published)
      if (earlier.time < before && at <= blocks_[now.block].acquired) return true;
    return false;
  }
  if (earlier.block_epoch != now.block_epoch) return true;
  if (earlier.of_warps || earlier.thread / kWarpSize != now.thread / kWarpSize) return false;
  return earlier.warp_epoch != now.warp_epoch || (earlier.thread == now.thread && !earlier.of_threads);
}

bool LaunchOrder::races(const GlobalAccess& earlier, const GlobalAccess& now) const {
  return earlier.launch == launch_ && !(earlier.atomic && now.atomic) && !ordered(earlier, now);
}

int LaunchOrder::access(Allocation& allocation, size_t offset, size_t bytes, bool writes, bool atomic) {
  const size_t granules = (allocation.bytes + allocation.granule - 1) / allocation.granule;
  if (allocation.global_writes.size() != granules) {
    allocation.global_writes.assign(granules, {});
    allocation.global_reads.assign(granules, {});
  }
  if (atomic && writes) note_atomic();
  const GlobalAccess own = now(atomic);
  for (size_t i = offset / allocation.granule; i <= (offset + bytes - 1) / allocation.granule; ++i) {
    GlobalAccess &write = allocation.global_writes[i], &read = allocation.global_reads[i];
    if (races(write, own)) return write.thread;
    if (!writes) {
      GlobalAccess reader = own;
      if (read.launch == launch_ && !ordered(read, own)) {
        reader.of_blocks = read.of_blocks || read.block != own.block;
        reader.of_warps = read.of_warps || read.thread / kWarpSize != own.thread / kWarpSize;
        reader.of_threads = read.of_threads || read.thread != own.thread;
      }
      read = reader;
      continue;
    }
    if (races(read, own)) return read.thread;
    write = own;
  }
  return -1;
}

}  // namespace forge::emulator
