// A block of positions meets the vocabulary tile by tile; tile, block and their logits stay in the
// second-level cache. Logits are kept as [vocab rows, positions]: the tile is then the left factor
// in its memory layout, positions are the lanes, and maxima and sums over the vocabulary run down
// the rows without crossing lanes.
//
//   X [width, positions]   packed once a block
//   Z [tile, positions] = tile · X             → running maximum m, sum l, exp(z − m) in place of Z
//   A [positions, width] = A · exp(m_old − m_new) + Zᵀ · tile            (A / l = Σ p W in the end)
//
// No sum depends on how positions are split into blocks, so threads change nothing.
//
// In bf16, on a processor that does not multiply it, these fp32 tiles are four times as fast as
// LibTorch's product: a tile of the vocabulary is widened once and used 256 times. In fp32 they are
// no faster.
#ifdef FORGE_ISA
#include "kernels/cpu/gemm.h"
#include "kernels/lm_head/logit_rules.h"

namespace forge::FORGE_ISA {
namespace head {

// State of one block of positions.
struct Block {
  const LmHead& a;
  const HeadSpace& space;
  HeadScratch s;
  const int64_t* rows;   // the positions
  int64_t count, lanes;  // lanes: count rounded up
};

template <class T>
void pack_hidden(Block& b) {
  std::fill(b.s.x, b.s.x + b.a.width * b.space.ldm, 0.0f);
  for (int64_t t = 0; t < b.count; ++t) {
    const T* h = static_cast<const T*>(b.a.hidden) + b.rows[t] * b.a.hidden_stride;
    for (int64_t k = 0; k < b.a.width; ++k) b.s.x[k * b.space.ldm + t] = to_float(h[k]);
  }
}

// Loads the tile in fp32 with padding after each row, so that power-of-two widths do not fall into
// the same cache sets.
template <class T>
void load_rows(const void* from, int64_t stride, int64_t first, int64_t count, int64_t width, float* to,
               int64_t ld) {
  for (int64_t v = 0; v < count; ++v) {
    const T* row = static_cast<const T*>(from) + (first + v) * stride;
    for_lanes(width, [&](int64_t i, int n) FORGE_LAMBDA { store(to + v * ld + i, load_n(row + i, n)); });
  }
}

// Z = tile · X with cap and temperature.
void tile_logits(Block& b, int64_t rows) {
  gemm(rows, b.lanes, b.a.width, b.s.tile, b.space.ldw, 1, b.s.x, b.space.ldm, b.s.z, b.space.ldm, false);
  if (b.a.softcap == 0 && b.a.temperature == 1) return;
  for (int64_t v = 0; v < rows; ++v)
    for (int64_t t = 0; t < b.lanes; t += kLanes) {
      float* z = b.s.z + v * b.space.ldm + t;
      store(z, capped(b.a, load(z)));
    }
}

// Reads the targets' logits, updates maximum and sums, and leaves exp(z − m) · slope in Z.
void update_statistics(Block& b, int64_t first, int64_t rows) {
  for (int64_t t = 0; t < b.count; ++t) {
    int64_t y = b.a.targets[b.rows[t]] - first;
    if (y >= 0 && y < rows) b.s.target[t] = b.s.z[y * b.space.ldm + t];
  }
  for (int64_t t = 0; t < b.lanes; t += kLanes) {
    float* z = b.s.z + t;
    F before = load(b.s.largest + t), largest = before;
    for (int64_t v = 0; v < rows; ++v) largest = max(largest, load(z + v * b.space.ldm));
    F keep = exp(before - largest), total = set(0), weighted = set(0), plain = set(0);
    for (int64_t v = 0; v < rows; ++v) {
      F logit = load(z + v * b.space.ldm), e = exp(logit - largest);
      total = total + e;
      if (b.space.wants_weighted) weighted = fma(e, logit, weighted);
      if (b.space.wants_plain) plain = plain + logit;
      store(z + v * b.space.ldm, e * slope(b.a, logit));
    }
    store(b.s.largest + t, largest);
    store(b.s.keep + t, keep);
    store(b.s.total + t, fma(load(b.s.total + t), keep, total));
    store(b.s.weighted + t, fma(load(b.s.weighted + t), keep, weighted));
    store(b.s.plain + t, load(b.s.plain + t) + plain);
  }
}

// A = A · keep + Zᵀ · tile; most tiles do not raise the maximum.
void gather_expected(Block& b, int64_t rows) {
  int64_t ld = b.space.ldw, padded = ld - kPad;
  for (int64_t t = 0; t < b.count; ++t)
    if (b.s.keep[t] != 1)
      for (int64_t i = 0; i < padded; i += kLanes)
        store(b.s.sum + t * ld + i, load(b.s.sum + t * ld + i) * set(b.s.keep[t]));
  gemm(b.count, padded, rows, b.s.z, 1, b.space.ldm, b.s.tile, ld, b.s.sum, ld, true);
}

void add_columns(Block& b, int64_t rows) {
  for (int64_t v = 0; v < rows; ++v)
    for (int64_t i = 0; i < b.space.ldw - kPad; i += kLanes)
      store(b.s.columns + i, load(b.s.columns + i) + load(b.s.tile + v * b.space.ldw + i));
}

void finish_statistics(Block& b) {
  const LmHead& a = b.a;
  for (int64_t t = 0; t < b.count; ++t) {
    int64_t row = b.rows[t];
    const float lse = b.s.largest[t] + std::log(b.s.total[t]), expected = b.s.weighted[t] / b.s.total[t];
    put_numbers(a, row, b.s.target[t] - lse, lse, b.s.plain[t] / static_cast<float>(a.vocab), expected);
    b.space.lse[row] = lse;
    b.space.expected[row] = expected;
  }
}

// Computes d_hidden of the block from A, the target's row and the column sums.
template <class T>
void finish_gradient(Block& b) {
  const LmHead& a = b.a;
  for (int64_t t = 0; t < b.count; ++t) {
    int64_t row = b.rows[t];
    Cotangents g = cotangents(a, row, b.space.lse[row]);
    const T* w = static_cast<const T*>(a.weight) + a.targets[row] * a.weight_stride;
    float y = b.s.target[t] * a.temperature / (a.softcap == 0 ? 1 : a.softcap);
    float at_target = g.target * (a.softcap == 0 ? 1 : 1 - y * y) / a.temperature;
    F each = set(g.each / a.temperature), p = set(g.probability / b.s.total[t] / a.temperature);
    T* out = static_cast<T*>(a.d_hidden) + row * a.d_hidden_stride;
    for_lanes(a.width, [&](int64_t i, int n) FORGE_LAMBDA {
      F d = fma(p, load(b.s.sum + t * b.space.ldw + i), set(at_target) * load_n(w + i, n));
      if (b.space.wants_columns) d = fma(each, load(b.s.columns + i), d);
      store_n(out + i, d, n);
    });
  }
}

// Computes Z = d (h · w) from Z = z and lse.
void tile_gradient(Block& b, int64_t first, int64_t rows) {
  const LmHead& a = b.a;
  alignas(64) float lse[kLanes], p[kLanes], each[kLanes], entropy[kLanes], expected[kLanes];
  for (int64_t t = 0; t < b.lanes; t += kLanes) {
    for (int64_t i = 0; i < kLanes; ++i) {
      int64_t row = b.rows[std::min(t + i, b.count - 1)];
      Cotangents g = cotangents(a, row, b.space.lse[row]);
      lse[i] = b.space.lse[row], p[i] = g.probability, each[i] = g.each, entropy[i] = g.entropy;
      expected[i] = b.space.expected[row];
    }
    for (int64_t v = 0; v < rows; ++v) {
      float* at_v = b.s.z + v * b.space.ldm + t;
      F z = load(at_v), soft = exp(z - load(lse));
      F d = soft * (load(p) - load(entropy) * (z - load(expected))) + load(each);
      store(b.s.other + v * b.space.ldm + t, slope(a, z) / set(a.temperature));
      store(at_v, d);
    }
  }
  for (int64_t t = 0; t < b.count; ++t) {
    int64_t row = b.rows[t], y = a.targets[row] - first;
    if (y >= 0 && y < rows) b.s.z[y * b.space.ldm + t] += cotangents(a, row, b.space.lse[row]).target;
  }
  for (int64_t v = 0; v < rows; ++v)
    for (int64_t t = 0; t < b.lanes; t += kLanes) {
      float* z = b.s.z + v * b.space.ldm + t;
      store(z, load(z) * load(b.s.other + v * b.space.ldm + t));
    }
}

template <class T>
void load_tile(Block& b, int64_t first, int64_t rows) {
  load_rows<T>(b.a.weight, b.a.weight_stride, first, rows, b.a.width, b.s.tile, b.space.ldw);
}

// First visit: computes the statistics, and the gradient if one visit suffices.
template <class T>
void visit(Block& b) {
  bool gradient = b.a.d_hidden && !b.space.second_visit;
  pack_hidden<T>(b);
  std::fill(b.s.largest, b.s.largest + b.lanes, -HUGE_VALF);
  for (float* zero : {b.s.total, b.s.weighted, b.s.plain, b.s.target}) std::fill(zero, zero + b.lanes, 0.0f);
  if (gradient) std::fill(b.s.sum, b.s.sum + b.count * b.space.ldw, 0.0f);
  std::fill(b.s.columns, b.s.columns + b.space.ldw, 0.0f);
  for (int64_t first = 0; first < b.a.vocab; first += b.space.tile_rows) {
    int64_t rows = std::min(b.space.tile_rows, b.a.vocab - first);
    load_tile<T>(b, first, rows);
    tile_logits(b, rows);
    update_statistics(b, first, rows);
    if (gradient) gather_expected(b, rows);
    if (gradient && b.space.wants_columns) add_columns(b, rows);
  }
  finish_statistics(b);
  if (gradient) finish_gradient<T>(b);
}

// Second visit: computes d_hidden from exact d z.
template <class T>
void visit_again(Block& b) {
  pack_hidden<T>(b);
  std::fill(b.s.sum, b.s.sum + b.count * b.space.ldw, 0.0f);
  for (int64_t first = 0; first < b.a.vocab; first += b.space.tile_rows) {
    int64_t rows = std::min(b.space.tile_rows, b.a.vocab - first);
    load_tile<T>(b, first, rows);
    tile_logits(b, rows);
    tile_gradient(b, first, rows);
    gemm(b.count, b.space.ldw - kPad, rows, b.s.z, 1, b.space.ldm, b.s.tile, b.space.ldw, b.s.sum,
         b.space.ldw, true);
  }
  for (int64_t t = 0; t < b.count; ++t) {
    T* out = static_cast<T*>(b.a.d_hidden) + b.rows[t] * b.a.d_hidden_stride;
    for_lanes(b.a.width, [&](int64_t i, int n)
                             FORGE_LAMBDA { store_n(out + i, load(b.s.sum + t * b.space.ldw + i), n); });
  }
}

// Computes the weight's gradient of one tile of the vocabulary, over all positions in order.
template <class T>
void visit_weight(const LmHead& a, const HeadSpace& space, const HeadScratch& s, int64_t tile) {
  int64_t first = tile * space.tile_rows, rows = std::min(space.tile_rows, a.vocab - first);
  float* total = s.gradient;
  std::fill(total, total + rows * space.ldw, 0.0f);
  load_rows<T>(a.weight, a.weight_stride, first, rows, a.width, s.tile, space.ldw);
  for (int64_t begin = 0; begin < space.valid; begin += space.block) {
    int64_t count = std::min(space.block, space.valid - begin);
    Block b{a, space, s, space.rows + begin, count, (count + kLanes - 1) / kLanes * kLanes};
    pack_hidden<T>(b);
    for (int64_t t = 0; t < count; ++t)
      load_rows<T>(a.hidden, a.hidden_stride, b.rows[t], 1, a.width, s.sum + t * space.ldw, space.ldw);
    tile_logits(b, rows);
    tile_gradient(b, first, rows);
    gemm(rows, space.ldw - kPad, count, s.z, space.ldm, 1, s.sum, space.ldw, total, space.ldw, true);
  }
  for (int64_t v = 0; v < rows; ++v) {
    float* out = a.d_weight + (first + v) * a.width;
    for_lanes(a.width, [&](int64_t i, int n) FORGE_LAMBDA {
      store_n(out + i, load_n(out + i, n) + load(total + v * space.ldw + i), n);
    });
  }
}

template <class T>
void block(const LmHead& a, const HeadSpace& space, const HeadScratch& s, int64_t index, HeadVisit which) {
  if (which == HeadVisit::weight) return visit_weight<T>(a, space, s, index);
  int64_t begin = index * space.block, count = std::min(space.block, space.valid - begin);
  Block b{a, space, s, space.rows + begin, count, (count + kLanes - 1) / kLanes * kLanes};
  if (which == HeadVisit::first)
    visit<T>(b);
  else
    visit_again<T>(b);
}

}  // namespace head

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/lm_head/lm_head_args.h"
#include "kernels/lm_head/lm_head_space.h"
#define FORGE_KERNEL_FILE "kernels/lm_head/lm_head_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

void clear_row(const LmHead& a, int64_t row) {
  for (float* out : {a.logp, a.logsumexp, a.mean_logit, a.entropy, a.loss})
    if (out) out[row] = 0;
  if (a.d_hidden)
    std::memset(static_cast<char*>(a.d_hidden) + row * a.d_hidden_stride * bytes_of(a.type), 0,
                static_cast<size_t>(a.width * bytes_of(a.type)));
}

}  // namespace

int64_t lm_head_cpu_workspace(const LmHead& args) { return head_space(args, nullptr, task_threads()).bytes; }

void lm_head_cpu(const LmHead& args, CpuLevel level) {
  HeadSpace space = head_space(args, args.workspace, task_threads());
  for (int64_t row = 0; row < args.positions; ++row) {
    if (args.targets[row] >= 0)
      space.rows[space.valid++] = row;
    else
      clear_row(args, row);
  }
  auto task = FORGE_PICK_OF(level, args.type, head::block);
  auto visit = [&](HeadVisit which, int64_t tasks) {
    parallel_tasks(tasks, [&](int64_t index, int64_t thread) {
      task(args, space, space.scratch(thread), index, which);
    });
  };
  int64_t blocks = (space.valid + space.block - 1) / space.block;
  visit(HeadVisit::first, blocks);
  // d_hidden may be hidden, so the weight's gradient is computed before it.
  if (args.d_weight && space.valid > 0)
    visit(HeadVisit::weight, (args.vocab + space.tile_rows - 1) / space.tile_rows);
  if (args.d_hidden && space.second_visit) visit(HeadVisit::second, blocks);
}

}  // namespace forge

#endif
