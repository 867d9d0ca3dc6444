#pragma once
// Gradient norm in one launch, AdamW and Lion in one more, the loss scale. Four neighbours a thread: 16 bytes
// of fp32.
#include "kernels/optimizer/optimizer_args.cuh"

namespace forge {

struct NormArgs {
  Global<const float> grad;
  Global<double> partial;
  Global<uint32_t> finished;
  Global<float> norm;
  int64_t count;
};

// Squares are added in fp64: a sum over millions of elements keeps all its digits, and the order is fixed.
// The block that finishes last adds the blocks' sums, so no second launch is needed.
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
  *a.norm = static_cast<float>(sqrt(sum));
  *a.finished = 0u;
}

template <class C>
struct UpdateWithCast {
  UpdateArgs a;
  Global<C> cast;
};

struct AdamW {
  static constexpr bool kSecond = true;
  __device__ __forceinline__ static void apply(const UpdateArgs& a, const UpdateScalars& s,
                                               const UpdateRange& range, float g, float& p, float& m,
                                               float& v) {
    const float rate = s.learning_rate * range.rate_factor;
    p -= rate * range.weight_decay * p;
    m += (1 - a.beta1) * (g - m);
    v = a.beta2 * v + (1 - a.beta2) * g * g;
    p -= rate / s.correction1 * m / (__fsqrt_rn(v) / __fsqrt_rn(s.correction2) + a.eps);
  }
};

struct Lion {
  static constexpr bool kSecond = false;
  __device__ __forceinline__ static void apply(const UpdateArgs& a, const UpdateScalars& s,
                                               const UpdateRange& range, float g, float& p, float& m,
                                               float&) {
    const float rate = s.learning_rate * range.rate_factor, direction = a.beta1 * m + (1 - a.beta1) * g;
    p -= rate * range.weight_decay * p;
    p -= direction > 0 ? rate : direction < 0 ? -rate : 0.0f;
    m = a.beta2 * m + (1 - a.beta2) * g;
  }
};

template <class Rule, class C, int N>
__global__ void __launch_bounds__(256) update_kernel(UpdateWithCast<C> args) {
  const UpdateArgs& a = args.a;
  const UpdateScalars s = *a.scalars;
  const StepScale scale = step_scale(*a.norm, s);
  if (scale.skip) return;
  RangeCursor cursor(a);
  const int64_t step = int64_t(gridDim.x) * blockDim.x * N;
  for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < a.count; i += step) {
    const Vector<float, N> g = load_vector<N>(a.grad + i);
    Vector<float, N> p = load_vector<N>(a.master + i), m = load_vector<N>(a.m + i), v{};
    if (Rule::kSecond) v = load_vector<N>(a.v + i);
    Vector<C, N> cast;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      Rule::apply(a, s, cursor.at(a, i + k), g[k] * scale.grad, p[k], m[k], v[k]);
      cast[k] = narrow<C>(p[k]);
    }
    store_vector<N>(a.master + i, p);
    store_vector<N>(a.m + i, m);
    if (Rule::kSecond) store_vector<N>(a.v + i, v);
    if (args.cast != nullptr) store_vector<N>(args.cast + i, cast);
  }
}

template <int N>
__global__ void __launch_bounds__(256)
    unscale_kernel(Global<float> grad, int64_t count, Global<const float> scale, Global<int32_t> found_inf) {
  const float inverse = 1.0f / *scale;
  const int64_t step = int64_t(gridDim.x) * blockDim.x * N;
  bool bad = false;
  for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < count; i += step) {
    Vector<float, N> g = load_vector<N>(grad + i);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      g[k] *= inverse;
      bad = bad || !is_finite(g[k]);
    }
    store_vector<N>(grad + i, g);
  }
  if (bad) atomicOr(found_inf, 1);
}

__global__ void loss_scale_kernel(Global<float> scale, Global<int32_t> good_steps, Global<int32_t> found_inf,
                                  int32_t interval) {
  const bool bad = *found_inf != 0;
  const int32_t good = bad ? 0 : *good_steps + 1;
  if (bad)
    *scale = *scale * 0.5f;
  else if (good == interval)
    *scale = *scale * 2.0f;
  *good_steps = good == interval ? 0 : good;
  *found_inf = 0;
}

}  // namespace forge
