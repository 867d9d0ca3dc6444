#pragma once
// Sums over rows, by columns: the gradients of norms' weights. Sizes alone decide the order of
// additions. A block takes 32 columns (blockIdx.x) and a stretch of the rows (blockIdx.y), of which
// warp w adds rows w, w + 8, …, and the warps are added in order; column_totals_kernel adds the
// stretches in order. column_sums.h gives the number of stretches.
#include "kernels/device/reduce.cuh"

namespace forge {

constexpr int kColumnWarps = 8;

// term(row, column, sums) adds to the kSums numbers of a column. partial [stretches, kSums, width];
// `part` holds kSums values a thread. All threads must call.
template <int kSums, class Term>
__device__ __forceinline__ void column_partials(int64_t rows, int64_t width, Global<float> partial,
                                                Shared<float> part, Term term) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = int64_t(blockIdx.x) * kWarp + lane;
  const int64_t each = (rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * each;
  const int64_t end = begin + each < rows ? begin + each : rows;
  float sums[kSums] = {};
  if (column < width)
    for (int64_t row = begin + warp; row < end; row += kColumnWarps) term(row, column, sums);
#pragma unroll
  for (int k = 0; k < kSums; ++k) part[k * kColumnWarps * kWarp + threadIdx.x] = sums[k];
  __syncthreads();
  if (warp >= kSums || column >= width) return;
  float sum = 0;
  for (int w = 0; w < kColumnWarps; ++w) sum += part[(warp * kColumnWarps + w) * kWarp + lane];
  partial[(int64_t(blockIdx.y) * kSums + warp) * width + column] = sum;
}

// Adds the totals to `first` and `second`, either of which may be null.
template <int kSums>
__global__ void __launch_bounds__(256)
    column_totals_kernel(Global<const float> partial, int64_t stretches, int64_t width, Global<float> first,
                         Global<float> second) {
  const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= width) return;
  for (int k = 0; k < kSums; ++k) {
    const Global<float> total = k == 0 ? first : second;
    if (total == nullptr) continue;
    float sum = 0;
    for (int64_t stretch = 0; stretch < stretches; ++stretch)
      sum += partial[(stretch * kSums + k) * width + column];
    total[column] += sum;
  }
}

}  // namespace forge
