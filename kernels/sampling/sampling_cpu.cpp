// A row's scaled logits and their exponentials are computed once and stay in cache for the
// bisections.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {
namespace draw {

constexpr float kInfinity = __builtin_huge_valf(), kLowest = -3.402823466e38f;

// A row of [vocab], padded to whole vectors with logits of −∞, whose mass is 0.
struct Row {
  float *z, *mass;  // logit / temperature; e^(z − largest)
  int64_t padded;
  float largest;
};

// Returns a key that ascends with the numbers, so that bisecting it visits every float.
uint32_t key_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
float float_of(uint32_t key) { return std::bit_cast<float>(key >> 31 ? key & 0x7fffffffu : ~key); }

// Loads the scaled logits. NaN counts as −∞; + 0 turns −0 into 0, so that the two are equal.
template <class T>
void load_logits(const Sampling& a, int64_t index, Row& row) {
  const T* x = static_cast<const T*>(a.logits) + index * a.stride;
  F inverse = set(a.temperature > 0 ? 1 / a.temperature : 1.0f), largest = set(-kInfinity);
  std::fill(row.z + a.vocab / kLanes * kLanes, row.z + row.padded, -kInfinity);
  for_lanes(a.vocab, [&](int64_t i, int n) FORGE_LAMBDA {
    store_n(row.z + i, max(load_n(x + i, n) * inverse + set(0.0f), set(-kInfinity)), n);
    largest = max(largest, load(row.z + i));
  });
  row.largest = max_of(largest);
}

void make_masses(const Row& row) {
  for (int64_t i = 0; i < row.padded; i += kLanes)
    store(row.mass + i, exp(load(row.z + i) - set(row.largest)));
}

// Returns Σ weights (null: 1 each) of the logits not below `limit`.
double sum_above(const Row& row, const float* weights, float limit) {
  double total = 0;
  for (int64_t first = 0; first < row.padded; first += 2048) {
    F part = set(0);
    for (int64_t i = first; i < std::min(row.padded, first + 2048); i += kLanes)
      part = part + less(load(row.z + i), set(limit), set(0), weights ? load(weights + i) : set(1));
    total += static_cast<double>(sum(part));
  }
  return total;
}

// Returns the largest limit at or above which the weights still reach `goal`; at least `lowest`.
float threshold(const Row& row, const float* weights, float lowest, double goal) {
  uint32_t low = key_of(lowest), high = key_of(row.largest);
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (sum_above(row, weights, float_of(middle)) >= goal)
      low = middle;
    else
      high = middle - 1;
  }
  return float_of(low);
}

// Returns the first token at which the running sum of the kept masses passes uniform · total.
int64_t draw_above(const Row& row, float lowest, double uniform) {
  double goal = uniform * sum_above(row, row.mass, lowest), running = 0;
  int64_t found = -1;
  for (int64_t i = 0; i < row.padded; ++i) {
    if (row.z[i] < lowest || row.mass[i] == 0) continue;
    found = i;  // the last one, should rounding keep the sum below the goal
    running += static_cast<double>(row.mass[i]);
    if (running > goal) break;
  }
  return found;
}

int64_t token_of(const Sampling& a, int64_t index, const Row& row) {
  if (row.largest == kInfinity || a.temperature <= 0)
    return std::find(row.z, row.z + row.padded, row.largest) - row.z;
  float lowest = kLowest;
  if (a.top_k > 0 && a.top_k < a.vocab)
    lowest = threshold(row, nullptr, lowest, static_cast<double>(a.top_k));
  if (a.top_p < 1) lowest = threshold(row, row.mass, lowest, a.top_p * sum_above(row, row.mass, lowest));
  if (a.min_p > 0) lowest = std::max(lowest, row.largest + std::log(a.min_p));
  return draw_above(row, lowest, philox(a.seed, a.streams[index], a.indices[index])[0] * 0x1p-32);
}

}  // namespace draw

// `scratch` holds two rows of `padded` floats.
void sample_row(const Sampling& a, int64_t index, float* scratch, int64_t padded) {
  draw::Row row{scratch, scratch + padded, padded, 0};
  by_element(a.type, [&](auto element) FORGE_LAMBDA { draw::load_logits<decltype(element)>(a, index, row); });
  const bool any = row.largest > -draw::kInfinity;
  if (any) draw::make_masses(row);
  int64_t token = any ? draw::token_of(a, index, row) : -1;
  a.tokens[index] = token;
  if (!a.logp) return;
  a.logp[index] = !any ? row.largest
                       : row.z[token] - row.largest -
                             std::log(static_cast<float>(draw::sum_above(row, row.mass, -draw::kInfinity)));
}

}  // namespace forge::FORGE_ISA

#else

#include "core/lib/base/random.h"
#include "kernels/cpu/parallel.h"
#include "kernels/sampling/sampling_args.h"
#define FORGE_KERNEL_FILE "kernels/sampling/sampling_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

int64_t padded_row(const Sampling& args) { return (args.vocab + 15) / 16 * 16; }

}  // namespace

int64_t sampling_cpu_workspace(const Sampling& args) {
  return 64 + task_threads() * 2 * padded_row(args) * 4;
}

void sampling_cpu(const Sampling& args, CpuLevel level) {
  auto sample = FORGE_PICK(level, sample_row);
  float* base = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(args.workspace) + 63) / 64 * 64);
  const int64_t padded = padded_row(args);
  parallel_tasks(args.rows,
                 [&](int64_t row, int64_t thread) { sample(args, row, base + thread * 2 * padded, padded); });
}

}  // namespace forge

#endif
