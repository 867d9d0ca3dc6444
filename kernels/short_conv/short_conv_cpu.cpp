// A task takes 128 channels through all tokens: the taps' rows stay in the first-level cache, and a
// row's piece is half a page line after line, so the processor prefetches it.
#ifdef FORGE_ISA

namespace forge::FORGE_ISA {
namespace conv {

// The filters of a task's channels, tap by tap.
struct Taps {
  alignas(64) float weight[kMostTaps][kConvChannels] = {};
  alignas(64) float bias[kConvChannels] = {};
};

template <class T>
void load_taps(const ShortConvShape& s, const void* weight, const void* bias, int64_t first,
               int64_t count, Taps& taps) {
  const T* w = static_cast<const T*>(weight) + first * s.width;
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t j = 0; j < s.width; ++j) taps.weight[j][c] = to_float(w[c * s.width + j]);
    taps.bias[c] = bias ? to_float(static_cast<const T*>(bias)[first + c]) : 0;
  }
}

// The rows that a token's taps read; null: zeros.
template <class T>
struct TapRows {
  const T* row[kMostTaps];
};

// Returns the row `back` tokens before the text's token number `t`, from the text or its state.
template <class T>
const T* row_before(const ShortConvForward& a, const T* text, const T* state, int64_t t,
                    int64_t back) {
  if (t >= back) return text + (t - back) * a.x_stride;
  return state ? state + (a.shape.width - 1 + t - back) * a.shape.channels : nullptr;
}

template <class T>
void forward_text(const ShortConvForward& a, const Taps& taps, int64_t sequence, int64_t first,
                  int64_t count) {
  const ShortConvShape& s = a.shape;
  const int64_t begin = s.cu_seqlens[sequence], tokens = s.cu_seqlens[sequence + 1] - begin;
  const T* x = static_cast<const T*>(a.x) + begin * a.x_stride + first;
  T* y = static_cast<T*>(a.y) + begin * a.y_stride + first;
  T* state = a.states ? reinterpret_cast<T*>(a.states[sequence]) + first : nullptr;
  const T* before = a.begins ? nullptr : state;
  for (int64_t t = 0; t < tokens; ++t, y += a.y_stride) {
    TapRows<T> rows;
    for (int64_t j = 0; j < s.width; ++j)
      rows.row[j] = row_before(a, x, before, t, s.width - 1 - j);
    for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
      F sum = load(taps.bias + i);
      for (int64_t j = 0; j < s.width; ++j)
        if (rows.row[j]) sum = fma(load(taps.weight[j] + i), load_n(rows.row[j] + i, n), sum);
      store_n(y + i, s.silu ? sum * sigmoid(sum) : sum, n);
    });
  }
  // Rows go to the state in order: each is read before its place is written.
  for (int64_t r = 0; state && tokens > 0 && r < s.width - 1; ++r) {
    const T* row = row_before(a, x, before, tokens, s.width - 1 - r);
    T* to = state + r * s.channels;
    if (row)
      std::memmove(to, row, static_cast<size_t>(count) * sizeof(T));
    else
      std::memset(to, 0, static_cast<size_t>(count) * sizeof(T));
  }
}

// Computes blocks of channels [begin, end).
template <class T>
void forward(const ShortConvForward& a, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kConvChannels,
                  count = std::min(kConvChannels, a.shape.channels - first);
    Taps taps;
    load_taps<T>(a.shape, a.weight, a.bias, first, count, taps);
    for (int64_t i = 0; i < a.shape.sequences; ++i) forward_text<T>(a, taps, i, first, count);
  }
}

// The gradients of a task's filters. Sums of 32 tokens are added first: the error grows with the
// root of fewer terms.
struct TapSums {
  Taps total, part;
  int64_t tokens = 0;
  void add() {
    for (int64_t i = 0; i < kConvChannels; i += kLanes) {
      for (int64_t j = 0; j < kMostTaps; ++j)
        store(total.weight[j] + i, load(total.weight[j] + i) + load(part.weight[j] + i));
      store(total.bias + i, load(total.bias + i) + load(part.bias + i));
    }
    part = {}, tokens = 0;
  }
};

