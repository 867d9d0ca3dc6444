#pragma once
// Rotary position embedding (Su et al., RoFormer, 2021) in place on the q and k parts of one fused
// projection.
//
// A token's row is [heads · head_dim of q | kv_heads · head_dim of k | v …]; v and features past
// rotary_dim stay. Feature i of a head is a pair with feature i + rotary_dim / 2 (half_split,
// Hugging Face's layout) or features 2i and 2i + 1 are (interleaved, GPT-J's and Meta's): with
// angle t of the token's position
//
//   a' = a cos t − b sin t
//   b' = b cos t + a sin t
//
// The backward rotates by −t; its input is the gradient.
//
// Arithmetic is in fp32, rounded once. Bytes: q and k read and written once, and a cosine and a
// sine row a token.
#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

enum class RopeLayout { half_split, interleaved };

struct Rope {
  Element type = Element::f32;
  RopeLayout layout = RopeLayout::half_split;
  bool backward = false;
  int64_t tokens = 0, heads = 0, kv_heads = 0, head_dim = 0,
          rotary_dim = 0;  // rotary_dim is even and ≤ head_dim
  void* qkv = nullptr;
  int64_t stride = 0;                  // elements from token to token
  const float* cosine = nullptr;       // [positions, rotary_dim / 2]
  const float* sine = nullptr;         // like cosine
  const int32_t* positions = nullptr;  // [tokens] rows of the tables, or null: row = token
};

void rope_cpu(const Rope& args, CpuLevel level = cpu_level());

// ---- on a GPU
//
// q, k and v are afterwards the strided parts of the same buffer: the split moves nothing.

void rope_cuda(const Rope& args, CudaStream stream);

inline GpuLaunches launches(const Rope& a) {
  const char* name = a.layout == RopeLayout::interleaved ? "rope_interleaved" : "rope_half";
  return {{name, 2 * matrix_bytes(a.type, a.tokens, (a.heads + a.kv_heads) * a.head_dim)}};
}

}  // namespace forge
