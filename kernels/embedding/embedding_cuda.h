#pragma once
// Lookup of token embeddings and its gradient on a GPU; formulas, shapes and bytes as in
// embedding_args.h.
#include <string>

#include "kernels/device/launch.h"
#include "kernels/device/launches.h"
#include "kernels/embedding/embedding_args.h"

namespace forge {

std::string embedding_forward_cuda_refusal(const EmbeddingForward& args);
void embedding_forward_cuda(const EmbeddingForward& args, CudaStream stream);
void embedding_backward_cuda(const EmbeddingBackward& args, CudaStream stream);

inline GpuLaunches launches(const EmbeddingForward& a) { return {{"embedding_forward", matrix_bytes(a.type, a.tokens, a.width)}}; }
inline GpuLaunches launches(const EmbeddingBackward& a) {
  return {{a.order ? "embedding_sorted" : "embedding_atomic", matrix_bytes(a.type, a.tokens, a.width)}};
}

}  // namespace forge
