// LibTorch's flash launchers (kernels/attention/flash_params.h) as plain loops in fp32 on host
// memory, with checks that the kernels lack and the accesses of each launch. These loops only round
// results; FlashAttention also rounds p and d s.
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/attention/flash_params.h"
#include "kernels/device/numbers.cuh"
#include "tests/emulator/grid.h"

namespace pytorch_flash {
namespace {

constexpr int64_t kKeysOfBlock = 64;  // the smallest of the kernels' blocks

using forge::narrow;
using forge::widen;
namespace emulator = forge::emulator;

// Compares the launcher's own template arguments with its parameters.
template <class T, int kHeadDim>
void check(const Flash_fwd_params& p) {
  const auto demand = [](bool holds, const char* what) {
    if (!holds) throw emulator::Fault(std::string("flash attention: ") + what);
  };
  demand(p.is_bf16 == std::is_same_v<T, cutlass::bfloat16_t>, "another type than the launcher's");
  demand(p.head_dim <= kHeadDim && p.head_dim > (kHeadDim <= 128 ? kHeadDim - 32 : kHeadDim - 64), "another launcher's head_dim");
  demand(p.head_dim % 8 == 0 && p.head_dim_rounded == kHeadDim, "head_dim");
  demand(p.is_causal && p.lse_is_packed && p.keys_are_cumulative && p.keep == 1, "packed causal attention without dropout");
  demand(p.cu_seqlens_q == p.cu_seqlens_k && p.longest_q == p.longest_k, "self-attention");
  demand(p.heads == p.kv_heads * p.group, "heads");
  for (const void* pointer : {p.q, p.k, p.v, static_cast<const void*>(p.out)})
    demand(reinterpret_cast<uintptr_t>(pointer) % 16 == 0, "a misaligned operand");
  for (const int64_t stride : {p.q_row_stride, p.k_row_stride, p.v_row_stride, p.out_row_stride}) demand(stride % 8 == 0, "misaligned rows");
}

template <class T>
using Number = std::conditional_t<std::is_same_v<T, cutlass::bfloat16_t>, forge::bf16, forge::fp16>;

// The tokens of one sequence of the launch, and the offset of its rows in scratch.
struct Sequence {
  int64_t begin = 0, length = 0, in_scratch = 0;
};
std::vector<Sequence> sequences_of(const Flash_fwd_params& p, const char* name) {
  emulator::touch(name, p.cu_seqlens_q, 1, 4 * (p.sequences + 1), 0, false);
  std::vector<Sequence> all;
  for (int64_t i = 0; i < p.sequences; ++i) {
    const int64_t begin = p.cu_seqlens_q[i], length = p.cu_seqlens_q[i + 1] - begin;
    if (length > p.longest_q) throw emulator::Fault("flash attention: a sequence is longer than the longest");
    if (length > 0) all.push_back({begin, length, begin + 128 * i});
  }
  return all;
}

// Heads of the tokens of one sequence, element (token, head, i) at token · row + head · of_head +
// i.
template <class T>
struct Rows {
  T* data;
  int64_t row, of_head;
  T& at(int64_t token, int64_t head, int64_t i) const { return data[token * row + head * of_head + i]; }
};

// A launch's view of its operands.
template <class N>
struct Launch {
  const Flash_fwd_params& p;
  const char* name;

