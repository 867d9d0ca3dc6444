#include "tests/emulator/block.h"

#include <algorithm>
#include <numeric>

namespace forge::emulator {
namespace {

thread_local int running_thread = 0;

FiberPool& fibers() {
  thread_local FiberPool pool;
  return pool;
}

std::string short_name(const char* file) {
  const char* slash = std::strrchr(file, '/');
  return slash == nullptr ? file : slash + 1;
}

std::string place(Site site) { return short_name(site.file) + ":" + std::to_string(site.line); }

std::string triple(Dim3 d) {
  return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
}

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::sync:
      return "__syncwarp";
    case CollectiveKind::shuffle:
      return "__shfl_sync";
    case CollectiveKind::shuffle_up:
      return "__shfl_up_sync";
    case CollectiveKind::shuffle_down:
      return "__shfl_down_sync";
    case CollectiveKind::shuffle_xor:
      return "__shfl_xor_sync";
    case CollectiveKind::ballot:
      return "__ballot_sync";
    case CollectiveKind::any:
      return "__any_sync";
    case CollectiveKind::all:
      return "__all_sync";
    default:
      return "__reduce_*_sync";
  }
}

std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

// SplitMix64, which is good enough for orders.
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15ull;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

// Returns the lane that a shuffle reads.
int source_lane(const Thread& thread, int lane) {
  int segment = lane & ~(thread.width - 1), source = lane;
  switch (thread.collective) {
    case CollectiveKind::shuffle:
      return segment + (thread.operand & (thread.width - 1));
    case CollectiveKind::shuffle_up:
      source = lane - thread.operand;
      return source < segment ? lane : source;
    case CollectiveKind::shuffle_down:
      source = lane + thread.operand;
      break;
    default:
      source = lane ^ thread.operand;
      break;
  }
  return source >= segment + thread.width ? lane : source;
}

// Returns the result of a vote or reduction for all lanes of the mask.
uint64_t reduced(const Thread* lanes, uint32_t mask, CollectiveKind kind) {
  uint32_t ballot = 0, total = 0;
  bool first = true;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    auto value = static_cast<uint32_t>(lanes[lane].value);
    auto left = static_cast<int32_t>(total), right = static_cast<int32_t>(value);
    ballot |= static_cast<uint32_t>(value != 0) << lane;
    switch (first ? CollectiveKind::reduce_or : kind) {
      case CollectiveKind::reduce_add:
        total += value;
        break;
      case CollectiveKind::reduce_min:
        total = std::min(total, value);
        break;
      case CollectiveKind::reduce_max:
        total = std::max(total, value);
        break;
      case CollectiveKind::reduce_min_signed:
        total = static_cast<uint32_t>(std::min(left, right));
        break;
      case CollectiveKind::reduce_max_signed:
        total = static_cast<uint32_t>(std::max(left, right));
        break;
      case CollectiveKind::reduce_and:
        total &= value;
        break;
      case CollectiveKind::reduce_xor:
        total ^= value;
        break;
      default:
        total |= value;
        break;
    }
    first = false;
  }
  if (kind == CollectiveKind::ballot) return ballot;
  if (kind == CollectiveKind::any) return ballot != 0;
  if (kind == CollectiveKind::all) return ballot == mask;
  return total;
}

}  // namespace

Block*& running_block() {
  thread_local Block* block = nullptr;
  return block;
}

ThreadIndices& running_indices() {
  thread_local ThreadIndices indices;
  return indices;
}

Dim3 unflatten(unsigned index, Dim3 dim) {
  return {index % dim.x, index / dim.x % dim.y, index / dim.x / dim.y};
}

