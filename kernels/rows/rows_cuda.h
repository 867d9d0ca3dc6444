#pragma once
// Rows moved, added, scaled, summed and converted on a GPU; shapes and bytes as in rows_args.h.
// Sums are in a fixed order.
#include "kernels/device/launch.h"
#include "kernels/rows/rows_args.h"

namespace forge {

void copy_rows_cuda(const CopyRows& args, CudaStream stream);
void add_rows_cuda(const AddRows& args, CudaStream stream);
void scale_rows_cuda(const ScaleRows& args, CudaStream stream);
void regroup_heads_cuda(const RegroupHeads& args, CudaStream stream);
void sum_columns_cuda(const SumColumns& args, CudaStream stream);
void convert_elements_cuda(const ConvertElements& args, CudaStream stream);

}  // namespace forge
