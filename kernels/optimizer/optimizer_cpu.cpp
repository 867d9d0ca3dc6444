// Each function is one pass over memory.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {

// Σ g² of one block, in double from 2048 values on: fp32 partial sums of at most that many positive terms.
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
  F scale, decay, beta1, one_beta1, beta2, one_beta2, rate, root, eps;
};

template <class Args>
Rates rates_of(const Args& a) {
  double correction1 = 1 - std::pow(a.beta1, static_cast<double>(a.step));
  double correction2 = 1 - std::pow(a.beta2, static_cast<double>(a.step));
  return {set(a.verdict[1]),
          narrow_to(1 - a.lr * a.weight_decay),
          narrow_to(a.beta1),
          narrow_to(1 - a.beta1),
          narrow_to(a.beta2),
          narrow_to(1 - a.beta2),
          narrow_to(a.lr / correction1),
          narrow_to(1 / std::sqrt(correction2)),
          narrow_to(a.eps)};
}

FORGE_INLINE F stepped(const Rates& r, F weight, F mean, F square) {
  return weight * r.decay - r.rate * mean / fma(sqrt(square), r.root, r.eps);
}

void store_copy(Element type, void* copy, int64_t i, F weight, int n) {
  if (!copy) return;
  if (type == Element::bf16)
    store_n(static_cast<Bf16*>(copy) + i, weight, n);
  else if (type == Element::f16)
    store_n(static_cast<F16*>(copy) + i, weight, n);
  else
    store_n(static_cast<float*>(copy) + i, weight, n);
}

// Finds the nearest entry of a map. Cells of the float line, 256 between powers of two, know the last entry
// not above their lower edge; entries of the maps lie further apart than a cell, so one step up decides.
class Nearest {
 public:
  explicit Nearest(const float* map) : map_(map) {
    for (int negative = 0; negative < 2; ++negative)
      for (int32_t cell = 0; cell <= kCells; ++cell) {
        float edge = cell == 0 && !negative ? 0.0f : edge_of(cell + negative);
        auto above = std::upper_bound(map, map + 256, negative ? -edge : edge);
        floor_[negative][cell] = static_cast<uint8_t>(std::clamp<std::ptrdiff_t>(above - map - 1, 0, 254));
      }
  }

  // Codes of values / absmax; a middle between two entries goes to the lower. A block of zeros has the codes
  // of 0.
  void codes(const float* values, int64_t count, float absmax, uint8_t* out) const {
    float unit[kStateBlock];
    for (int64_t i = 0; i < count; ++i)
      unit[i] = absmax > 0 ? std::min(1.0f, std::max(-1.0f, values[i] / absmax)) : 0.0f;
    for (int64_t i = 0; i < count; ++i) {
      float x = unit[i];
      int32_t bits;
      std::memcpy(&bits, &x, sizeof bits);
      int32_t cell = std::max(0, ((bits & 0x7fffffff) >> 15) - kFirst);
      int32_t code = floor_[static_cast<uint32_t>(bits) >> 31][cell];
      code += static_cast<int32_t>(code < 254) &
              static_cast<int32_t>(x > map_[code + 1]);  // no branch: it would be random
      out[i] = static_cast<uint8_t>(code + static_cast<int32_t>(x - map_[code] > map_[code + 1] - x));
    }
  }

 private:
  static constexpr int32_t kFirst = (127 - 24) << 8, kCells = 24 << 8;  // from 2⁻²⁴, below every entry, to 1
  static float edge_of(int32_t cell) {
    int32_t bits = (cell + kFirst) << 15;
    float edge;
    std::memcpy(&edge, &bits, sizeof edge);
    return edge;
  }

  const float* map_;
  uint8_t floor_[2][kCells + 1];
};

float largest(const float* values, int64_t count) {
  float result = 0;
  for (int64_t i = 0; i < count; ++i) result = std::max(result, std::fabs(values[i]));
  return result;
}

}  // namespace update

