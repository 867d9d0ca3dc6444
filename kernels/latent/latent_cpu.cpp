// One thread computes a row. Copies are of whole heads' parts, at the speed of memory.
#include <algorithm>
#include <cstring>

#include "kernels/common/each_row.h"
#include "kernels/latent/latent_args.h"

namespace forge {
namespace {

constexpr int64_t kRowsAtOnce = 16;

template <class T>
void put_together(const LatentHeads& a, int64_t row) {
  const int64_t still = a.head_dim - a.rope_dim, width = a.heads * a.head_dim;
  const T *q = row_of<T>(a.q, row, a.q_stride), *kv = row_of<T>(a.kv, row, a.kv_stride),
          *key = row_of<T>(a.key, row, a.key_stride);
  T* to = row_of<T>(a.all, row, a.all_stride);
  for (int64_t head = 0; head < a.heads;
       ++head, q += a.head_dim, kv += still + a.value_dim, to += a.head_dim) {
    std::copy_n(q + still, a.rope_dim, to);
    std::copy_n(q, still, to + a.rope_dim);
    std::copy_n(key, a.rope_dim, to + width);
    std::copy_n(kv, still, to + width + a.rope_dim);
    std::copy_n(kv + still, a.value_dim, to + 2 * width);
    std::fill_n(to + 2 * width + a.value_dim, a.head_dim - a.value_dim, T{});
  }
}

template <class T>
void take_apart(const LatentHeads& a, int64_t row) {
  const int64_t still = a.head_dim - a.rope_dim, width = a.heads * a.head_dim;
  const T* from = row_of<T>(a.all, row, a.all_stride);
  T *q = row_of<T>(a.q, row, a.q_stride), *kv = row_of<T>(a.kv, row, a.kv_stride),
    *key = row_of<T>(a.key, row, a.key_stride);
  for (int64_t i = 0; i < a.rope_dim; ++i) {
    float sum = 0;
    for (int64_t head = 0; head < a.heads; ++head) sum += to_float(from[width + head * a.head_dim + i]);
    from_float(sum, key[i]);
  }
  for (int64_t head = 0; head < a.heads;
       ++head, q += a.head_dim, kv += still + a.value_dim, from += a.head_dim) {
    std::copy_n(from, a.rope_dim, q + still);
    std::copy_n(from + a.rope_dim, still, q);
    std::copy_n(from + width + a.rope_dim, still, kv);
    std::copy_n(from + 2 * width, a.value_dim, kv + still);
  }
}

// Copies a row's parts between groups and their places apart.
void split_row(const SplitGroups& a, char* x, char* y) {
  const int64_t widths[] = {a.first, a.first, a.second, a.second};
  for (int64_t group = 0; group < a.groups; ++group) {
    char* part = y;
    for (const int64_t width : widths) {
      const int64_t bytes = width * a.element_bytes;
      char* there = part + group * bytes;
      std::memcpy(a.back ? x : there, a.back ? there : x, static_cast<size_t>(bytes));
      x += bytes, part += a.groups * bytes;
    }
  }
}

}  // namespace

void latent_heads_cpu(const LatentHeads& a) {
  each_row_of(a.type, a.rows, kRowsAtOnce, [&](auto zero, int64_t row) {
    using T = decltype(zero);
    a.back ? take_apart<T>(a, row) : put_together<T>(a, row);
  });
}

void trim_heads_cpu(const TrimHeads& a) {
  const int64_t whole = a.head_dim * a.element_bytes, kept = a.value_dim * a.element_bytes;
  each_row(a.rows, kRowsAtOnce, [&](int64_t row) {
    char *x = static_cast<char*>(a.x) + row * a.x_stride * a.element_bytes,
         *y = static_cast<char*>(a.y) + row * a.y_stride * a.element_bytes;
    for (int64_t head = 0; head < a.heads; ++head, x += whole, y += kept) {
      std::memcpy(a.back ? x : y, a.back ? y : x, static_cast<size_t>(kept));
      if (a.back) std::memset(x + kept, 0, static_cast<size_t>(whole - kept));
    }
  });
}

void split_groups_cpu(const SplitGroups& a) {
  each_row(a.rows, kRowsAtOnce, [&](int64_t row) {
    split_row(a, static_cast<char*>(a.x) + row * a.x_stride * a.element_bytes,
              static_cast<char*>(a.y) + row * a.y_stride * a.element_bytes);
  });
}

}  // namespace forge
