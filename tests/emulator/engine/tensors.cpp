#include "tests/emulator/engine/tensors.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <map>
#include <mutex>

#include "tests/emulator/grid.h"

namespace forge::emulator {
namespace {

struct Block {
  c10::DataPtr owner;
  size_t bytes = 0;
  bool adopted = false;
};
std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}
std::map<const char*, Block>& blocks() {
  static auto* instance = new std::map<const char*, Block>;  // tensors may outlive static objects
  return *instance;
}

void free_block(void* data) {
  if (!data) return;
  std::lock_guard lock(mutex());
  const auto found = blocks().find(static_cast<const char*>(data));
  if (found->second.adopted) release(data);
  blocks().erase(found);
}

// An allocator that forwards to another one and records its blocks.
class Watching final : public c10::Allocator {
 public:
  explicit Watching(c10::Allocator* base) : base_(base) {}
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr owner = base_->allocate(bytes);
    void* data = owner.get();
    if (data) {
      std::lock_guard lock(mutex());
      blocks()[static_cast<const char*>(data)] = {std::move(owner), bytes};
    }
    return {data, data, &free_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  c10::Allocator* base_;
};

}  // namespace

Allocation* adopt_tensor(const void* pointer) {
  const auto* address = static_cast<const char*>(pointer);
  std::lock_guard lock(mutex());
  auto after = blocks().upper_bound(address);
  if (after == blocks().begin()) return nullptr;
  auto& [begin, block] = *std::prev(after);
  if (address >= begin + block.bytes || block.adopted) return nullptr;
  constexpr size_t kByte = 1;  // codes of 8-bit state are neighbours that different threads write
  expose(const_cast<char*>(begin), block.bytes, "a tensor", /*writable=*/true, kByte);
  block.adopted = true;
  return find_allocation(begin);
}

void watch_tensors() {
  constexpr uint8_t kAboveTheCounting = 110;
  static Watching watching(c10::GetCPUAllocator());
  c10::SetCPUAllocator(&watching, kAboveTheCounting);
}

}  // namespace forge::emulator
