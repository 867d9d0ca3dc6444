#pragma once
// One block a row.
#include "kernels/device/philox.cuh"
#include "kernels/device/reduce.cuh"

namespace forge {

template <class T>
struct SamplingArgs {
  Global<const T> logits;
  Global<const uint64_t> streams, indices;
  Global<int64_t> tokens;
  Global<float> logp;
  int64_t vocab, stride, top_k;
  float inverse_temperature, top_p, min_p;
  uint64_t seed;
  int greedy;
};

// Returns a key that ascends with the numbers, so that bisecting it visits every float.
__device__ __forceinline__ uint32_t key_of(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

struct Minimum {
  __device__ __forceinline__ int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};
struct Larger {
  __device__ __forceinline__ float operator()(float a, float b) const { return a > b ? a : b; }
};

template <class T>
struct RowSampler {
  Global<const T> x;
  int64_t vocab;
  float inverse_temperature;
  float largest;  // of z
  Shared<double> scratch;

  // Returns a scaled logit. NaN counts as −∞: it is never drawn. + 0 turns −0 into 0, so that the
  // two are equal.
  __device__ __forceinline__ float z(int64_t i) const {
    const float value = widen(static_cast<T>(x[i])) * inverse_temperature + 0.0f;
    return value == value ? value : -__uint_as_float(0x7F800000u);
  }

  // Returns Σ weight(z) over the logits whose key is at least `key`, the same for all threads and
  // in every run.
  template <class Weight>
  __device__ __forceinline__ double sum_above(uint32_t key, Weight weight) const {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < vocab; i += blockDim.x) {
      const float value = z(i);
      if (key_of(value) >= key) sum += weight(value);
    }
    return reduce_block(sum, 0.0, Sum(), scratch);
  }

  // Returns the largest key at or above which the weights still reach `goal`; at least `lowest`.
  template <class Weight>
  __device__ __forceinline__ uint32_t threshold(uint32_t lowest, double goal, Weight weight) const {
    uint32_t low = lowest, high = key_of(largest);
    while (low < high) {
      const uint32_t middle = low + (high - low + 1) / 2;
      if (sum_above(middle, weight) >= goal)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

// Returns the first token at which the running sum of the kept probabilities passes uniform ·
// total. A thread owns a stretch of tokens. All threads add the stretches' sums in the same order,
// so exactly one stretch holds the goal.
template <class T>
__device__ __forceinline__ int64_t draw(const RowSampler<T>& row, uint32_t lowest, double uniform,
                                        Shared<double> sums, Shared<int64_t> integers) {
  const int64_t stretch = (static_cast<uint32_t>(row.vocab) + blockDim.x - 1) / blockDim.x;
  const int64_t begin = threadIdx.x * stretch;
  const int64_t end = begin + stretch < row.vocab ? begin + stretch : row.vocab;
  auto mass = [&](int64_t i) {
    const float z = row.z(i);
    return key_of(z) >= lowest ? static_cast<double>(expf(z - row.largest)) : 0.0;
  };
  double own = 0;
  for (int64_t i = begin; i < end; ++i) own += mass(i);
  sums[threadIdx.x] = own;
  __syncthreads();
  double before = 0, total = 0;
  for (unsigned t = 0; t < blockDim.x; ++t) {
    if (t == threadIdx.x) before = total;
    total += sums[t];
  }
  const double goal = uniform * total;
  int64_t found = row.vocab;
  if (before <= goal && goal < before + own) {
    double running = before;
    for (int64_t i = begin; i < end; ++i) {
      const double m = mass(i);
      if (m == 0) continue;
      found = i;  // the last one, should rounding keep the sum below the goal
      running += m;
      if (running > goal) break;
    }
  }
  return reduce_block(found, row.vocab, Minimum(), integers);
}

template <class T>
__device__ __forceinline__ int64_t first_largest(const RowSampler<T>& row, Shared<int64_t> integers) {
  int64_t found = row.vocab;
  for (int64_t i = threadIdx.x; i < row.vocab && found == row.vocab; i += blockDim.x)
    if (row.z(i) == row.largest) found = i;
  return reduce_block(found, row.vocab, Minimum(), integers);
}

constexpr int kSamplingThreads = 512;

template <class T>
__global__ void __launch_bounds__(kSamplingThreads, 1) sampling_kernel(SamplingArgs<T> a) {
  FORGE_SHARED(double, scratch, kWarp);
  FORGE_SHARED(double, sums, kSamplingThreads);
  FORGE_SHARED(float, floats, kWarp);
  FORGE_SHARED(int64_t, integers, kWarp);
  const float infinity = __uint_as_float(0x7F800000u);
  const int64_t r = blockIdx.x;
  RowSampler<T> row{a.logits + r * a.stride, a.vocab, a.inverse_temperature, -infinity, scratch};
  float largest = -infinity;
  for (int64_t i = threadIdx.x; i < a.vocab; i += blockDim.x) largest = Larger()(row.z(i), largest);
  row.largest = reduce_block(largest, -infinity, Larger(), floats);
  int64_t token = -1;
  auto probability = [&](float z) { return static_cast<double>(expf(z - row.largest)); };
  if (row.largest == infinity || (a.greedy && row.largest > -infinity)) {
    token = first_largest(row, integers);
  } else if (row.largest > -infinity) {
    uint32_t lowest = key_of(-3.402823466e38f);
    if (a.top_k > 0 && a.top_k < a.vocab)
      lowest = row.threshold(lowest, static_cast<double>(a.top_k), [](float) { return 1.0; });
    if (a.top_p < 1)
      lowest = row.threshold(lowest, a.top_p * row.sum_above(lowest, probability), probability);
    if (a.min_p > 0) {
      const uint32_t floor = key_of(row.largest + logf(a.min_p));
      lowest = floor > lowest ? floor : lowest;
    }
    const PhiloxWords random = philox_words(a.seed, a.streams[r], a.indices[r]);
    token = draw(row, lowest, random.words[0] * 0x1p-32, sums, integers);
  }
  const double total = a.logp != nullptr ? row.sum_above(0, probability) : 1.0;
  if (threadIdx.x != 0) return;
  a.tokens[r] = token;
  if (a.logp != nullptr)
    a.logp[r] = token < 0 ? -infinity : row.z(token) - row.largest - logf(static_cast<float>(total));
}

}  // namespace forge