std::vector<int> visiting_order(int count, Order order, uint64_t& random) {
  std::vector<int> result(static_cast<size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  if (order == Order::reverse) std::reverse(result.begin(), result.end());
  if (order == Order::seeded)
    for (int i = count - 1; i > 0; --i)
      std::swap(result[static_cast<size_t>(i)], result[next_random(random) % static_cast<uint64_t>(i + 1)]);
  return result;
}

Block::Block(const Grid& grid, Dim3 index, const std::function<void()>& body, uint64_t& random)
    : grid_(grid),
      index_(index),
      body_(body),
      random_(random),
      threads_(grid.block.count()),
      warp_epochs_((grid.block.count() + kWarpSize - 1) / kWarpSize) {}

void Block::run() {
  running_block() = this;
  for (int i = 0; i < count(); ++i) fibers().prepare(i, &Block::enter, this);
  while (fault_.empty() && alive() > 0)
    if (!run_round() && fault_.empty() && !release_barrier()) report_deadlock();
  running_block() = nullptr;
  for (int i = 0; i < count() && fault_.empty(); ++i)
    if (!fibers().intact(i)) fault_ = prefix(i) + "overran the emulated stack of 64 KiB";
  if (!fault_.empty()) throw Fault(fault_);
}

void Block::stop(const std::string& what) {
  if (fault_.empty()) fault_ = prefix(running_thread) + what;
  threads_[static_cast<size_t>(running_thread)].state = State::done;
  fibers().switch_out();
  __builtin_unreachable();
}

int Block::barrier(BarrierKind kind, int predicate, Site site) {
  Thread& thread = current();
  thread.state = State::at_barrier;
  thread.barrier = kind;
  thread.predicate = predicate != 0;
  thread.site = site;
  fibers().switch_out();
  return static_cast<int>(thread.result);
}

uint64_t Block::collective(CollectiveKind kind, uint32_t mask, uint64_t value, int operand, int width,
                           Site site) {
  Thread& thread = current();
  int lane = running_thread % kWarpSize;
  if ((mask >> lane & 1) == 0)
    stop(std::string(name_of(kind)) + " at " + place(site) + ": lane " + std::to_string(lane) +
         " is not in its own mask " + hex(mask));
  thread = {State::at_collective, site, thread.barrier, 0, kind, mask, operand, width, value, 0};
  if (complete(running_thread / kWarpSize, mask, kind, site)) resolve(running_thread / kWarpSize, mask);
  if (thread.state != State::ready) fibers().switch_out();
  return thread.result;
}

Allocation* Block::shared(const void* key, size_t bytes, size_t alignment) {
  auto& array = arrays_[key];
  if (array == nullptr) {
    array = std::make_unique<SharedArray>();
    array->storage = std::make_unique<unsigned char[]>(bytes + 256);
    // The array has exactly the requested alignment: code that needs 16 bytes must request it.
    auto address = reinterpret_cast<uintptr_t>(array->storage.get());
    auto* begin = reinterpret_cast<unsigned char*>((address + 255) / 256 * 256);
    if (alignment < 128) begin += alignment;
    std::memset(begin, 0xFF, bytes);
    array->allocation = {.name = "shared memory",
                         .begin = begin,
                         .bytes = bytes,
                         .written = std::vector<uint8_t>(bytes),
                         .shared = true,
                         .writes = std::vector<Allocation::Access>(bytes),
                         .reads = std::vector<Allocation::Access>(bytes)};
  }
  return &array->allocation;
}
bool Block::races(const Allocation::Access& earlier) const {
  if (earlier.thread < 0 || earlier.thread == running_thread || earlier.block_epoch != block_epoch_)
    return false;
  int warp = running_thread / kWarpSize;
  return earlier.thread / kWarpSize != warp || earlier.warp_epoch == warp_epochs_[static_cast<size_t>(warp)];
}
Allocation::Access Block::stamp() const {
  return {block_epoch_, warp_epochs_[static_cast<size_t>(running_thread / kWarpSize)], running_thread};
}

void Block::enter(void* self) {
  auto* block = static_cast<Block*>(self);
  block->body_();
  block->current().state = State::done;
  fibers().switch_out();
}

Thread& Block::current() { return threads_[static_cast<size_t>(running_thread)]; }
int Block::alive() const {
  return static_cast<int>(std::count_if(threads_.begin(), threads_.end(),
                                        [](const Thread& t) { return t.state != State::done; }));
}

std::string Block::prefix(int thread) const {
  return std::string("kernel ") + grid_.kernel + ", block " + triple(index_) + ", thread " +
         triple(unflatten(static_cast<unsigned>(thread), grid_.block)) + ": ";
}

bool Block::run_round() {
  bool ran = false;
  int warps = static_cast<int>(warp_epochs_.size());
  for (int warp : visiting_order(warps, schedule().order, random_)) {
    int lanes = std::min(kWarpSize, count() - warp * kWarpSize);
    for (int lane : visiting_order(lanes, schedule().order, random_)) {
      int thread = warp * kWarpSize + lane;
      if (threads_[static_cast<size_t>(thread)].state != State::ready) continue;
      ran = true;
      running_thread = thread;
      running_indices() = {unflatten(static_cast<unsigned>(thread), grid_.block), index_, grid_.block,
                           grid_.grid};
      fibers().switch_in(thread);
      if (!fault_.empty()) return true;
    }
  }
  return ran;
}

bool Block::release_barrier() {
  const Thread* first = nullptr;
  int set = 0, live = 0;
  for (const Thread& thread : threads_) {
    if (thread.state == State::done) continue;
    if (thread.state != State::at_barrier) return false;
    if (first == nullptr) first = &thread;
    // All threads must wait at the same barrier: a condition must have the same value in the whole
    // block.
    if (thread.site.line != first->site.line || thread.barrier != first->barrier ||
        std::strcmp(thread.site.file, first->site.file) != 0)
      return false;
    ++live;
    set += thread.predicate;
  }
  for (Thread& thread : threads_) {
    if (thread.state == State::done) continue;
    int answer = thread.barrier == BarrierKind::any   ? set > 0
                 : thread.barrier == BarrierKind::all ? set == live
                                                      : set;
    thread.result = static_cast<uint64_t>(answer);
    thread.state = State::ready;
  }
  ++block_epoch_;
  return true;
}

bool Block::complete(int warp, uint32_t mask, CollectiveKind kind, Site site) const {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    int index = warp * kWarpSize + lane;
    if (index >= count()) return false;
    const Thread& other = threads_[static_cast<size_t>(index)];
    if (other.state != State::at_collective || other.mask != mask || other.collective != kind ||
        other.site.line != site.line)
      return false;
  }
  return true;
}

