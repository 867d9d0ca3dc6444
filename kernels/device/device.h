#pragma once
// A device: the table of its ops, known by the type of their arguments (kernels/*/…_args.h), its
// memory, and the order of its work. Twins: cpu_device.cpp; gpu_device.cpp over runtime.h, which
// CUDA has and, in tests, the emulator.
//
//   device.run(SwigluForward{…});              queued on the compute stream; a CPU is done when it returns
//   Event ready = device.new_event();
//   device.record(ready, Stream::weights);     work after wait() waits for that before record()
//   device.wait(Stream::compute, ready);
//   device.read(host, from, bytes);            the host waits
//
// A caller that holds a ComputeDevice and pointers does not know which twin it has.
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/base/error.h"
#include "kernels/common/element.h"
#include "kernels/device/launch.h"

namespace forge {

// Named by the work enqueued there: the ops of a step; weights that are decoded ahead; batches and
// results.
enum class Stream { compute, weights, copy };
constexpr size_t kStreams = 3;

// A row of the table.
template <class Args>
struct DeviceOp {
  void (*run)(const Args&, CudaStream) = nullptr;         // null: the device has no such op
  // Bytes that Args::workspace must have, for callers that ask a device; null: a list lays it out
  // (OpRecord::workspace).
  int64_t (*workspace)(const Args&) = nullptr;
  std::string (*refusal)(const Args&) = nullptr;          // why it cannot run these; null, or "" for those it can
};

// The rows of a device, by the type of their arguments.
class DeviceOps {
 public:
  template <class Args>
  DeviceOp<Args>& row() {
    const size_t at = number<Args>();
    if (rows_.size() <= at) rows_.resize(at + 1);
    if (!rows_[at]) rows_[at] = std::make_shared<DeviceOp<Args>>();
    return *static_cast<DeviceOp<Args>*>(rows_[at].get());
  }
  // Returns the row, or an empty one if there is none.
  template <class Args>
  const DeviceOp<Args>& row() const {
    static const DeviceOp<Args> none;
    const size_t at = number<Args>();
    return at < rows_.size() && rows_[at] ? *static_cast<const DeviceOp<Args>*>(rows_[at].get()) : none;
  }
  // Set a column of many rows, each the row of its function's arguments.
  template <class... Args>
  void set_runs(void (*... runs)(const Args&, CudaStream)) {
    ((row<Args>().run = runs), ...);
  }
  template <class... Args>
  void set_workspaces(int64_t (*... workspaces)(const Args&)) {
    ((row<Args>().workspace = workspaces), ...);
  }
  template <class... Args>
  void set_refusals(std::string (*... refusals)(const Args&)) {
    ((row<Args>().refusal = refusals), ...);
  }

 private:
  static size_t next() {
    static size_t count = 0;
    return count++;
  }
  template <class Args>
  static size_t number() {
    static const size_t number = next();
    return number;
  }

  std::vector<std::shared_ptr<void>> rows_;
};

// A point in the order of the compute stream's work. It belongs to the device that marked it.
struct Moment {
  int64_t number = 0;
};

// Owned by the device that made it.
struct Event {
  void* handle = nullptr;
};

// Work that was captured instead of run.
class Captured {
 public:
  virtual ~Captured() = default;
};

// A copy to the host that was enqueued.
class Fetched {
 public:
  virtual ~Fetched() = default;
  // Waits for the copy. Does not wait if the host knows that work enqueued after the copy is done.
  // May be called more than once.
  virtual void take(void* host) = 0;
};

class ComputeDevice {
 public:
  explicit ComputeDevice(const DeviceOps& ops) : ops_(ops) {}
  virtual ~ComputeDevice() = default;
  ComputeDevice(const ComputeDevice&) = delete;
  ComputeDevice& operator=(const ComputeDevice&) = delete;

  template <class Args>
  bool has() const {
    return op<Args>().run != nullptr;
  }
  template <class Args>
  void run(const Args& args, Stream stream = Stream::compute) {
    if (!op<Args>().run) missing();
    op<Args>().run(args, native(stream));
  }
  template <class Args>
  int64_t workspace(const Args& args) const {
    if (!op<Args>().workspace) missing();
    return op<Args>().workspace(args);
  }
  template <class Args>
  std::string refusal(const Args& args) const {
    if (!op<Args>().run) return "this device has no such op";
    return op<Args>().refusal ? op<Args>().refusal(args) : "";
  }