// x and d s of the last tokens, in turns. d x of a token is written when all its d s are known, and
// its x is no longer read by then, so that d x may lie over x.
struct Recent {
  alignas(64) float x[kMostTaps][kConvChannels], d[kMostTaps][kConvChannels];
};

template <class T>
void backward_text(const ShortConvBackward& a, const Taps& taps, TapSums& sums, int64_t sequence,
                   int64_t first, int64_t count) {
  const ShortConvShape& s = a.shape;
  const int64_t begin = s.cu_seqlens[sequence], tokens = s.cu_seqlens[sequence + 1] - begin,
                width = s.width;
  const T *x = static_cast<const T*>(a.x) + begin * a.x_stride + first,
          *d_y = static_cast<const T*>(a.d_y) + begin * a.d_y_stride + first;
  T* d_x = static_cast<T*>(a.d_x) + begin * a.d_x_stride + first;
  Recent recent = {};
  for (int64_t t = 0; t < tokens + width - 1; ++t) {
    float* now = recent.d[t % width];
    for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
      if (t >= tokens) return store(now + i, set(0));
      store(recent.x[t % width] + i, load_n(x + t * a.x_stride + i, n));
      F sum = load(taps.bias + i);
      for (int64_t j = 0; j < width; ++j)
        sum = fma(load(taps.weight[j] + i), load(recent.x[(t + 1 + j) % width] + i), sum);
      F d = load_n(d_y + t * a.d_y_stride + i, n);
      if (s.silu) {
        const F open = sigmoid(sum);
        d = d * fma(sum * open, set(1) - open, open);
      }
      store(now + i, d);
      for (int64_t j = 0; j < width; ++j)
        store(sums.part.weight[j] + i,
              fma(d, load(recent.x[(t + 1 + j) % width] + i), load(sums.part.weight[j] + i)));
      store(sums.part.bias + i, load(sums.part.bias + i) + d);
    });
    if (++sums.tokens == 32) sums.add();
    const int64_t done = t - (width - 1);
    if (done < 0) continue;
    for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
      F sum = set(0);
      for (int64_t j = 0; j < width; ++j)
        sum =
            fma(load(taps.weight[j] + i), load(recent.d[(done + width - 1 - j) % width] + i), sum);
      store_n(d_x + done * a.d_x_stride + i, sum, n);
    });
  }
}

template <class T>
void backward(const ShortConvBackward& a, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kConvChannels,
                  count = std::min(kConvChannels, a.shape.channels - first);
    Taps taps;
    TapSums sums;
    load_taps<T>(a.shape, a.weight, a.bias, first, count, taps);
    for (int64_t i = 0; i < a.shape.sequences; ++i)
      backward_text<T>(a, taps, sums, i, first, count);
    sums.add();
    for (int64_t c = 0; c < count; ++c) {
      for (int64_t j = 0; a.d_weight && j < a.shape.width; ++j)
        a.d_weight[(first + c) * a.shape.width + j] += sums.total.weight[j][c];
      if (a.d_bias) a.d_bias[first + c] += sums.total.bias[c];
    }
  }
}

}  // namespace conv

}  // namespace forge::FORGE_ISA

#else

#include "kernels/cpu/parallel.h"
#include "kernels/short_conv/short_conv_args.h"

namespace forge {

constexpr int64_t kConvChannels = 128;  // of a task

}  // namespace forge

#define FORGE_KERNEL_FILE "kernels/short_conv/short_conv_cpu.cpp"
#include "kernels/cpu/each_isa.h"

namespace forge {
namespace {

int64_t blocks_of(const ShortConvShape& s) {
  return (s.channels + kConvChannels - 1) / kConvChannels;
}

}  // namespace

void short_conv_forward_cpu(const ShortConvForward& args, CpuLevel level) {
  parallel_loop(args, blocks_of(args.shape), 1,
                FORGE_PICK_OF(level, args.shape.type, conv::forward));
}

void short_conv_backward_cpu(const ShortConvBackward& args, CpuLevel level) {
  parallel_loop(args, blocks_of(args.shape), 1,
                FORGE_PICK_OF(level, args.shape.type, conv::backward));
}

}  // namespace forge

#endif
