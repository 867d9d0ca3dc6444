#pragma once
// Heads of latent attention (DeepSeek-AI, DeepSeek-V2, 2024) on plain memory: assembles them from
// the results of the projections, and splits their gradients again.
//
//   LatentHeads  q [rows, heads · head_dim], each head's `still` features without rotation, then
//                the rotated ones;
//                kv [rows, heads · (still + value_dim)], each head's unrotated part of k, then v;
//                key [rows, rope_dim], the rotated part of k, which all heads share;
//                ↔ all [rows, 3 · heads · head_dim]: q of all heads, then k, then v. The rotated
//                features of q and k come first, and v is filled up with zeros. Back: d key is the
//                sum over the heads, in fp32, rounded once; the zeros' gradients are dropped.
//   TrimHeads    x [rows, heads · head_dim] → y [rows, heads · value_dim], the first features of
//                each head; or back, with zeros
//   SplitGroups  x [rows, groups · 2 (first + second)]: group by group, two parts of `first`
//                features, then two of `second` ↔ y [rows, the same]: the first parts of all
//                groups, then their second, third and fourth parts
//
// with still = head_dim − rope_dim. Strides are elements from row to row. Bytes: every operand
// once.
//
// v is filled up so that every attention and every cache takes it as it is; a third of the products
// with v is wasted (128 of 192 features are used).
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

struct LatentHeads {
  Element type = Element::f32;
  int64_t rows = 0, heads = 0, head_dim = 0, rope_dim = 0, value_dim = 0;
  bool back = false;  // all is read, the others written
  void* q = nullptr;
  int64_t q_stride = 0;
  void* kv = nullptr;
  int64_t kv_stride = 0;
  void* key = nullptr;
  int64_t key_stride = 0;
  void* all = nullptr;  // may meet none of the others
  int64_t all_stride = 0;
};

struct TrimHeads {
  int64_t element_bytes = 4;  // 2 or 4
  int64_t rows = 0, heads = 0, head_dim = 0, value_dim = 0;
  bool back = false;
  void* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;  // may not meet x
  int64_t y_stride = 0;
};

struct SplitGroups {
  int64_t element_bytes = 4;  // 2 or 4
  int64_t rows = 0, groups = 0, first = 0, second = 0;
  bool back = false;  // y is read, x is written
  void* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;  // may not meet x
  int64_t y_stride = 0;
};

void latent_heads_cpu(const LatentHeads& args);
void trim_heads_cpu(const TrimHeads& args);
void split_groups_cpu(const SplitGroups& args);

// ---- on a GPU

void latent_heads_cuda(const LatentHeads& args, CudaStream stream);
void trim_heads_cuda(const TrimHeads& args, CudaStream stream);
void split_groups_cuda(const SplitGroups& args, CudaStream stream);

inline GpuLaunches launches(const LatentHeads& a) {
  const int64_t apart = a.heads * (a.head_dim + (a.head_dim - a.rope_dim) + a.value_dim) + a.rope_dim;
  GpuLaunches list{{a.back ? "latent_heads_back" : "latent_heads", matrix_bytes(a.type, a.rows, apart + 3 * a.heads * a.head_dim)}};
  if (a.back) list.push_back({"latent_key_back", matrix_bytes(a.type, a.rows, a.rope_dim * (1 + a.heads))});
  return list;
}
inline GpuLaunches launches(const TrimHeads& a) {
  const double width = static_cast<double>(a.heads) * static_cast<double>(a.head_dim + a.value_dim);
  return {{"trim_heads", static_cast<double>(a.element_bytes) * static_cast<double>(a.rows) * width}};
}
inline GpuLaunches launches(const SplitGroups& a) {
  const double width = 2 * static_cast<double>(a.groups) * static_cast<double>(a.first + a.second);
  return {{"split_groups", 2 * static_cast<double>(a.element_bytes) * static_cast<double>(a.rows) * width}};
}

}  // namespace forge
