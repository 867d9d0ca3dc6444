// A row is read for its maximum, for its sums and for its gradient. A row of 16-bit logits is in
// the second-level cache meanwhile.
//
// LibTorch's log-softmax, exp and products make six passes over memory, and want 16-bit logits in
// fp32 besides, three times the memory of a chunk.
#ifdef FORGE_ISA
#include "kernels/lm_head/logit_rules.h"

namespace forge::FORGE_ISA {
namespace logits {

// The reduced row of logits: its largest z, log Σ exp (z − most), Σ p z, Σ z / V and z of the
// target.
struct Reduced {
  float most, log_sum, expected, mean, target;
  float lse() const { return most + log_sum; }
};

// A logit of −∞ has the probability zero, and no part in a sum: 0 · ∞ would be NaN.
FORGE_INLINE F finite_below(F z) { return max(set(-1e30f), z); }

template <class T>
F largest_of(const T* x, int64_t vocab) {
  F most = set(-3e38f);
  for_lanes(vocab, [&](int64_t i, int n) FORGE_LAMBDA {
    most = max(most, n == kLanes ? load_n(x + i, n) : keep_first(load_n(x + i, n), n, most));
  });
  float lanes[kLanes];
  store(lanes, most);
  return set(*std::max_element(lanes, lanes + kLanes));
}

template <class T>
Reduced reduce(const LogitsChunk& a, const T* x, int64_t target) {
  const F largest = head::capped(a, largest_of(x, a.vocab));
  double total = 0, below = 0, plain = 0;
  // A thousand terms are added in fp32, and their sums in double. With fp32 logits, however,
  // probabilities have the rounding of one fp32 sum of the whole row, like LibTorch's sum, which
  // transformers trains with. Sums in pieces are ten times closer to fp64 (gradient error 5e-6 for
  // 6e-5), but after 20 LoRA steps of SmolLM2 the trained change was 2.1e-3 from transformers' with
  // pieces, in one tensor 3.3e-2, and is 1.3e-5 and 2.6e-4 with one sum.
  constexpr int64_t kPiece = 1024;
  constexpr bool kOneSum = std::is_same_v<T, float>;
  F sums = set(0);
  for (int64_t piece = 0; piece < a.vocab; piece += kPiece) {
    F of_below = set(0), of_plain = set(0);
    for_lanes(std::min(kPiece, a.vocab - piece), [&](int64_t i, int n) FORGE_LAMBDA {
      const F z = head::capped(a, load_n(x + piece + i, n)), step = finite_below(z - largest);
      const F e = n == kLanes ? exp(step) : keep_first(exp(step), n, set(0));
      sums = sums + e;
      of_below = fma(e, step, of_below);
      of_plain = of_plain + (n == kLanes ? z : keep_first(z, n, set(0)));
    });
    if (!kOneSum || piece + kPiece >= a.vocab) total += static_cast<double>(sum(sums)), sums = set(0);
    below += static_cast<double>(sum(of_below));
    plain += static_cast<double>(sum(of_plain));
  }
  float most[kLanes], z[kLanes];
  store(most, largest);
  store(z, head::capped(a, set(to_float(x[target]))));
  const auto base = static_cast<double>(most[0]);
  return {most[0], static_cast<float>(std::log(total)), static_cast<float>(base + below / total),
          static_cast<float>(plain / static_cast<double>(a.vocab)), z[0]};
}

// Returns d x of some logits, without the target's part.
FORGE_INLINE F gradient_of(const LogitsChunk& a, const head::Cotangents& g, const Reduced& row, F x) {
  const F z = head::capped(a, x), p = exp(z - set(row.most) - set(row.log_sum));
  F d = set(g.probability);
  if (g.entropy != 0) d = d - set(g.entropy) * (finite_below(z) - set(row.expected));
  d = fma(p, d, set(g.each)) * head::slope(a, z);
  return a.temperature == 1 ? d : d / set(a.temperature);
}

template <class T>
void turn(const LogitsChunk& a, const head::Cotangents& g, const Reduced& row, T* x, int64_t target) {
  const F there = set(to_float(x[target])), z = head::capped(a, there);
  const F of_target = set(g.target / a.temperature) * head::slope(a, z) + gradient_of(a, g, row, there);
  for_lanes(a.vocab, [&](int64_t i, int n) FORGE_LAMBDA { store_n(x + i, gradient_of(a, g, row, load_n(x + i, n)), n); });
  store_n(x + target, of_target, 1);
}

template <class T>
void rows(const LogitsChunk& a, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    T* x = static_cast<T*>(a.logits) + row * a.stride;
    const int64_t target = a.targets[row];
    if (target < 0) {
      for (float* out : {a.logp, a.logsumexp, a.mean_logit, a.entropy, a.loss}) head::put(out, row, 0);
      if (a.gradient) std::memset(static_cast<void*>(x), 0, static_cast<size_t>(a.vocab) * sizeof(T));
      continue;
    }
    const Reduced reduced = reduce(a, x, target);
    head::put_numbers(a, row, reduced.target - reduced.most - reduced.log_sum, reduced.lse(), reduced.mean, reduced.expected);
    if (a.gradient) turn(a, head::cotangents(a, row, reduced.lse()), reduced, x, target);
  }
}

}  // namespace logits

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/lm_head/logits_args.h"
#define FORGE_KERNEL_FILE "kernels/lm_head/logits_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {

void logits_cpu(const LogitsChunk& args, CpuLevel level) {
  parallel_loop(args, args.positions, 1, FORGE_PICK_OF(level, args.type, logits::rows));
}

}  // namespace forge

#endif
