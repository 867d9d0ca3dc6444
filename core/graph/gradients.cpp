#include "core/graph/gradients.h"

#include <algorithm>

#include "core/lib/base/error.h"

namespace forge {

Graph Gradients::derive() {
  mark_wanted();
  // A backward has some twice as many ops and values as its forward.
  graph.ops.reserve(3 * graph.ops.size());
  graph.values.reserve(3 * graph.values.size());
  for (at_ = graph.forward_ops; at_-- > 0;) {
    const Op op = graph.ops[at_];
    if (!op.out.empty() && wants(op.out[0])) {
      FORGE_CHECK(op.kind->derive, op.kind->name << " has no gradient, and is in a forward list");
      op.kind->derive(*this, op);
    }
    for (const auto* made : {&op.out, &op.parts})
      for (ValueId value : *made) gradients_.erase(value);  // nothing asks for it any more
  }
  return std::move(graph);
}

Op Gradients::like(OpKind kind, const Op& forward, std::vector<ValueId> in) {
  return {.kind = kind, .layer = forward.layer, .in = std::move(in), .attributes = forward.attributes};
}

Op Gradients::with_modules(OpKind kind, const Op& forward, std::vector<ValueId> in) {
  Op op = like(kind, forward, std::move(in));
  op.modules = forward.modules;
  return op;
}

Op& Gradients::push(Op op) {
  graph.ops.push_back(std::move(op));
  return graph.ops.back();
}

// A gradient is wanted where an op learns, and in everything after it.
void Gradients::mark_wanted() {
  wanted_.assign(graph.forward_ops, false);
  for (size_t i = 0; i < graph.forward_ops; ++i) {
    const Op& op = graph.ops[i];
    for (int32_t module : op.modules)
      if (graph.modules[static_cast<size_t>(module)].learns()) wanted_[i] = true;
    for (ValueId in : op.in)
      if (wants(in)) wanted_[i] = true;
  }
}

bool Gradients::wants(ValueId value) const {
  const int32_t producer = graph.producers[static_cast<size_t>(value)];
  return producer >= 0 && wanted_[static_cast<size_t>(producer)];
}

ValueId Gradients::need(ValueId value) {
  if (kept_.count(value)) return value;
  const int32_t producer = graph.producers[static_cast<size_t>(value)];
  FORGE_CHECK(producer >= 0, graph.value(value).name << " has no op that could make it again");
  if (repeated_ops_.insert(producer).second) repeat(producer);
  return repeated_of(value);
}

void Gradients::repeat(int32_t index) {
  Op op = graph.ops[static_cast<size_t>(index)];
  for (ValueId& in : op.in) in = need(in);
  for (ValueId& out : op.out) out = repeated_of(out);
  for (ValueId& part : op.parts) part = repeated_of(part);
  push(std::move(op));
}

// Returns the repeated value, which is in the buffer that repeats its buffer.
ValueId Gradients::repeated_of(ValueId value) {
  auto found = repeated_.find(value);
  if (found != repeated_.end()) return found->second;
  const Value original = graph.value(value);
  auto [buffer, is_new] = repeated_buffers_.try_emplace(original.buffer, 0);
  if (is_new) buffer->second = graph.add_buffer(Buffer(graph.buffer_of(value)));
  const ValueId again =
      graph.add_value(original.name + "'", buffer->second, original.column, original.width);
  repeated_[value] = again;
  for (ValueId part : original.of) {
    const ValueId repeated_part = repeated_of(part);
    graph.values[static_cast<size_t>(again)].of.push_back(repeated_part);
  }
  return again;
}

ValueId Gradients::gradient(ValueId value) const {
  auto found = gradients_.find(value);
  return found == gradients_.end() ? kNoValue : found->second;
}

ValueId Gradients::whole_gradient(const Op& forward) {
  if (forward.parts.size() == 1) return gradient(forward.parts[0]);
  const Value whole = graph.value(forward.out[0]);
  auto mirror = mirrors_.find(whole.buffer);
  FORGE_CHECK(mirror != mirrors_.end(), "nothing gave " << whole.name << " a gradient");
  const ValueId d_whole = graph.add_value("d " + whole.name, mirror->second, whole.column, whole.width);
  for (ValueId part : forward.parts)
    graph.values[static_cast<size_t>(d_whole)].of.push_back(gradient(part));
  return d_whole;
}

ValueId Gradients::new_gradient(ValueId value) {
  const Value original = graph.value(value);
  auto [mirror, is_new] = mirrors_.try_emplace(original.buffer, 0);
  if (is_new) mirror->second = graph.add_buffer(Buffer(graph.buffer_of(value)));
  return gradient_in(value, mirror->second);
}

ValueId Gradients::gradient_in(ValueId value, int32_t buffer) {
  const Value original = graph.value(value);
  return gradients_[value] =
             graph.add_value("d " + original.name, buffer, original.column, original.width);
}

ValueId Gradients::renewed(ValueId value, ValueId gradient) {
  const Value old = graph.value(gradient);
  return graph.add_value("d " + graph.value(value).name, old.buffer, old.column, old.width);
}

bool Gradients::shared(ValueId value) const {
  const ValueId mine = gradient(value);
  return std::any_of(gradients_.begin(), gradients_.end(), [&](const auto& entry) {
    return entry.second == mine && entry.first != value && wants(entry.first) &&
           graph.producers[static_cast<size_t>(entry.first)] < static_cast<int32_t>(at_);
  });
}

void Gradients::contribute(Op op, ValueId value) {
  const ValueId so_far = gradient(value);
  const bool in_place = so_far != kNoValue && !shared(value);
  if (in_place) {
    op.in.push_back(so_far);
    op.attributes.accumulate = true;
    gradients_[value] = renewed(value, so_far);
  } else {
    gradients_.erase(value);
    if (so_far != kNoValue) mirrors_.erase(graph.value(value).buffer);
    new_gradient(value);
  }
  op.out.insert(op.out.begin(), gradients_[value]);
  push(std::move(op));
  if (so_far != kNoValue && !in_place) sum_into(value, so_far);
}

void Gradients::sum_into(ValueId value, ValueId more) {
  const ValueId so_far = gradients_[value], sum = gradients_[value] = renewed(value, so_far);
  push({.kind = kinds_.add, .layer = graph.ops.back().layer, .in = {so_far, more}, .out = {sum}});
}

void Gradients::pass_on(ValueId value, ValueId d_sum) {
  const ValueId same = in_type_of(value, d_sum);
  if (gradient(value) == kNoValue)
    gradients_[value] = same;
  else
    sum_into(value, same);
}

// Returns the gradient of a sum, in the type of `part`. Parts of several sums with one gradient
// share it while it is there.
ValueId Gradients::in_type_of(ValueId part, ValueId d_sum) {
  if (graph.buffer_of(part).type == graph.buffer_of(d_sum).type) return d_sum;
  auto found = casts_.find(d_sum);
  const bool there = found != casts_.end() && std::any_of(gradients_.begin(), gradients_.end(), [&](const auto& entry) {
    return entry.second == found->second;
  });
  if (there) return found->second;
  const Value original = graph.value(part);
  const int32_t buffer = graph.add_buffer(Buffer(graph.buffer_of(part)));
  if (gradient(part) == kNoValue) mirrors_[original.buffer] = buffer;
  const ValueId made = casts_[d_sum] = graph.add_value("d " + original.name, buffer, original.column, original.width);
  push({.kind = kinds_.cast, .layer = graph.ops[at_].layer, .in = {d_sum}, .out = {made}});
  return made;
}

}  // namespace forge