void adamw_range(const AdamWUpdate& a, int64_t begin, int64_t end) {
  update::Rates r = update::rates_of(a);
  for_lanes(end - begin, [&](int64_t k, int n) FORGE_LAMBDA {
    int64_t i = begin + k;
    F g = load_n(a.grad + i, n) * r.scale, m = load_n(a.mean + i, n);
    m = fma(r.one_beta1, g - m, m);
    F v = fma(r.one_beta2 * g, g, r.beta2 * load_n(a.square + i, n));
    F p = update::stepped(r, load_n(a.weight + i, n), m, v);
    store_n(a.mean + i, m, n);
    store_n(a.square + i, v, n);
    store_n(a.weight + i, p, n);
    update::store_copy(a.copy_type, a.copy, i, p, n);
  });
}

void lion_range(const LionUpdate& a, int64_t begin, int64_t end) {
  F scale = set(a.verdict[1]), decay = update::narrow_to(1 - a.lr * a.weight_decay), zero = set(0);
  for_lanes(end - begin, [&](int64_t k, int n) FORGE_LAMBDA {
    int64_t i = begin + k;
    F g = load_n(a.grad + i, n) * scale, m = load_n(a.mean + i, n);
    F c = fma(update::narrow_to(1 - a.beta1), g, update::narrow_to(a.beta1) * m);
    F sign = less(zero, c, set(1), less(c, zero, set(-1), zero));
    F p = load_n(a.weight + i, n) * decay - update::narrow_to(a.lr) * sign;
    store_n(a.mean + i, fma(update::narrow_to(1 - a.beta2), g, update::narrow_to(a.beta2) * m), n);
    store_n(a.weight + i, p, n);
    update::store_copy(a.copy_type, a.copy, i, p, n);
  });
}

void adamw_8bit_range(const AdamW8bitUpdate& a, int64_t begin, int64_t end) {
  update::Rates r = update::rates_of(a);
  const update::Nearest means(a.signed_map), squares(a.unsigned_map);
  float mean[kStateBlock], square[kStateBlock];
  for (int64_t first = begin; first < end; first += kStateBlock) {
    int64_t block = first / kStateBlock, count = std::min(kStateBlock, end - first);
    for (int64_t i = 0; i < count; ++i) {
      mean[i] = a.signed_map[a.mean[first + i]] * a.mean_absmax[block];
      square[i] = a.unsigned_map[a.square[first + i]] * a.square_absmax[block];
    }
    for_lanes(count, [&](int64_t k, int n) FORGE_LAMBDA {
      int64_t i = first + k;
      F g = load_n(a.grad + i, n) * r.scale;
      // bitsandbytes' order of operations: a code changes when a sum falls to the other side of a limit.
      F m = load_n(mean + k, n) * r.beta1 + r.one_beta1 * g,
        v = load_n(square + k, n) * r.beta2 + r.one_beta2 * g * g;
      F p = update::stepped(r, load_n(a.weight + i, n), m, v);
      store_n(mean + k, m, n);
      store_n(square + k, v, n);
      store_n(a.weight + i, p, n);
      update::store_copy(a.copy_type, a.copy, i, p, n);
    });
    a.mean_absmax[block] = update::largest(mean, count);
    a.square_absmax[block] = update::largest(square, count);
    means.codes(mean, count, a.mean_absmax[block], a.mean + first);
    squares.codes(square, count, a.square_absmax[block], a.square + first);
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

constexpr int64_t kNormBlock = 1 << 16;  // a partial sum each, added in order: threads change nothing

int64_t blocks_of(int64_t count) { return (count + kNormBlock - 1) / kNormBlock; }

template <class Args, class Range>
void update(const Args& args, int64_t grain, Range range) {
  if (args.verdict[2] == 0) return;
  parallel_ranges(args.count, grain, [&](int64_t begin, int64_t end) { range(args, begin, end); });
}

}  // namespace

int64_t gradient_norm_cpu_workspace(const FlatNorm& args) { return 8 * blocks_of(args.count) + 8; }

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
  double norm = std::sqrt(total) * args.unscale;
  bool clips = args.max_norm > 0 && norm + 1e-6 > args.max_norm;
  args.verdict[0] = static_cast<float>(norm);
  args.verdict[1] = static_cast<float>(args.unscale * (clips ? args.max_norm / (norm + 1e-6) : 1.0));
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
