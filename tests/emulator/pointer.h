#pragma once
// A pointer of an emulated kernel: a raw address that knows its allocation and checks every access.
// Kernels name it Global<T> or Shared<T>; nvcc sees plain pointers there.
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "tests/emulator/grid.h"

namespace forge::emulator {

template <class T>
T checked_load(Allocation* allocation, const T* address) {
  check_access(allocation, address, sizeof(T), alignof(T), /*writes=*/false, /*atomic=*/false);
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

template <class T>
void checked_store(Allocation* allocation, T* address, const T& value) {
  check_access(allocation, address, sizeof(T), alignof(T), /*writes=*/true, /*atomic=*/false);
  std::memcpy(address, &value, sizeof value);
}

// The result of an index or a dereference: reading and storing are different accesses.
template <class T>
class Reference {
 public:
  using Value = std::remove_const_t<T>;
  Reference(Allocation* allocation, T* address) : allocation_(allocation), address_(address) {}
  Reference(const Reference&) = default;
  operator Value() const { return checked_load<Value>(allocation_, address_); }
  const Reference& operator=(const Value& value) const {
    checked_store<Value>(allocation_, address_, value);
    return *this;
  }
  const Reference& operator=(const Reference& other) const { return *this = static_cast<Value>(other); }
  const Reference& operator+=(const Value& value) const { return *this = static_cast<Value>(*this) + value; }
  const Reference& operator-=(const Value& value) const { return *this = static_cast<Value>(*this) - value; }
  const Reference& operator*=(const Value& value) const { return *this = static_cast<Value>(*this) * value; }

 private:
  Allocation* allocation_;
  T* address_;
};

template <class T>
class Pointer {
 public:
  using Value = std::remove_const_t<T>;
  Pointer() = default;
  Pointer(std::nullptr_t) {}
  // Finds the allocation of an address that a launcher was given.
  Pointer(T* address) : address_(address) {
    if (address == nullptr) return;
    allocation_ = find_allocation(address);
    if (allocation_ == nullptr) fault("a kernel was handed a pointer that is not device memory");
  }
  Pointer(T* address, Allocation* allocation) : address_(address), allocation_(allocation) {}
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T> && !std::is_same_v<U, T>>>
  Pointer(const Pointer<U>& other) : address_(other.address()), allocation_(other.allocation()) {}

  T* address() const { return address_; }
  Allocation* allocation() const { return allocation_; }
  Reference<T> operator*() const { return {allocation_, address_}; }
  template <class Index>
  Reference<T> operator[](Index i) const {
    return {allocation_, address_ + i};
  }
  template <class Index>
  Pointer operator+(Index i) const {
    return {address_ + i, allocation_};
  }
  template <class Index>
  Pointer operator-(Index i) const {
    return {address_ - i, allocation_};
  }
  template <class Index>
  Pointer& operator+=(Index i) {
    address_ += i;
    return *this;
  }
  bool operator==(const Pointer& other) const { return address_ == other.address_; }
  bool operator!=(const Pointer& other) const { return address_ != other.address_; }
  explicit operator bool() const { return address_ != nullptr; }

 private:
  T* address_ = nullptr;
  Allocation* allocation_ = nullptr;
};

// Reads, changes and writes as one access. Returns the old value.
template <class T, class Change>
T atomic_update(Pointer<T> pointer, Change change) {
  check_access(pointer.allocation(), pointer.address(), sizeof(T), alignof(T), /*writes=*/false,
               /*atomic=*/true);
  check_access(pointer.allocation(), pointer.address(), sizeof(T), alignof(T), /*writes=*/true,
               /*atomic=*/true);
  T old = *pointer.address();
  *pointer.address() = change(old);
  return old;
}

}  // namespace forge::emulator
