#pragma once
// Device memory with a lifetime, for tests: DeviceBuffer<float> x({1, 2, 3}, "x").
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/device/memory.h"
#include "tests/emulator/memory.h"

namespace forge {

template <class T>
class DeviceBuffer {
 public:
  // Makes an output: reading it before it is written is a fault.
  explicit DeviceBuffer(size_t count, const std::string& name = "output", size_t misalign = 0)
      : count_(count), pointer_(static_cast<T*>(device_allocate(count * sizeof(T), name, misalign))) {}
  explicit DeviceBuffer(const std::vector<T>& values, const std::string& name = "input", size_t misalign = 0)
      : DeviceBuffer(values.size(), name, misalign) {
    copy_to_device(pointer_, values.data(), values.size() * sizeof(T));
  }
  ~DeviceBuffer() { device_release(pointer_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  T* get() const { return pointer_; }
  size_t size() const { return count_; }
  // Returns the values. Every byte must have been written, and none around them.
  std::vector<T> read() const {
    device_synchronise();
    emulator::check_guards(pointer_);
    int64_t unwritten = emulator::first_unwritten(pointer_);
    if (unwritten >= 0)
      throw std::runtime_error("element " + std::to_string(unwritten / static_cast<int64_t>(sizeof(T))) +
                               " was never written");
    std::vector<T> values(count_);
    copy_from_device(values.data(), pointer_, count_ * sizeof(T));
    return values;
  }

 private:
  size_t count_;
  T* pointer_;
};

}  // namespace forge
