#pragma once
// Turns run-time values into template arguments: launchers name their kernel once, and the
// instantiations are those of instantiations.txt of an op.
#include <initializer_list>

#include "core/lib/base/ceil_div.h"
#include "kernels/common/element.h"
#include "kernels/device/numbers.cuh"

namespace forge {

// A type as a value.
template <class T>
struct Type {
  using type = T;
};

// Returns memory as elements of T, const where it was.
template <class T>
const T* as(const void* memory) {
  return static_cast<const T*>(memory);
}
template <class T>
T* as(void* memory) {
  return static_cast<T*>(memory);
}

// Calls action(Type<float>{}), or action with the type of bf16 or fp16.
template <class Action>
void dispatch_element(Element type, Action action) {
  if (type == Element::f32)
    action(Type<float>{});
  else if (type == Element::bf16)
    action(Type<bf16>{});
  else
    action(Type<fp16>{});
}

// Calls action(Type<uint32_t>{}) or action(Type<uint16_t>{}): the bits of an element of that many
// bytes.
template <class Action>
void dispatch_bits(int64_t element_bytes, Action action) {
  if (element_bytes == 4)
    action(Type<uint32_t>{});
  else
    action(Type<uint16_t>{});
}

// Calls action(the operands' type, the stream's): one type, or fp16 beside an fp32 stream.
template <class Action>
void dispatch_narrow(Element type, Element stream, Action action) {
  if (type == Element::f16 && stream == Element::f32) return action(Type<fp16>{}, Type<float>{});
  dispatch_element(type, [&](auto same) { action(same, same); });
}

template <int N>
struct Width {
  static constexpr int value = N;
};

// True if all addresses and strides (in elements) allow accesses of 16 bytes.
template <class T>
bool sixteen_byte(std::initializer_list<const void*> pointers,
                  std::initializer_list<int64_t> element_counts) {
  for (const void* pointer : pointers)
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return false;
  for (int64_t count : element_counts)
    if (count % kWidest<T> != 0) return false;
  return true;
}

// Calls action(Width<kWide>{}), by default Width<16 / sizeof(T)>{}, if wide, otherwise
// action(Width<1>{}).
template <class T, int kWide = kWidest<T>, class Action>
void dispatch_width(bool wide, Action action) {
  if (wide)
    action(Width<kWide>{});
  else
    action(Width<1>{});
}

// Returns the threads for a row of `items`: whole warps, no more than are busy, at most `limit`.
inline unsigned threads_for(int64_t items, int64_t limit) {
  int64_t warps = ceil_div(items, 32);
  return static_cast<unsigned>(32 * (warps < 1 ? 1 : warps > limit / 32 ? limit / 32 : warps));
}

// Returns a grid with a block for a stretch of columns (x) of some rows (y). Blocks have 256
// threads: several blocks a multiprocessor hide the latency of the loads, and short rows waste few
// lanes.
inline LaunchShape grid_of(int64_t rows, int64_t width, int vector) {
  const int64_t vectors = ceil_div(width, vector);
  const unsigned threads = threads_for(vectors, 256);
  return {static_cast<unsigned>(ceil_div(vectors, threads)), threads, 0,
          static_cast<unsigned>(rows < 65535 ? rows : 65535)};
}

}  // namespace forge
