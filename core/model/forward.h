#pragma once
// The definition of every op of a forward list in plain ATen, and a run of such a list.
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "core/model/batch_tensors.h"
#include "core/model/bound.h"
#include "core/graph/graph.h"
#include "kernels/attention/attention.h"
#include "kernels/experts/experts.h"

namespace forge {

// Computes attention of an op by its rule: q [tokens, heads, head_dim], k and v [tokens, kv_heads,
// head_dim] → [tokens, heads · head_dim].
using Attend = std::function<at::Tensor(const Op&, const AttentionRule& rule, const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v)>;

// An op of a forward list over tensors.
struct OpCall {
  const Graph& graph;
  const Op& op;
  const std::vector<BoundModule>& modules;  // of the list
  const BatchTensors& batch;
  const Attend& attend;
  bool of_source;       // its rows are those that an encoder reads
  c10::ScalarType type;  // of its result

  const BoundModule& module(size_t i = 0) const { return modules[static_cast<size_t>(op.modules[i])]; }
};

// Returns what the op makes of what it reads: its parts, where modules or columns make one each, or
// its results, without those that only a kernel's backward reads. `in` are the values in the op's
// order; of dora, what each module made. Differentiable in `in` and the modules' tensors.
std::vector<at::Tensor> computed(const OpCall& call, const std::vector<at::Tensor>& in);
AttentionRule rule_of_attention(const OpCall& call);
// Returns x [tokens, Σ widths] with each part multiplied by its factor.
at::Tensor scaled_parts(const at::Tensor& x, const PartFactors& factors);

struct ForwardRun {
  const Graph& graph;
  const Model& model;
  const std::vector<BoundModule>& modules;
  const BatchTensors& batch;
  Attend attend;
  std::vector<at::Tensor> values = std::vector<at::Tensor>(graph.values.size());  // by ValueId
  std::function<void(size_t op, const at::Tensor& x)> watch = {};                  // sees what each linear op reads
};

// Returns the angles by which a rope op turns its input number `input`.
const RopeTables& angles_of(const Op& rope, size_t input, const BatchTensors& batch);
// Returns the rows of the table that an embedding op looks up: int64 [tokens], or [source tokens].
at::Tensor rows_read(const Op& embed, bool source, const BatchTensors& batch);
// Returns `scale` as a number of that type, the way transformers multiplies embeddings.
double rounded(double scale, c10::ScalarType type);
// Returns attention inside each sequence of the run's own micro-batch.
Attend packed_attend(const BatchTensors& batch);

// Runs ops [begin, end). A value with rows is freed after its last reader in that range, except
// `result`.
void run_forward(ForwardRun& run, size_t begin, size_t end, ValueId result);
// Runs these ops, in order, and frees nothing.
void run_ops(ForwardRun& run, const std::vector<size_t>& ops);

}  // namespace forge