void Block::resolve(int warp, uint32_t mask) {
  Thread* lanes = threads_.data() + warp * kWarpSize;
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (mask >> lane & 1) lanes[lane].result = answer(lanes, lane, mask);
  for (int lane = 0; lane < kWarpSize; ++lane)
    if (mask >> lane & 1) lanes[lane].state = State::ready;
  ++warp_epochs_[static_cast<size_t>(warp)];
}

uint64_t Block::answer(const Thread* lanes, int lane, uint32_t mask) {
  const Thread& own = lanes[lane];
  switch (own.collective) {
    case CollectiveKind::sync:
      return 0;
    case CollectiveKind::shuffle:
    case CollectiveKind::shuffle_up:
    case CollectiveKind::shuffle_down:
    case CollectiveKind::shuffle_xor: {
      int source = source_lane(own, lane);
      if ((mask >> source & 1) == 0)
        stop(std::string(name_of(own.collective)) + " at " + place(own.site) + ": lane " +
             std::to_string(lane) + " reads lane " + std::to_string(source) + ", which is not in the mask " +
             hex(mask));
      return lanes[source].value;
    }
    default:
      return reduced(lanes, mask, own.collective);
  }
}

void Block::report_deadlock() {
  std::map<std::string, std::pair<int, int>> waits;  // what is waited for → first thread, how many
  for (int i = 0; i < count(); ++i) {
    const Thread& thread = threads_[static_cast<size_t>(i)];
    std::string what = "exited";
    if (thread.state == State::at_barrier) what = "wait at the barrier of " + place(thread.site);
    if (thread.state == State::at_collective)
      what = "wait in " + std::string(name_of(thread.collective)) + " at " + place(thread.site) +
             " for the lanes of " + hex(thread.mask);
    auto [entry, fresh] = waits.try_emplace(what, i, 0);
    ++entry->second.second;
  }
  fault_ = std::string("kernel ") + grid_.kernel + ", block " + triple(index_) + ": deadlock:";
  for (const auto& [what, who] : waits)
    fault_ += "\n  " + std::to_string(who.second) + " threads from thread " +
              triple(unflatten(static_cast<unsigned>(who.first), grid_.block)) + " on " + what;
}

}  // namespace forge::emulator
