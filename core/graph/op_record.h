#pragma once
// A record of each kind of op: its name, cost and types, its gradient, and how a device runs it. It
// is in the op's folder:
//
//   namespace ops { extern const OpRecord norm; }    kernels/rms_norm/norm_op.h
//   if (op.kind == &ops::norm) …
//
// A null function means that the op has no such part.
#include <algorithm>
#include <functional>

#include "core/graph/graph.h"

namespace forge {

class Gradients;     // gradients.h
struct Call;         // kernels/call/call.h
struct OpRun;        // kernels/call/run.h

// Multiplications and additions of one op beside its values' traffic, for all its rows.
using Flops = double (*)(const Graph&, const Op&, double rows, double mean_length);
// Returns true if an op's kernels take the types of its values.
using Types = bool (*)(const Graph&, const Op&);

namespace flops {
double none(const Graph&, const Op&, double, double);
// Counts 8 for each element of the first input.
double elementwise(const Graph& graph, const Op& op, double rows, double mean_length);

// Returns the number of matrices in a module, or in a row of modules.
double held(const ModuleUse& module);
// Return the elements of the op's weights, and of their adapters.
double weights(const Graph& graph, const Op& op);
double factors(const Graph& graph, const Op& op);

// Widths of an op's modules: the input that all read, and the sums of their outputs and ranks.
struct Sides {
  double in = 0, out = 0, ranks = 0;
};
Sides sides(const Graph& graph, const Op& op);
}  // namespace flops

namespace types {
bool any(const Graph&, const Op&);
// True if the first input is of the compute type.
bool compute(const Graph& graph, const Op& op);
// True if the first input has the type of the result, or has not.
bool of_result(const Graph& graph, const Op& op);
bool other_than_result(const Graph& graph, const Op& op);
// True for the gradient of a norm: the stream and its gradients must have one type.
bool norm_gradient(const Graph& graph, const Op& op);
}  // namespace types

// An op's largest part: a pass over its values, or products of matrices.
enum class Bulk { pass, products };
// The matrices of its modules that an op reads.
enum class Reads { weights, factors };

// Copies of an op's results, of its operands and of its first operand in fp32 that LibTorch holds
// at the same time, where it computes the op: what the definition makes and, of a gradient, what
// autograd keeps of it.
struct AtenCopies {
  int64_t results = 1, operands = 0, wide = 0;
};

// The op whose gradient another is, and which of that one's inputs are the op's: those from the
// second on, so many, or all. Autograd through the op's definition makes the gradient then.
struct GradientOf {
  OpKind op = nullptr;
  size_t inputs = 0;  // 0: all
};

struct OpRecord {
  const char* name;
  Flops flops = flops::none;
  Types types = types::compute;
  Bulk bulk = Bulk::pass;
  Reads reads = Reads::weights;
  bool to_host = false;  // its input is copied to the host's memory
  bool waits = false;    // for a copy, and costs nothing itself
  // Makes the ops of the gradient.
  void (*derive)(Gradients& g, const Op& forward) = nullptr;
  // Runs the op's kernels; null: the list's owner does.
  void (*run)(const OpRun&) = nullptr;
  // Returns the bytes that the kernels need beside the values; null: none.
  int64_t (*workspace)(const Call&) = nullptr;
  AtenCopies copies = {};
  GradientOf gradient_of = {};
};

struct Cost {
  double flops = 0, bytes = 0;  // bytes that must at least be moved between memory and the processor
};

inline const char* name_of(OpKind kind) { return kind->name; }
// True if most of the op's time goes into products of matrices.
inline bool is_product(OpKind kind) { return kind->bulk == Bulk::products; }
// True if kernels take the types of the op's values: the stream's may be fp32 where all others are
// of the compute type.
bool types_agree(const Graph& graph, const Op& op);

// Returns the rows of an op's first input, or of what it makes; 0 for an op without values.
int64_t rows_of(const Graph& graph, const Op& op, const StepSizes& sizes);
// True if `is`, a member of ModuleUse or a function of one, holds for a module of the op.
template <class Is>
bool any_module(const Graph& graph, const Op& op, Is is) {
  return std::any_of(op.modules.begin(), op.modules.end(), [&](int32_t at) {
    return std::invoke(is, graph.modules[static_cast<size_t>(at)]);
  });
}
// Return the sums over the op's modules.
int64_t ranks_of(const Graph& graph, const Op& op);
int64_t outs_of(const Graph& graph, const Op& op);

// Returns the cost for the micro-batch of `sizes`. `mean_length` is the tokens that a token attends
// to on average, times two.
Cost cost_of(const Graph& graph, const Op& op, const StepSizes& sizes, double mean_length);

}  // namespace forge
