#pragma once
// Appends the gradients to a forward list, in reverse order, and what is computed again for them.
//
// A value that the backward reads is kept from the forward if `keep` says so; otherwise the ops
// that made it are repeated right before its first reader, back to values that are kept. Gradients
// are made only where something below is trained.
//
// The rule of each op is its record's (OpRecord::derive), a function over this class.
#include <map>
#include <set>

#include "core/graph/op_record.h"

namespace forge {

// Forward values that stay in memory until the backward has read them.
using KeptValues = std::set<ValueId>;

class Gradients {
 public:
  // Kinds of ops that no rule makes: x → x in the other type, and the sum of two gradients in the
  // place of the first.
  struct Kinds {
    OpKind cast, add;
  };
  Gradients(Graph forward, const KeptValues& kept, const Kinds& kinds) : graph(std::move(forward)), kept_(kept), kinds_(kinds) {}
  Graph derive();

  // ---- for the rules

  Graph graph;

  // Returns an op of that kind, layer and attributes; the second, with the modules too.
  static Op like(OpKind kind, const Op& forward, std::vector<ValueId> in = {});
  static Op with_modules(OpKind kind, const Op& forward, std::vector<ValueId> in);
  Op& push(Op op);
  // True if a gradient of the value is wanted: if something below is trained.
  bool wants(ValueId value) const;
  // Returns a forward value in the form that the backward can read now.
  ValueId need(ValueId value);
  ValueId gradient(ValueId value) const;
  // Returns the gradient of an op's first result, whole also where its parts were made one by one.
  ValueId whole_gradient(const Op& forward);
  // Makes a gradient that is placed in its buffer like the value in its own; the second, in that
  // buffer.
  ValueId new_gradient(ValueId value);
  ValueId gradient_in(ValueId value, int32_t buffer);
  ValueId set_gradient(ValueId value, ValueId gradient) { return gradients_[value] = gradient; }
  // Says that gradients of values in this one's buffer belong into that buffer, or into a new one.
  void mirror(ValueId value, int32_t buffer) { mirrors_[graph.value(value).buffer] = buffer; }
  void mirror_anew(ValueId value) { mirrors_.erase(graph.value(value).buffer); }
  // Returns the gradient of `value`, as a new value in the memory of `gradient`.
  ValueId renewed(ValueId value, ValueId gradient);
  // True if a value that is still to be visited has the same gradient in the same place.
  bool shared(ValueId value) const;
  // Makes the op add to the gradient that `value` has so far, as its last input and first output,
  // or write the first gradient.
  void contribute(Op op, ValueId value);
  // Gives `value` the gradient of a sum that it is a part of, in its own type.
  void pass_on(ValueId value, ValueId d_sum);

 private:
  void mark_wanted();
  void repeat(int32_t op);
  ValueId repeated_of(ValueId value);
  void sum_into(ValueId value, ValueId more);
  ValueId in_type_of(ValueId part, ValueId d_sum);

  const KeptValues& kept_;
  Kinds kinds_;
  size_t at_ = 0;             // the forward op whose backward is being made
  std::vector<bool> wanted_;  // by forward op
  std::set<int32_t> repeated_ops_;
  std::map<ValueId, ValueId> repeated_, gradients_;
  std::map<ValueId, ValueId> casts_;  // of gradients, by what they were made of
  std::map<int32_t, int32_t> repeated_buffers_, mirrors_;
};

}  // namespace forge