  template <class T>
  Rows<T> rows(const Sequence& s, T* data, int64_t heads, int64_t row, int64_t of_head, bool writes) const {
    T* first = data + s.begin * row;
    emulator::touch(name, first, s.length, ((heads - 1) * of_head + p.head_dim) * static_cast<int64_t>(sizeof(T)), row * static_cast<int64_t>(sizeof(T)), writes);
    return {first, row, of_head};
  }
  Rows<const N> read(const Sequence& s, const void* data, int64_t heads, int64_t row, int64_t of_head) const {
    return rows(s, static_cast<const N*>(data), heads, row, of_head, false);
  }
  Rows<N> written(const Sequence& s, void* data, int64_t heads, int64_t row, int64_t of_head) const {
    return rows(s, static_cast<N*>(data), heads, row, of_head, true);
  }
  Rows<const N> q(const Sequence& s) const { return read(s, p.q, p.heads, p.q_row_stride, p.q_head_stride); }
  Rows<const N> k(const Sequence& s) const { return read(s, p.k, p.kv_heads, p.k_row_stride, p.k_head_stride); }
  Rows<const N> v(const Sequence& s) const { return read(s, p.v, p.kv_heads, p.v_row_stride, p.v_head_stride); }
  float* lse(const Sequence& s, int64_t head, bool writes) const {
    float* first = p.lse + head * p.tokens + s.begin;
    emulator::touch(name, first, 1, 4 * s.length, 0, writes);
    return first;
  }
  float product(Rows<const N> a, int64_t token, int64_t head, Rows<const N> b, int64_t of_token, int64_t of_head) const {
    float sum = 0;
    for (int64_t i = 0; i < p.head_dim; ++i) sum += widen(a.at(token, head, i)) * widen(b.at(of_token, of_head, i));
    return sum;
  }
};

template <class N>
void forward(const Flash_fwd_params& p, const char* name) {
  const Launch<N> launch{p, name};
  for (const Sequence& s : sequences_of(p, name)) {
    const auto q = launch.q(s), k = launch.k(s), v = launch.v(s);
    const Rows<N> out = launch.written(s, p.out, p.heads, p.out_row_stride, p.out_head_stride);
    for (int64_t h = 0; h < p.heads; ++h) {
      float* lse = launch.lse(s, h, true);
      for (int64_t i = 0; i < s.length; ++i) {
        std::vector<float> weights;
        float largest = -HUGE_VALF, total = 0;
        for (int64_t j = 0; j <= i; ++j) {
          weights.push_back(p.scale * launch.product(q, i, h, k, j, h / p.group));
          largest = std::max(largest, weights.back());
        }
        for (float& weight : weights) total += weight = std::exp(weight - largest);
        lse[i] = largest + std::log(total);
        for (int64_t c = 0; c < p.head_dim; ++c) {
          float sum = 0;
          for (int64_t j = 0; j <= i; ++j) sum += weights[static_cast<size_t>(j)] * widen(v.at(j, h / p.group, c));
          out.at(i, h, c) = narrow<N>(sum / total);
        }
      }
    }
  }
}

// Returns the number of blocks of keys that run in parallel, each with its own sums.
int64_t splits_of(const Flash_bwd_params& p) {
  if (!p.deterministic) return 1;
  const int64_t grids = int64_t{p.sequences} * p.heads;
  return (emulator::multiprocessors() + grids - 1) / grids;
}

// Returns the rows of the fp32 sums of one sequence in a split: whole blocks of 128 are cleared and
// added to.
Rows<float> sums_of(const Flash_bwd_params& p, const Sequence& s, const char* name, bool writes, int64_t split = 0) {
  const int64_t row = int64_t{p.heads} * p.head_dim_rounded;
  float* first = p.d_q_sums + split * p.d_q_sums_stride + s.in_scratch * row;
  emulator::touch(name, first, (s.length + 127) / 128 * 128, 4 * row, 4 * row, writes);
  return {first, row, p.head_dim_rounded};
}
float* dots_of(const Flash_bwd_params& p, const Sequence& s, int64_t head, const char* name, bool writes) {
  float* first = p.dots + head * (p.tokens + 128 * p.sequences) + s.in_scratch;
  emulator::touch(name, first, 1, 4 * s.length, 0, writes);
  return first;
}

template <class N>
void dots(const Flash_bwd_params& p, const char* name) {
  const Launch<N> launch{p, name};
  for (const Sequence& s : sequences_of(p, name)) {
    const auto out = launch.read(s, p.out, p.heads, p.out_row_stride, p.out_head_stride),
               d_out = launch.read(s, p.d_out, p.heads, p.d_out_row_stride, p.d_out_head_stride);
    if (!p.deterministic) {
      const Rows<float> sums = sums_of(p, s, name, true);
      for (int64_t i = 0; i < (s.length + 127) / 128 * 128 * sums.row; ++i) sums.data[i] = 0;
    }
    for (int64_t h = 0; h < p.heads; ++h) {
      float* dot = dots_of(p, s, h, name, true);
      for (int64_t i = 0; i < s.length; ++i) dot[i] = launch.product(d_out, i, h, out, i, h);
    }
  }
}

template <class N>
void gradients(const Flash_bwd_params& p, const char* name) {
  const Launch<N> launch{p, name};
  for (const Sequence& s : sequences_of(p, name)) {
    const auto q = launch.q(s), k = launch.k(s), v = launch.v(s),
               d_out = launch.read(s, p.d_out, p.heads, p.d_out_row_stride, p.d_out_head_stride);
    const Rows<N> d_k = launch.written(s, p.d_k, p.heads, p.d_k_row_stride, p.d_k_head_stride),
                  d_v = launch.written(s, p.d_v, p.heads, p.d_v_row_stride, p.d_v_head_stride);
    std::vector<Rows<float>> sums;
    for (int64_t split = 0; split < splits_of(p); ++split)
      sums_of(p, s, name, false, split), sums.push_back(sums_of(p, s, name, true, split));
    for (int64_t h = 0; h < p.heads; ++h) {
      const float *lse = launch.lse(s, h, false), *dot = dots_of(p, s, h, name, false);
      const int64_t kv = h / p.group;
      for (int64_t j = 0; j < s.length; ++j) {
        const Rows<float>& to = sums[static_cast<size_t>(j / kKeysOfBlock) % sums.size()];
        std::vector<float> of_k(static_cast<size_t>(p.head_dim)), of_v = of_k;
        for (int64_t i = j; i < s.length; ++i) {
          const float weight = std::exp(p.scale * launch.product(q, i, h, k, j, kv) - lse[i]);
          const float d_score = weight * (launch.product(d_out, i, h, v, j, kv) - dot[i]);
          for (int64_t c = 0; c < p.head_dim; ++c) {
            of_v[static_cast<size_t>(c)] += weight * widen(d_out.at(i, h, c));
            of_k[static_cast<size_t>(c)] += d_score * widen(q.at(i, h, c));
            to.at(i, h, c) += d_score * widen(k.at(j, kv, c));
          }
        }
        for (int64_t c = 0; c < p.head_dim; ++c) {
          d_k.at(j, h, c) = narrow<N>(p.scale * of_k[static_cast<size_t>(c)]);
          d_v.at(j, h, c) = narrow<N>(of_v[static_cast<size_t>(c)]);
        }
      }
    }
  }
}

template <class N>
void d_q(const Flash_bwd_params& p, const char* name) {
  const Launch<N> launch{p, name};
  for (const Sequence& s : sequences_of(p, name)) {
    std::vector<Rows<float>> sums;
    for (int64_t split = 0; split < splits_of(p); ++split) sums.push_back(sums_of(p, s, name, false, split));
    const Rows<N> d_q = launch.written(s, p.d_q, p.heads, p.d_q_row_stride, p.d_q_head_stride);
    for (int64_t i = 0; i < s.length; ++i)
      for (int64_t h = 0; h < p.heads; ++h)
        for (int64_t c = 0; c < p.head_dim; ++c) {
          float sum = 0;
          for (const Rows<float>& part : sums) sum += part.at(i, h, c);
          d_q.at(i, h, c) = narrow<N>(p.scale * sum);
        }
  }
}

}  // namespace

template <class T, int kHeadDim, bool kCausal>
void run_mha_fwd_(Flash_fwd_params& params, CUstream_st* stream) {
  check<T, kHeadDim>(params);
  emulator::queue("flash_forward", stream, [p = params] { forward<Number<T>>(p, "flash_forward"); });
}

template <class T, int kHeadDim, bool kCausal>
void run_mha_bwd_(Flash_bwd_params& params, CUstream_st* stream) {
  check<T, kHeadDim>(params);
  emulator::queue("flash_dots", stream, [p = params] { dots<Number<T>>(p, "flash_dots"); });
  emulator::queue("flash_gradients", stream, [p = params] { gradients<Number<T>>(p, "flash_gradients"); });
  emulator::queue("flash_d_q", stream, [p = params] { d_q<Number<T>>(p, "flash_d_q"); });
}

#define FORGE_OF_HEAD_DIM(T, N)                                              \
  template void run_mha_fwd_<cutlass::T, N, true>(Flash_fwd_params&, CUstream_st*); \
  template void run_mha_bwd_<cutlass::T, N, true>(Flash_bwd_params&, CUstream_st*);
#define FORGE_OF_TYPE(T)                                                                          \
  FORGE_OF_HEAD_DIM(T, 32) FORGE_OF_HEAD_DIM(T, 64) FORGE_OF_HEAD_DIM(T, 96)                      \
  FORGE_OF_HEAD_DIM(T, 128) FORGE_OF_HEAD_DIM(T, 192) FORGE_OF_HEAD_DIM(T, 256)
FORGE_OF_TYPE(half_t)
FORGE_OF_TYPE(bfloat16_t)

}  // namespace pytorch_flash
