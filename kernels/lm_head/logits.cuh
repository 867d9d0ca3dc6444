#pragma once
// One block a position: an online pass for maximum and sums, and a second pass that turns the
// logits into their gradient.
#include "kernels/device/reduce.cuh"

namespace forge {

template <class T>
struct LogitsArgs {
  Global<T> logits;
  Global<const int64_t> targets;
  Global<float> logp, logsumexp, mean_logit, entropy, loss;
  Global<const float> loss_weight, g_logp, g_logsumexp, g_mean_logit, g_entropy;
  int64_t vocab, stride;
  float inverse_temperature, softcap, label_smoothing, z_loss;
  int gradient;
};

// fp32 logits deserve the exact exponential; for 16-bit ones the fast one is far below their
// rounding.
template <class T>
__device__ __forceinline__ float exponential(float x) {
  return __expf(x);
}
template <>
__device__ __forceinline__ float exponential<float>(float x) {
  return expf(x);
}

// Sums of exp(z − largest), z exp(z − largest) and z over the logits that a thread has read.
struct RunningSums {
  float largest, total, weighted, plain;
};

template <class T>
__device__ __forceinline__ float scaled_logit(const LogitsArgs<T>& a, float x) {
  if (a.softcap > 0) x = a.softcap * tanhf(x / a.softcap);
  return x * a.inverse_temperature;
}

template <class T, int N>
__device__ __forceinline__ void add_logits(const LogitsArgs<T>& a, const Vector<T, N>& x, RunningSums& sums) {
  float z[N], largest = sums.largest;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    z[k] = scaled_logit(a, widen(x[k]));
    largest = Maximum()(largest, z[k]);
    sums.plain += z[k];
  }
  const float shrink = exponential<T>(sums.largest - largest);
  sums.total *= shrink;
  sums.weighted *= shrink;
  sums.largest = largest;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float e = exponential<T>(z[k] - largest);
    sums.total += e;
    if (e != 0) sums.weighted += z[k] * e;  // a logit of −∞ has no part in it
  }
}

// The coefficients of d z's terms.
struct LogitCoefficients {
  float target, probability, constant, entropy;
};

template <class T>
__device__ __forceinline__ LogitCoefficients coefficients_of(const LogitsArgs<T>& a, int64_t row, float lse) {
  auto at = [&](Global<const float> g) { return g != nullptr ? static_cast<float>(g[row]) : 0.0f; };
  const float w = at(a.loss_weight), smooth = a.label_smoothing;
  const float g_logp = at(a.g_logp) - w * (1 - smooth);
  const float g_lse = at(a.g_logsumexp) + w * (smooth + 2 * a.z_loss * lse);
  const float g_mean = at(a.g_mean_logit) - w * smooth;
  return {g_logp, g_lse - g_logp, g_mean / static_cast<float>(a.vocab), -at(a.g_entropy)};
}

template <class T, int N>
__device__ __forceinline__ Vector<T, N> logit_gradient(const LogitsArgs<T>& a, const Vector<T, N>& x,
                                                       int64_t first, int64_t target,
                                                       const LogitCoefficients& c, float lse,
                                                       float expected) {
  Vector<T, N> result;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    float slope = a.inverse_temperature;
    const float raw = widen(x[k]), z = scaled_logit(a, raw);
    if (a.softcap > 0) {
      const float t = tanhf(raw / a.softcap);
      slope *= 1 - t * t;
    }
    const float p = exponential<T>(z - lse);
    float d = c.probability * p + c.constant;
    if (c.entropy != 0 && p != 0) d += c.entropy * (z - expected) * p;
    if (first + k == target) d += c.target;
    result[k] = narrow<T>(d * slope);
  }
  return result;
}

template <class T>
__device__ __forceinline__ void store_outputs(const LogitsArgs<T>& a, int64_t row, float z_target, float lse,
                                              float mean, float expected) {
  const float logp = z_target - lse, smooth = a.label_smoothing;
  if (a.logp != nullptr) a.logp[row] = logp;
  if (a.logsumexp != nullptr) a.logsumexp[row] = lse;
  if (a.mean_logit != nullptr) a.mean_logit[row] = mean;
  if (a.entropy != nullptr) a.entropy[row] = lse - expected;
  float loss = -(1 - smooth) * logp + a.z_loss * lse * lse;
  if (smooth != 0) loss -= smooth * (mean - lse);
  if (a.loss != nullptr) a.loss[row] = loss;
}

// Writes zeros for a position that has no target.
template <class T, int N>
__device__ __forceinline__ void leave_out(const LogitsArgs<T>& a, int64_t row, Global<T> x) {
  if (threadIdx.x == 0) {
    auto zero = [&](Global<float> out) {
      if (out != nullptr) out[row] = 0.0f;
    };
    zero(a.logp), zero(a.logsumexp), zero(a.mean_logit), zero(a.entropy), zero(a.loss);
  }
  if (!a.gradient) return;
  const Vector<T, N> nothing{};
  for (int64_t i = int64_t(threadIdx.x) * N; i < a.vocab; i += int64_t(blockDim.x) * N)
    store_vector<N>(x + i, nothing);
}

template <class T, int N>
__global__ void __launch_bounds__(1024) logits_kernel(LogitsArgs<T> a) {
  FORGE_SHARED(float, scratch, kWarp);
  const int64_t row = blockIdx.x, first = int64_t(threadIdx.x) * N, step = int64_t(blockDim.x) * N;
  const Global<T> x = a.logits + row * a.stride;
  const int64_t target = a.targets[row];
  if (target < 0) return leave_out<T, N>(a, row, x);
  RunningSums sums{-3.402823466e38f, 0, 0, 0};
  for (int64_t i = first; i < a.vocab; i += step) add_logits<T, N>(a, load_vector<N>(x + i), sums);
  const float z_target = scaled_logit(a, widen(x[target]));
  const float largest = reduce_block(sums.largest, -3.402823466e38f, Maximum(), scratch);
  const float shrink = exponential<T>(sums.largest - largest);
  const float total = reduce_block(sums.total * shrink, 0.0f, Sum(), scratch);
  const float expected = reduce_block(sums.weighted * shrink, 0.0f, Sum(), scratch) / total;
  const float mean = reduce_block(sums.plain, 0.0f, Sum(), scratch) / static_cast<float>(a.vocab);
  const float lse = largest + logf(total);
  if (threadIdx.x == 0) store_outputs(a, row, z_target, lse, mean, expected);
  if (!a.gradient) return;
  // The reductions' barriers separate the last read of x[target] from the first store.
  const LogitCoefficients c = coefficients_of(a, row, lse);
  for (int64_t i = first; i < a.vocab; i += step)
    store_vector<N>(x + i, logit_gradient<T, N>(a, load_vector<N>(x + i), i, target, c, lse, expected));
}

}  // namespace forge
