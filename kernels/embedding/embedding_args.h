#pragma once
// Lookup of token embeddings and its gradient, on plain memory.
//
//   y_t         = scale · table[ids_t]
//   d table[v] += scale · Σ d y_t over t with ids_t = v, t ascending
//
// A negative id is left out: zeros in y, nothing in the gradient. fp32 sums. On a CPU the gradient
// adds in the order of the tokens whatever the number of threads (a thread owns the rows of its
// residue class and walks all ids), so it is the same bit for bit. On a GPU that takes `order`;
// without it all tokens add at once with atomics, fast also when one id fills the batch, and the
// rounding varies. Bytes: forward 2 · tokens · width elements; backward reads d y once and reads
// and writes the rows that occur, once a token.
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/common/element.h"
#include "kernels/cpu/level.h"
#include "kernels/device/launch.h"
#include "kernels/device/launches.h"

namespace forge {

struct EmbeddingForward {
  Element type = Element::f32;
  int64_t tokens = 0, width = 0, vocab = 0;
  const int64_t* ids = nullptr;  // [tokens], below vocab
  const void* table = nullptr;   // [vocab, width]
  void* y = nullptr;
  int64_t y_stride = 0;
  float scale = 1;
  std::optional<Element> table_type;  // if it is not `type`; on a GPU fp16 for fp32 alone
};

struct EmbeddingBackward {
  Element type = Element::f32;  // of d_y
  int64_t tokens = 0, width = 0, vocab = 0;
  const int64_t* ids = nullptr;
  const void* d_y = nullptr;
  int64_t d_y_stride = 0;
  float* d_table = nullptr;        // [vocab, width], added to
  const int64_t* order = nullptr;  // [tokens] token numbers sorted by id, stable; or null. A CPU needs none
  float scale = 1;
  int64_t frozen = -1;  // an id whose row gets no gradient, as padding has none
};

void embedding_forward_cpu(const EmbeddingForward& args, CpuLevel level = cpu_level());
void embedding_backward_cpu(const EmbeddingBackward& args, CpuLevel level = cpu_level());

// ---- on a GPU

std::string embedding_forward_cuda_refusal(const EmbeddingForward& args);
void embedding_forward_cuda(const EmbeddingForward& args, CudaStream stream);
void embedding_backward_cuda(const EmbeddingBackward& args, CudaStream stream);

inline GpuLaunches launches(const EmbeddingForward& a) { return {{"embedding_forward", matrix_bytes(a.type, a.tokens, a.width)}}; }
inline GpuLaunches launches(const EmbeddingBackward& a) {
  return {{a.order ? "embedding_sorted" : "embedding_atomic", matrix_bytes(a.type, a.tokens, a.width)}};
}

}  // namespace forge
