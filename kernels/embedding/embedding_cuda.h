#pragma once
// Lookup of token embeddings and its gradient on a GPU; formulas, shapes and bytes as in
// embedding_args.h.
#include <string>

#include "kernels/device/launch.h"
#include "kernels/embedding/embedding_args.h"

namespace forge {

std::string embedding_forward_cuda_refusal(const EmbeddingForward& args);
void embedding_forward_cuda(const EmbeddingForward& args, CudaStream stream);
void embedding_backward_cuda(const EmbeddingBackward& args, CudaStream stream);

}  // namespace forge
