#pragma once
// Interface of a training provider. It computes embedding, layers and final norm of a micro-batch,
// and their gradients. The head and the objective between the two lists, the loop and the optimizer
// are written once around it.
#include <ATen/core/Tensor.h>

#include <optional>

#include "core/model/batch_tensors.h"
#include "core/model/step_watch.h"
#include "kernels/lm_head/lm_head_args.h"

namespace forge {

// Tensors that the head reads and writes. Memory that a provider does not have is undefined, and
// the head allocates its own.
struct HeadRows {
  at::Tensor rows;     // [targets, hidden]: the final norm of the supervised positions
  at::Tensor d_rows;   // like rows: where their gradient goes
  at::Tensor scratch;  // bytes: for a chunk of logits
  // The head in the provider's list, if it runs one, and its arguments (head_args) if it is run
  // without logits.
  const Graph* list = nullptr;
  const Op* op = nullptr;
  std::optional<LmHead> fused;
};

// The ops of a provider's list that follow the last micro-batch of a step, and memory for them.
struct UpdateOps {
  const Graph* list = nullptr;
  const Op *norm = nullptr, *update = nullptr;
  void* workspace = nullptr;  // of the norm; null: whoever runs it takes its own
};

class StepProvider {
 public:
  virtual ~StepProvider() = default;

  // Computes the rows for the head. `keep` false: nothing is kept for a backward (evaluation). The
  // result lives until the next call.
  virtual HeadRows forward(const BatchTensors& batch, bool keep) = 0;

  // Takes d rows [targets, hidden] of the last forward with `keep`, and adds the gradients of all
  // that is trained to their fp32 buffers.
  virtual void backward(at::Tensor d_rows, const BatchTensors& batch) = 0;

  // Returns the loss of the last forward with `keep` that balances the experts of a model
  // (kernels/experts). The next backward adds its gradient times the argument. 0 for a model
  // without experts.
  virtual double balance(double) { return 0; }

  // Returns the ops of the update. They are only set by a provider that runs a list.
  virtual UpdateOps update_ops() { return {}; }

  // Reports every op from now on. A provider that runs no list of ops reports nothing.
  virtual void watch(const StepWatch&) {}
};

}  // namespace forge
