#pragma once
// Rows moved, added, scaled, summed and converted on a GPU; shapes and bytes as in rows_args.h.
// Sums are in a fixed order.
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/rows/rows_args.h"

namespace forge {

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
