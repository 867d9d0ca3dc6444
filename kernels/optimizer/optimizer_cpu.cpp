// Each function is one pass over memory.
#ifdef FORGE_ISA
#include "kernels/optimizer/state_code.h"

namespace forge::FORGE_ISA {

// Returns Σ g² of one block. From 2048 values on it adds in double: fp32 partial sums have at most
// that many positive terms.
double squares_of(const float* grad, int64_t count) {
  double total = 0;
  for (int64_t first = 0; first < count; first += 2048) {
    F part[2] = {set(0), set(0)};
    int64_t length = std::min<int64_t>(2048, count - first);
    for_lanes(length, [&](int64_t i, int n) FORGE_LAMBDA {
      F g = load_n(grad + first + i, n);
      part[i / kLanes % 2] = fma(g, g, part[i / kLanes % 2]);
    });
    total += static_cast<double>(sum(part[0] + part[1]));
  }
  return total;
}

namespace update {

FORGE_INLINE F narrow_to(double value) { return set(static_cast<float>(value)); }

struct Rates {
  F scale, decay, beta1, one_beta1, beta2, one_beta2, lr, root, eps;
};

// Returns the rates of a range with this factor of the learning rate and this decay. Lion has no
// bias correction.
template <class Args>
Rates rates_of(const Args& a, float factor, double weight_decay) {
  const UpdateNumbers& now = *a.numbers;
  const float lr = now.lr * factor;
  Rates r{set(a.verdict[1]),
          narrow_to(1 - static_cast<double>(lr) * weight_decay),
          narrow_to(a.beta1),
          narrow_to(1 - a.beta1),
          narrow_to(a.beta2),
          narrow_to(1 - a.beta2),
          set(lr),
          set(1),
          set(0)};
  if constexpr (requires { a.eps; }) {
    r.lr = set(now.rate * factor);
    r.root = set(now.root);
    r.eps = narrow_to(a.eps);
  }
  return r;
}

// The rates of ascending elements: stretches of equal rates, one after the other.
template <class Args>
class RatesCursor {
 public:
  explicit RatesCursor(const Args& a) : a_(a), rates_(rates_of(a, 1, a.weight_decay)) {}

  // Calls visit(first, last, rates) for the stretches of [begin, end), which begins where the last
  // call ended or later.
  template <class Visit>
  FORGE_INLINE void each(int64_t begin, int64_t end, Visit visit) {
    while (begin < end) {
      while (a_.ranges.end && begin >= end_) take(++range_);
      int64_t last = a_.ranges.end ? std::min(end, end_) : end;
      visit(begin, last, rates_);
      begin = last;
    }
  }

