#pragma once
// Bytes held and freed in the order of a step, without tensors. Reports the bytes by use at the
// moment of the highest total.
//
//   Ledger ledger;
//   Held gate = ledger.hold(Use::layer, 4 * tokens * inner);   // freed with the last copy of the handle
//   ledger.peak()[Use::layer]
#include <array>
#include <cstdint>
#include <memory>

namespace forge {

enum class Use { batch, saved, layer, weight_grads, head, products };
constexpr int64_t kUses = 6;

struct UseBytes {
  std::array<int64_t, kUses> bytes{};
  int64_t operator[](Use use) const { return bytes[static_cast<size_t>(use)]; }
  int64_t total() const {
    int64_t sum = 0;
    for (int64_t part : bytes) sum += part;
    return sum;
  }
};

using Held = std::shared_ptr<void>;

// The ledger must outlive its handles.
class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  Held hold(Use use, int64_t bytes) {
    live_.bytes[static_cast<size_t>(use)] += bytes;
    total_ += bytes;
    if (total_ > highest_) {
      highest_ = total_;
      peak_ = live_;
    }
    return Held(this, [this, use, bytes](void*) {
      live_.bytes[static_cast<size_t>(use)] -= bytes;
      total_ -= bytes;
    });
  }
  const UseBytes& peak() const { return peak_; }  // at the highest moment, by use

 private:
  UseBytes live_, peak_;
  int64_t total_ = 0, highest_ = 0;
};

}  // namespace forge