  // ---- Memory. allocate() throws c10::OutOfMemoryError. `line` names the memory as in the plan.
  virtual void* allocate(int64_t bytes, const std::string& line) = 0;
  virtual void release(void* pointer) = 0;
  // False if the host reads and writes the memory and work is done when it was enqueued.
  virtual bool separate() const = 0;
  // A GPU's numbers; 0 for a CPU. A capability of 86 is 8.6.
  virtual int64_t multiprocessors() const { return 0; }
  virtual int64_t capability() const { return 0; }
  // True if forge's own tiles compute products of that type here, and if they compute all of them
  // (kernels/product/gemm_tiles.h).
  virtual bool tiles_work(Element) const { return false; }
  virtual bool tiles_pay(Element) const { return false; }
  // Allocates host memory that kernels read and write in place: on a GPU pinned, over PCIe. Throws
  // Error(environment).
  virtual void* allocate_on_host(int64_t bytes, const std::string& line) { return allocate(bytes, line); }
  virtual void release_on_host(void* pointer) { release(pointer); }
  // Enqueues a copy to or from such memory.
  virtual void store(void* on_host, const void* from, int64_t bytes, Stream stream) = 0;
  virtual void load(void* to, const void* on_host, int64_t bytes, Stream stream) = 0;
  // Tells the device that the host is about to read the memory, or also to write it. The host has
  // waited for the work enqueued on it.
  virtual void host_touches(const void* /*pointer*/, int64_t /*bytes*/, bool /*writes*/) {}
  // Tells the device that LibTorch enqueues work on its stream that reads or writes these rows.
  virtual void library_touches(const void* /*rows*/, int64_t /*count*/, int64_t /*bytes*/, int64_t /*stride_bytes*/, bool /*writes*/) {}

  // ---- Order. A device whose work is done when it was enqueued has nothing to wait for.
  virtual CudaStream native(Stream) const { return nullptr; }
  virtual Event new_event() { return {}; }
  virtual void record(Event, Stream) {}
  virtual void wait(Stream, Event) {}
  virtual void synchronize(Stream) {}
  virtual void clear(void* at, int64_t bytes, Stream stream = Stream::compute) = 0;
  // Enqueues a copy from the host's memory, which may change afterwards.
  virtual void write(void* to, const void* host, int64_t bytes, Stream stream = Stream::compute) = 0;
  // Copies to the host. Waits for all work enqueued before.
  virtual void read(void* host, const void* from, int64_t bytes, Stream stream = Stream::compute) = 0;

  // Enqueues a copy of the memory's content at that point of the stream; the memory may change
  // afterwards.
  virtual std::shared_ptr<Fetched> fetch(const void* from, int64_t bytes, Stream stream = Stream::compute) = 0;

  // ---- Time. Marks the point after all work enqueued so far, outside of a capture; on a CPU the
  // time of the call.
  virtual Moment mark() = 0;
  // Returns the seconds that the device took from one moment to the other; waits for the second.
  virtual double seconds(Moment from, Moment to) = 0;
  // Invalidates every moment so far.
  virtual void forget_moments() {}

  // ---- Captures the work that `work` enqueues on the compute stream; it may not wait, allocate,
  // read or write. Another stream takes part once it waits for an event that was recorded in the
  // capture, and the compute stream must wait for it at last. Throws where that is refused.
  virtual std::unique_ptr<Captured> capture(const std::function<void()>& work) = 0;
  virtual void replay(const Captured& captured) = 0;

  // Keeps a message for the user of the device. Each text is kept once.
  void say_once(const std::string& text) {
    if (said_.insert(text).second) sayings_.push_back(text);
  }
  std::vector<std::string> take_sayings() { return std::exchange(sayings_, {}); }

 private:
  template <class Args>
  const DeviceOp<Args>& op() const {
    return ops_.row<Args>();
  }
  [[noreturn]] static void missing() { FORGE_CHECK(false, "an op that this device does not have"); }

  const DeviceOps& ops_;
  std::set<std::string> said_;
  std::vector<std::string> sayings_;
};

// ComputeDevice memory with an owner.
template <auto kAllocate, auto kRelease>
class OwnedBlock {
 public:
  OwnedBlock() = default;
  OwnedBlock(ComputeDevice& device, int64_t bytes, const std::string& line)
      : device_(&device), begin_(bytes > 0 ? (device.*kAllocate)(bytes, line) : nullptr), bytes_(bytes) {}
  ~OwnedBlock() { reset(); }
  OwnedBlock(OwnedBlock&& other) noexcept { *this = std::move(other); }
  OwnedBlock& operator=(OwnedBlock&& other) noexcept {
    std::swap(device_, other.device_), std::swap(begin_, other.begin_), std::swap(bytes_, other.bytes_);
    return *this;
  }

  void reset() {
    if (begin_) (device_->*kRelease)(begin_);
    begin_ = nullptr, bytes_ = 0;
  }
  template <class T = char>
  T* as() const {
    return static_cast<T*>(begin_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  ComputeDevice* device_ = nullptr;
  void* begin_ = nullptr;
  int64_t bytes_ = 0;
};
using DeviceBlock = OwnedBlock<&ComputeDevice::allocate, &ComputeDevice::release>;
using HostBlock = OwnedBlock<&ComputeDevice::allocate_on_host, &ComputeDevice::release_on_host>;

ComputeDevice& cpu_device();

}  // namespace forge
