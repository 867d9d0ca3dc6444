// Copies are memcpy; additions and conversions are LibTorch's, whose loops are as fast as memory.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/each_row.h"
#include "kernels/device/gemm_tensors.h"
#include "kernels/rows/rows_args.h"

namespace forge {
namespace {

constexpr int64_t kRowsAtOnce = 64;

at::Tensor borrowed(const void* data, int64_t rows, int64_t width, int64_t stride, Element type) {
  return at::from_blob(const_cast<void*>(data), {rows, width}, {stride, 1}, at::TensorOptions().dtype(scalar_of(type)));
}

// LibTorch rounds the factor to a 16-bit type if rows are dense, and only then.
template <class X, class T>
void scale_rows(const ScaleRows& a) {
  each_row(a.rows, kRowsAtOnce, [&](int64_t row) {
    const X* x = static_cast<const X*>(a.x) + row * a.x_stride;
    T* y = static_cast<T*>(a.y) + row * a.y_stride;
    for (int64_t i = 0; i < a.width; ++i)
      from_float(to_float(x[i]) * a.factor + (a.accumulate ? to_float(y[i]) : 0.0f), y[i]);
  });
}

// Adds rows of two types. LibTorch would allocate a second copy of the narrow operand.
void add_narrow_rows(const AddRows& a) {
  const void* to = a.to ? a.to : a.y;
  const int64_t to_stride = a.to ? a.to_stride : a.y_stride;
  each_row(a.rows, kRowsAtOnce, [&](int64_t row) {
    const F16* x = row_of<F16>(a.x, row, a.x_stride);
    const float* before = row_of<float>(to, row, to_stride);
    float* y = row_of<float>(a.y, row, a.y_stride);
    for (int64_t i = 0; i < a.width; ++i) y[i] = before[i] + to_float(x[i]);
  });
}

}  // namespace

void copy_rows_cpu(const CopyRows& a) {
  const auto bytes = static_cast<size_t>(a.width * a.element_bytes);
  const auto* x = static_cast<const char*>(a.x);
  auto* y = static_cast<char*>(a.y);
  each_row(a.rows, kRowsAtOnce, [&](int64_t i) {
    std::memcpy(y + (a.to ? a.to[i] : i) * a.y_stride * a.element_bytes,
                x + (a.from ? a.from[i] : i) * a.x_stride * a.element_bytes, bytes);
  });
}

void add_rows_cpu(const AddRows& a) {
  c10::NoGradGuard no_grad;
  if (a.x_type.value_or(a.type) != a.type) return add_narrow_rows(a);
  at::Tensor y = borrowed(a.y, a.rows, a.width, a.y_stride, a.type);
  const at::Tensor x = borrowed(a.x, a.rows, a.width, a.x_stride, a.type);
  if (a.to)
    at::add_out(y, borrowed(a.to, a.rows, a.width, a.to_stride, a.type), x);
  else
    y.add_(x);
}

void scale_rows_cpu(const ScaleRows& a) {
  const Element x_type = a.x_type.value_or(a.type);
  if (x_type == Element::f32 && a.type == Element::f16) return scale_rows<float, F16>(a);
  if (x_type == Element::f16 && a.type == Element::f32) return scale_rows<F16, float>(a);
  of_type(a.type, [&](auto zero) { scale_rows<decltype(zero), decltype(zero)>(a); });
}

void regroup_heads_cpu(const RegroupHeads& a) {
  const int64_t shared = a.heads / a.kv_heads, bytes = a.head_dim * a.element_bytes;
  const auto* x = static_cast<const char*>(a.x);
  auto* y = static_cast<char*>(a.y);
  each_row(a.rows, kRowsAtOnce, [&](int64_t row) {
    for (int64_t group = 0, grouped = 0; group < a.kv_heads; ++group)
      for (int64_t i = 0; i < shared + 2; ++i, ++grouped) {
        const int64_t apart = i < shared ? group * shared + i : a.heads + (i - shared) * a.kv_heads + group;
        std::memcpy(y + row * a.y_stride * a.element_bytes + (a.to_groups ? grouped : apart) * bytes,
                    x + row * a.x_stride * a.element_bytes + (a.to_groups ? apart : grouped) * bytes,
                    static_cast<size_t>(bytes));
      }
  });
}

namespace {

// Columns that are added at once, so that a row's part of them is one or two cache lines. Sums are
// in double, since rows may be many.
constexpr int64_t kColumns = 32;

template <class T>
void sum_columns(const SumColumns& a) {
  each_row((a.width + kColumns - 1) / kColumns, 1, [&](int64_t block) {
    const int64_t first = block * kColumns, count = std::min(kColumns, a.width - first);
    double sums[kColumns] = {};
    for (int64_t row = 0; row < a.rows; ++row) {
      const T* x = static_cast<const T*>(a.x) + row * a.x_stride + first;
      for (int64_t i = 0; i < count; ++i) sums[i] += to_float(x[i]);
    }
    for (int64_t i = 0; i < count; ++i) a.sum[first + i] += static_cast<float>(sums[i]);
  });
}

}  // namespace

void sum_columns_cpu(const SumColumns& a) {
  of_type(a.type, [&](auto zero) { sum_columns<decltype(zero)>(a); });
}

void convert_elements_cpu(const ConvertElements& a) {
  c10::NoGradGuard no_grad;
  borrowed(a.y, 1, a.count, a.count, a.to).copy_(borrowed(a.x, 1, a.count, a.count, a.from));
}

}  // namespace forge
