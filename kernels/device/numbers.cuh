#pragma once
// Element types of device memory. Kernels load them, compute in fp32 and store them rounded once;
// the operators are for code that must round after every operation.
//
// The 16-bit types are forge's own structs with three conversions in PTX: NVRTC then needs no
// header of the toolkit, and the emulator's twin is bit-equal.
#include "device_model.cuh"

namespace forge {

struct bf16 {
  uint16_t bits;
};
struct fp16 {
  uint16_t bits;
};

__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ float widen(bf16 value) { return __uint_as_float(uint32_t(value.bits) << 16); }
__device__ __forceinline__ float widen(fp16 value) { return fp16_value(value.bits); }

template <class T>
__device__ __forceinline__ T narrow(float value);
template <>
__device__ __forceinline__ float narrow<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ bf16 narrow<bf16>(float value) {
  return {bf16_bits(value)};
}
template <>
__device__ __forceinline__ fp16 narrow<fp16>(float value) {
  return {fp16_bits(value)};
}

// The value after a round trip through T.
template <class T>
__device__ __forceinline__ float rounded(float value) {
  return widen(narrow<T>(value));
}

#define FORGE_ROUNDED_OPERATORS(T)                                                            \
  __device__ __forceinline__ T operator+(T a, T b) { return narrow<T>(widen(a) + widen(b)); } \
  __device__ __forceinline__ T operator-(T a, T b) { return narrow<T>(widen(a) - widen(b)); } \
  __device__ __forceinline__ T operator*(T a, T b) { return narrow<T>(widen(a) * widen(b)); } \
  __device__ __forceinline__ T operator/(T a, T b) { return narrow<T>(widen(a) / widen(b)); } \
  __device__ __forceinline__ bool operator<(T a, T b) { return widen(a) < widen(b); }         \
  __device__ __forceinline__ bool operator==(T a, T b) { return widen(a) == widen(b); }
FORGE_ROUNDED_OPERATORS(bf16)
FORGE_ROUNDED_OPERATORS(fp16)
#undef FORGE_ROUNDED_OPERATORS

// N neighbours in one access: 16 bytes when N = 16 / sizeof(T), for the full rate of the memory.
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T values[N];
  __device__ __forceinline__ T& operator[](int i) { return values[i]; }
  __device__ __forceinline__ const T& operator[](int i) const { return values[i]; }
};

template <class T>
struct NotConst {
  using Type = T;
};
template <class T>
struct NotConst<const T> {
  using Type = T;
};

// Elements of the widest vector of T.
template <class T>
constexpr int kWidest = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ __forceinline__ Vector<typename NotConst<T>::Type, N> load_vector(Global<T> p) {
  return load_packed<Vector<typename NotConst<T>::Type, N>>(p);
}
template <int N, class T>
__device__ __forceinline__ void store_vector(Global<T> p, const Vector<T, N>& value) {
  store_packed<Vector<T, N>>(p, value);
}

// Calls visit(row, i) for the thread's part of a matrix in a launch of grid_of's shape: the N
// columns from i of some rows.
template <int N, class Visit>
__device__ __forceinline__ void each_vector(int64_t rows, int64_t width, Visit visit) {
  const int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (i >= width) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) visit(row, i);
}

}  // namespace forge
