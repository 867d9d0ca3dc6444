#pragma once
// Rehearses the ops of a forward list without tensors, as the reference provider computes them:
// each holds and frees the memory of core/model/forward.cpp and kernels/, in their order. It also
// rehearses LibTorch's autograd: a node's saved tensors are freed when it has run, nodes run in the
// reverse of the order in which they were made, and a second gradient of the same tensor is added
// in place if the first has no other owner.
#include <map>
#include <utility>
#include <vector>

#include "core/model/graph/graph.h"
#include "core/plan/memory/memory.h"
#include "core/plan/memory/product_scratch.h"
#include "providers/reference/ledger.h"

namespace forge {

// The tensors that autograd keeps for an op until its backward has run. For a norm: the input in
// fp32, 1 / rms, and the normed value if the weight is trained. For attention: queries, keys and
// values as heads, result and logsumexp, and the numbers for pairs of tokens. For a gated
// activation: its three factors.
struct SavedModule {
  Held x, mask, s, unscaled;
};
struct SavedOp {
  const Op* op = nullptr;
  std::vector<Held> saved;
  std::vector<SavedModule> modules;  // of a linear
};

class RehearsedOps {
 public:
  RehearsedOps(const ActivationShape& shape, const Graph& list, Ledger& ledger)
      : shape_(shape),
        list_(list),
        ledger_(ledger),
        products_(shape.instructions, shape.threads),
        values_(list.values.size()) {}

  // Runs ops [begin, end) from `input`, the value `from` that they read from before, to `to`.
  // `nodes` null: without autograd. `use` is the use that their results are counted under.
  Held run(size_t begin, size_t end, ValueId from, const Held& input, ValueId to, Use use,
           std::vector<SavedOp>* nodes);
  // Sets the encoder's result, which the ops after it read too; its gradient adds up in pull(),
  // until it is taken.
  void read_source(ValueId source, const Held& held) { source_ = source, value(source) = held; }
  Held take_source_gradient() { return std::exchange(source_gradient_, nullptr); }
  // Returns d input from d output. Frees the nodes' tensors.
  Held pull(std::vector<SavedOp> nodes, ValueId from, ValueId to, const Held& d_output);

  // Rehearses the final norm, under autograd beside the list. `residual`: the input has another
  // gradient, which belongs to the caller. `x` is the norm's input, whose type decides.
  Held norm(Use use, ValueId x, int64_t rows, int64_t heads, bool trained, SavedOp* node);
  Held norm_backward(Use use, ValueId x, int64_t rows, bool trained, SavedOp& node, Held grad, bool residual);
  // Holds the bytes that LibTorch takes beside the result while it multiplies.
  void multiply(const Product& product);

 private:
  struct Gradient {
    Held held;
    bool shared = false;  // with the stream's, so that a sum is a new tensor
  };

  int64_t tokens() const { return rows_; }
  // Sets the rows to those of the op.
  void take_rows(const Op& op) {
    if (!op.in.empty()) rows_ = rows_of_value(op.in[0]);
  }
  int64_t rows_of_value(ValueId value) const {
    return list_.buffer_of(value).rows == Rows::source ? shape_.source_tokens : shape_.micro_batch_tokens;
  }
  int64_t element() const { return bytes_of(shape_.precision); }
  bool narrow() const { return element() < 4; }  // computes in bf16 or fp16, norms in fp32
  int64_t width(ValueId value) const { return list_.value(value).width; }
  Held& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  Held wide(Use use, int64_t width) { return ledger_.hold(use, element() * tokens() * width); }
  // Holds a value in its own type: the stream's may be fp32 where the rest is not.
  Held whole(Use use, ValueId id) { return ledger_.hold(use, list_element(id) * tokens() * width(id)); }
  int64_t list_element(ValueId id) const { return list_.buffer_of(id).type == ValueType::fp32 ? 4 : element(); }
  bool narrow(ValueId id) const { return list_element(id) < 4; }
  Held product(Use use, int64_t in, int64_t out);  // x W: [tokens, in] → [tokens, out]
  Held weight_grad(int64_t in, int64_t out);       // d Yᵀ X, [out, in]

  void forward(const Op& op, Use use, SavedOp* node);
  void backward(SavedOp& node);
  Held take(ValueId value);
  void set_result(const Op& op, size_t module, const Held& y);
  void linear(const Op& op, Use use, SavedOp* node);
  Held adapted(const ModuleUse& module, const Held& x, Use use, SavedModule* saved);
  void linear_backward(SavedOp& node);
  void layer_norm(const Op& op, Use use, SavedOp* node);
  void clamped_glu(const Op& op, Use use, SavedOp* node);
  void clamped_glu_backward(SavedOp& node);
  void route(const Op& op, Use use, SavedOp* node);
  void expert_linear(const Op& op, Use use, SavedOp* node);
  void expert_linear_backward(SavedOp& node);
  void dora(const Op& op, Use use, SavedOp* node);
  void dora_backward(SavedOp& node);
  Held module_gradient(const Op& op, size_t module);
  Held adapted_backward(const ModuleUse& module, SavedModule& saved, Held grad, Held sum);
  Held turned(int64_t width, Use use);
  Held turned_backward(Held grad, int64_t width);
  void attention(const Op& op, Use use, SavedOp* node);
  void attention_backward(SavedOp& node);
  bool padded() const { return shape_.spec.reads_source() && shape_.several_sequences; }  // texts are computed in groups
  void padded_attention(const Op& op, Use use, SavedOp* node);
  void padded_attention_backward(SavedOp& node);
  const PaddedSide& queries_of(const Op& op) const { return op.attributes.sight == Sight::whole ? shape_.sources : shape_.answers; }
  const PaddedSide& keys_of(const Op& op) const { return op.attributes.sight == Sight::causal ? shape_.answers : shape_.sources; }
  struct Pairs {
    Held scores, narrow;  // narrow: the probabilities in 16 bits
  };
  Pairs scores(const Op& op, Use use, const SavedOp* node);
  // Tokens of the longest texts among an op's queries and keys.
  struct Lengths {
    int64_t queries = 0, keys = 0;
  };
  Lengths longest(const Op& attention) const;
  int64_t product_scratch(const Product& product);
  // Return the bytes of LibTorch's attention: each thread takes a block, and its products their
  // own.
  int64_t forward_scratch(const Op& op);
  int64_t backward_scratch(const Op& op);

  const ActivationShape& shape_;
  int64_t rows_ = 0;  // of the op at hand
  const Graph& list_;
  Ledger& ledger_;
  ProductScratch products_;
  std::vector<Held> values_;
  ValueId source_ = kNoValue;
  Held source_gradient_;
  std::map<ValueId, Gradient> gradients_;
  std::vector<Held> weight_grads_;  // of the piece at hand, before they are added up
};

}  // namespace forge