 private:
  void take(int64_t range) {
    end_ = a_.ranges.end[range];
    rates_ = rates_of(a_, a_.ranges.rate_factor[range], a_.ranges.weight_decay[range]);
  }
  const Args& a_;
  Rates rates_;
  int64_t range_ = -1, end_ = 0;
};

FORGE_INLINE F stepped(const Rates& r, F weight, F mean, F square) {
  return weight * r.decay - r.lr * mean / fma(sqrt(square), r.root, r.eps);
}

void store_copy(Element type, void* copy, int64_t i, F weight, int n) {
  if (!copy) return;
  by_element(type, [&](auto element) FORGE_LAMBDA { store_n(static_cast<decltype(element)*>(copy) + i, weight, n); });
}

}  // namespace update

void adamw_range(const AdamWUpdate& a, int64_t begin, int64_t end) {
  update::RatesCursor cursor(a);
  cursor.each(begin, end, [&](int64_t first, int64_t last, const update::Rates& r) {
    for_lanes(last - first, [&](int64_t k, int n) FORGE_LAMBDA {
      int64_t i = first + k;
      F g = load_n(a.grad + i, n) * r.scale, m = load_n(a.mean + i, n);
      m = fma(r.one_beta1, g - m, m);
      F v = fma(r.one_beta2 * g, g, r.beta2 * load_n(a.square + i, n));
      F p = update::stepped(r, load_n(a.weight + i, n), m, v);
      store_n(a.mean + i, m, n);
      store_n(a.square + i, v, n);
      store_n(a.weight + i, p, n);
      update::store_copy(a.copy_type, a.copy, i, p, n);
    });
  });
}

void lion_range(const LionUpdate& a, int64_t begin, int64_t end) {
  F zero = set(0);
  update::RatesCursor cursor(a);
  cursor.each(begin, end, [&](int64_t first, int64_t last, const update::Rates& r) {
    for_lanes(last - first, [&](int64_t k, int n) FORGE_LAMBDA {
      int64_t i = first + k;
      F g = load_n(a.grad + i, n) * r.scale, m = load_n(a.mean + i, n);
      F c = fma(r.one_beta1, g, r.beta1 * m);
      F sign = less(zero, c, set(1), less(c, zero, set(-1), zero));
      F p = load_n(a.weight + i, n) * r.decay - r.lr * sign;
      store_n(a.mean + i, fma(r.one_beta2, g, r.beta2 * m), n);
      store_n(a.weight + i, p, n);
      update::store_copy(a.copy_type, a.copy, i, p, n);
    });
  });
}

void adamw_8bit_range(const AdamW8bitUpdate& a, int64_t begin, int64_t end) {
  const StateCode means(a.signed_map), squares(a.unsigned_map);
  update::RatesCursor cursor(a);
  float mean[kStateBlock], square[kStateBlock];
  for (int64_t first = begin; first < end; first += kStateBlock) {
    int64_t block = first / kStateBlock, count = std::min(kStateBlock, end - first);
    means.decode(a.mean + first, count, a.mean_absmax[block], mean);
    squares.decode(a.square + first, count, a.square_absmax[block], square);
    cursor.each(first, first + count, [&](int64_t from, int64_t to, const update::Rates& r) {
      for_lanes(to - from, [&](int64_t k, int n) FORGE_LAMBDA {
        int64_t i = from + k, in_block = i - first;
        F g = load_n(a.grad + i, n) * r.scale;
        // The order of operations is bitsandbytes': a code changes when a sum falls to the other
        // side of a limit.
        F m = load_n(mean + in_block, n) * r.beta1 + r.one_beta1 * g,
          v = load_n(square + in_block, n) * r.beta2 + r.one_beta2 * g * g;
        F p = update::stepped(r, load_n(a.weight + i, n), m, v);
        store_n(mean + in_block, m, n);
        store_n(square + in_block, v, n);
        store_n(a.weight + i, p, n);
        update::store_copy(a.copy_type, a.copy, i, p, n);
      });
    });
    a.mean_absmax[block] = means.encode(mean, count, a.mean + first);
    a.square_absmax[block] = squares.encode(square, count, a.square + first);
  }
}

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/optimizer/optimizer_args.h"
#define FORGE_KERNEL_FILE "kernels/optimizer/optimizer_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

int64_t blocks_of(int64_t count) { return (count + kNormBlock - 1) / kNormBlock; }

template <class Args, class Range>
void update(const Args& args, int64_t grain, Range range) {
  if (args.verdict[2] != 0) parallel_loop(args, args.count, grain, range);
}

}  // namespace

void gradient_norm_cpu(const FlatNorm& args, CpuLevel level) {
  auto squares = FORGE_PICK(level, squares_of);
  double* partial = reinterpret_cast<double*>((reinterpret_cast<uintptr_t>(args.workspace) + 7) / 8 * 8);
  parallel_ranges(blocks_of(args.count), 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      int64_t first = block * kNormBlock;
      partial[block] = squares(args.grad + first, std::min(kNormBlock, args.count - first));
    }
  });
  double total = 0;
  for (int64_t block = 0; block < blocks_of(args.count); ++block) total += partial[block];
  double norm = std::sqrt(total) * *args.unscale;
  const double clip = args.max_norm > 0 ? std::min(1.0, args.max_norm / (norm + 1e-6)) : 1.0;
  args.verdict[0] = static_cast<float>(norm);
  args.verdict[1] = static_cast<float>(*args.unscale * clip);
  args.verdict[2] = std::isfinite(total) ? 1.0f : 0.0f;
}

void adamw_cpu(const AdamWUpdate& args, CpuLevel level) {
  update(args, 4096, FORGE_PICK(level, adamw_range));
}
void lion_cpu(const LionUpdate& args, CpuLevel level) { update(args, 4096, FORGE_PICK(level, lion_range)); }
void adamw_8bit_cpu(const AdamW8bitUpdate& args, CpuLevel level) {
  update(args, 16 * kStateBlock, FORGE_PICK(level, adamw_8bit_range));
}

}  // namespace forge

#endif
