#pragma once
// Gradient norm in one launch, AdamW and Lion in one more, the loss scale. Four neighbours a
// thread: 16 bytes of fp32.
#include "kernels/optimizer/update.cuh"

namespace forge {

struct NormArgs {
  Global<const float> grad;
  Global<double> partial;
  Global<uint32_t> finished;  // zero before; counts blocks
  Global<float> verdict;
  int64_t count;
  Global<const float> unscale;
  float max_norm;
};

// Squares are added in fp64, in a fixed order. The block that finishes last adds the blocks' sums
// and writes the verdict, so no second launch is needed.
template <int N>
__global__ void __launch_bounds__(256) norm_kernel(NormArgs a) {
  FORGE_SHARED(double, scratch, kWarp);
  FORGE_SHARED(int, last, 1);
  const int64_t step = int64_t(gridDim.x) * blockDim.x * N;
  double sum = 0;
  for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < a.count; i += step) {
    const Vector<float, N> g = load_vector<N>(a.grad + i);
    float part = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) part += g[k] * g[k];
    sum += part;
  }
  sum = reduce_block(sum, 0.0, Sum(), scratch);
  if (threadIdx.x == 0) {
    a.partial[blockIdx.x] = sum;
    __threadfence();
    last[0] = atomicAdd(a.finished, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last[0]) return;
  __threadfence();
  sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += a.partial[i];
  sum = reduce_block(sum, 0.0, Sum(), scratch);
  if (threadIdx.x != 0) return;
  const float norm = static_cast<float>(sqrt(sum) * a.unscale[0]);
  float clip = 1;
  if (a.max_norm > 0) clip = fminf(1.0f, a.max_norm / (norm + 1e-6f));
  a.verdict[0] = norm;
  a.verdict[1] = a.unscale[0] * clip;
  a.verdict[2] = is_finite(norm) ? 1.0f : 0.0f;
}

template <class C>
struct UpdateWithCopy {
  UpdateArgs a;
  Global<C> copy;
};

struct AdamWRule {
  static constexpr bool kSquare = true;
  __device__ __forceinline__ static void apply(const UpdateRates& r, float g, float& weight, float& mean,
                                               float& square) {
    mean += r.one_beta1 * (g - mean);
    square = r.beta2 * square + r.one_beta2 * g * g;
    weight = stepped(r, weight, mean, square);
  }
};

struct LionRule {
  static constexpr bool kSquare = false;
  __device__ __forceinline__ static void apply(const UpdateRates& r, float g, float& weight, float& mean,
                                               float&) {
    const float direction = r.beta1 * mean + r.one_beta1 * g;
    weight = weight * r.decay - (direction > 0 ? r.lr : direction < 0 ? -r.lr : 0.0f);
    mean = r.beta2 * mean + r.one_beta2 * g;
  }
};

template <class Rule, class C, int N>
__global__ void __launch_bounds__(256) update_kernel(UpdateWithCopy<C> args) {
  const UpdateArgs& a = args.a;
  if (a.verdict[2] == 0) return;
  const float scale = a.verdict[1];
  RatesCursor<true> cursor(a);
  const int64_t step = int64_t(gridDim.x) * blockDim.x * N;
  for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < a.count; i += step) {
    const Vector<float, N> g = load_vector<N>(a.grad + i);
    Vector<float, N> weight = load_vector<N>(a.weight + i), mean = load_vector<N>(a.mean + i), square{};
    if (Rule::kSquare) square = load_vector<N>(a.square + i);
    Vector<C, N> copy;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      Rule::apply(cursor.at(a, i + k), g[k] * scale, weight[k], mean[k], square[k]);
      copy[k] = narrow<C>(weight[k]);
    }
    store_vector<N>(a.weight + i, weight);
    store_vector<N>(a.mean + i, mean);
    if (Rule::kSquare) store_vector<N>(a.square + i, square);
    if (args.copy != nullptr) store_vector<N>(args.copy + i, copy);
  }
}

}  // namespace forge
