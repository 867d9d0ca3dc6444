#pragma once
// Copies, sums and scaled rows on plain memory: the ops of a step between its products, besides
// norms, attention and gates.
//
//   CopyRows         y[to_i] = x[from_i]        gather with `from`, scatter with `to`, a bias to every row with x_stride 0
//   AddRows          y += x, or y = to + x      fp32 sum, rounded once
//   ScaleRows        y = c x, or y += c x       fp32, rounded once; c = 1 between two types is a cast
//   RegroupHeads     heads of q, k and v between rows in which they are group by group (the heads
//                    of q that share one of k and v, then these two) and rows in which all of q
//                    come before all of k and all of v
//   SumColumns       sum_j += Σ_i x_ij          fp32: the gradient of a bias
//   ConvertElements  y = x in another type      rounded once
//
// Beside an fp32 stream of rows in fp16, one of the operands is fp16 and the others fp32. Strides
// are elements from row to row. Bytes: copy, scale and regroup 2, add 3, sum 1 pass of rows · width
// elements.
#include <cstdint>
#include <optional>

#include "kernels/common/element.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

struct CopyRows {
  int64_t element_bytes = 4;  // 2 or 4
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  const int64_t* from = nullptr;  // [rows] rows of x, or null: row i
  void* y = nullptr;              // may not meet x
  int64_t y_stride = 0;
  const int64_t* to = nullptr;  // [rows] rows of y, each at most once, or null: row i
};

struct AddRows {
  Element type = Element::f32;
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
  std::optional<Element> x_type;  // if it is not `type`: fp16 beside fp32
  const void* to = nullptr;       // of `type`: x is added to it; null: to y
  int64_t to_stride = 0;
};

struct ScaleRows {
  Element type = Element::f32;
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;  // may be x
  int64_t y_stride = 0;
  float factor = 1;
  bool accumulate = false;  // adds to y
  // The type of x if it is not `type`: fp16 beside fp32 or fp32 beside fp16. Then y may not be x.
  std::optional<Element> x_type;
};

struct RegroupHeads {
  int64_t element_bytes = 4;  // 2 or 4
  int64_t rows = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool to_groups = false;  // from rows in which the heads are apart
  const void* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;  // may not meet x
  int64_t y_stride = 0;
};

struct SumColumns {
  Element type = Element::f32;
  int64_t rows = 0, width = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  float* sum = nullptr;  // [width], added to
};

struct ConvertElements {
  Element from = Element::f32, to = Element::f32;
  int64_t count = 0;
  const void* x = nullptr;
  void* y = nullptr;
};

void copy_rows_cpu(const CopyRows& args);
void add_rows_cpu(const AddRows& args);
void scale_rows_cpu(const ScaleRows& args);
void regroup_heads_cpu(const RegroupHeads& args);
void sum_columns_cpu(const SumColumns& args);
void convert_elements_cpu(const ConvertElements& args);

// ---- on a GPU
//
// Sums are in a fixed order.

void copy_rows_cuda(const CopyRows& args, CudaStream stream);
void add_rows_cuda(const AddRows& args, CudaStream stream);
void scale_rows_cuda(const ScaleRows& args, CudaStream stream);
void regroup_heads_cuda(const RegroupHeads& args, CudaStream stream);
void sum_columns_cuda(const SumColumns& args, CudaStream stream);
void convert_elements_cuda(const ConvertElements& args, CudaStream stream);

inline GpuLaunches launches(const CopyRows& a) {
  const double rows = static_cast<double>(a.element_bytes) * static_cast<double>(a.rows) * static_cast<double>(a.width);
  return {{"copy_rows", (a.x_stride == 0 ? 1 : 2) * rows}};  // one row that is copied to all stays in a cache
}
inline GpuLaunches launches(const AddRows& a) {
  return {{"add_rows", 2 * matrix_bytes(a.type, a.rows, a.width) + matrix_bytes(a.x_type.value_or(a.type), a.rows, a.width)}};
}
inline GpuLaunches launches(const ScaleRows& a) {
  return {{"scale_rows", (a.accumulate ? 2 : 1) * matrix_bytes(a.type, a.rows, a.width) +
                             matrix_bytes(a.x_type.value_or(a.type), a.rows, a.width)}};
}
inline GpuLaunches launches(const RegroupHeads& a) {
  const double width = static_cast<double>(a.heads + 2 * a.kv_heads) * static_cast<double>(a.head_dim);
  return {{"regroup_heads", 2 * static_cast<double>(a.element_bytes) * static_cast<double>(a.rows) * width}};
}
inline GpuLaunches launches(const SumColumns& a) { return {{"sum_columns", matrix_bytes(a.type, a.rows, a.width)}}; }
inline GpuLaunches launches(const ConvertElements& a) {
  const double bytes = matrix_bytes(a.from, a.count) + matrix_bytes(a.to, a.count);
  return {{"convert", bytes, is_of_module(a.x) ? bytes : 0}};
}

}  // namespace forge
