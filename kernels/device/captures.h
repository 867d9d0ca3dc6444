#pragma once
// Runs work that repeats with the same key: it is enqueued the first time, captured the second, and
// replayed from then on.
//
//   Captures<LmHead> captures;
//   captures.run(device, args, [&] { device.run(args); });
//
// A key holds all that the work reads on the host; everything else is in the device's memory, at
// fixed addresses. A device whose memory is the host's has nothing to capture. If a device refuses
// a capture, the work is enqueued each time, and the device says so once.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/lib/base/unexpected.h"
#include "kernels/device/device.h"

namespace forge {

// `Seen` is a key that borrows, where copying one costs.
template <class Key, class Seen = Key>
class Captures {
 public:
  void run(ComputeDevice& device, const Seen& key, const std::function<void()>& work) {
    if (!device.separate() || refused_) return work();
    Entry& entry = entry_of(key);
    const bool is_new = entry.used == 0;
    entry.used = ++uses_;
    if (is_new) return work();
    if (!entry.graph) entry.graph = capture(device, work);
    entry.graph ? device.replay(*entry.graph) : work();
  }

 private:
  struct Entry {
    Key key;
    std::unique_ptr<Captured> graph;
    int64_t used = 0;
  };

  Entry& entry_of(const Seen& key) {
    constexpr size_t kMost = 16;  // the one that was not used for longest is let go
    for (Entry& e : entries_)
      if (e.key == key) return e;
    if (entries_.size() == kMost)
      entries_.erase(std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; }));
    return entries_.emplace_back(Entry{Key(key), nullptr, 0});
  }

  // Captures the work. Any exception counts as a refused capture: if the work itself fails, it
  // fails again when it is enqueued.
  std::unique_ptr<Captured> capture(ComputeDevice& device, const std::function<void()>& work) {
    try {
      return device.capture(work);
    } catch (const std::exception& error) {
      refused_ = true;
      device.say_once(std::string("graphs are not used for all of a step: ") + message_of(error));
      return nullptr;
    }
  }

  std::vector<Entry> entries_;
  int64_t uses_ = 0;
  bool refused_ = false;
};

}  // namespace forge
