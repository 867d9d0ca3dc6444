#include "core/model/graph/backward.h"

#include <algorithm>
#include <map>

#include "core/lib/base/error.h"

namespace forge {
namespace {

class Derivation {
 public:
  Derivation(Graph forward, const KeptValues& kept) : graph_(std::move(forward)), kept_(kept) {}

  Graph derive() {
    mark_wanted();
    // A backward has some twice as many ops and values as its forward.
    graph_.ops.reserve(3 * graph_.ops.size());
    graph_.values.reserve(3 * graph_.values.size());
    for (at_ = graph_.forward_ops; at_-- > 0;) {
      const Op op = graph_.ops[at_];
      backward(op);
      for (const auto* made : {&op.out, &op.parts})
        for (ValueId value : *made) gradients_.erase(value);  // nothing asks for it any more
    }
    return std::move(graph_);
  }

 private:
  static Op like(OpKind kind, const Op& forward) {
    Op op;
    op.kind = kind;
    op.layer = forward.layer;
    op.attributes = forward.attributes;
    return op;
  }
  Op& push(Op op) {
    graph_.ops.push_back(std::move(op));
    return graph_.ops.back();
  }

  // A gradient is wanted where an op learns, and in everything after it.
  void mark_wanted() {
    wanted_.assign(graph_.forward_ops, false);
    for (size_t i = 0; i < graph_.forward_ops; ++i) {
      const Op& op = graph_.ops[i];
      for (int32_t module : op.modules)
        if (graph_.modules[static_cast<size_t>(module)].learns()) wanted_[i] = true;
      for (ValueId in : op.in)
        if (wants(in)) wanted_[i] = true;
    }
  }
  bool wants(ValueId value) const {
    const int32_t producer = graph_.producers[static_cast<size_t>(value)];
    return producer >= 0 && wanted_[static_cast<size_t>(producer)];
  }

  // ---- forward values in the backward ----

  // Returns a forward value in the form that the backward can read now.
  ValueId need(ValueId value) {
    if (kept_.count(value)) return value;
    const int32_t producer = graph_.producers[static_cast<size_t>(value)];
    FORGE_CHECK(producer >= 0, graph_.value(value).name << " has no op that could make it again");
    if (repeated_ops_.insert(producer).second) repeat(producer);
    return repeated_of(value);
  }

  void repeat(int32_t index) {
    Op op = graph_.ops[static_cast<size_t>(index)];
    for (ValueId& in : op.in) in = need(in);
    for (ValueId& out : op.out) out = repeated_of(out);
    for (ValueId& part : op.parts) part = repeated_of(part);
    push(std::move(op));
  }

  // Returns the repeated value, which is in the buffer that repeats its buffer.
  ValueId repeated_of(ValueId value) {
    auto found = repeated_.find(value);
    if (found != repeated_.end()) return found->second;
    const Value original = graph_.value(value);
    auto [buffer, is_new] = repeated_buffers_.try_emplace(original.buffer, 0);
    if (is_new) buffer->second = graph_.add_buffer(Buffer(graph_.buffer_of(value)));
    const ValueId again =
        graph_.add_value(original.name + "'", buffer->second, original.column, original.width);
    repeated_[value] = again;
    for (ValueId part : original.of) {
      const ValueId repeated_part = repeated_of(part);
      graph_.values[static_cast<size_t>(again)].of.push_back(repeated_part);
    }
    return again;
  }

  // ---- gradients ----

  ValueId gradient(ValueId value) const {
    auto found = gradients_.find(value);
    return found == gradients_.end() ? kNoValue : found->second;
  }
  // Returns the gradient of a linear's result, whole also where its parts were made one by one.
  ValueId whole_gradient(const Op& linear) {
    if (linear.parts.size() == 1) return gradient(linear.parts[0]);
    const Value whole = graph_.value(linear.out[0]);
    auto mirror = mirrors_.find(whole.buffer);
    FORGE_CHECK(mirror != mirrors_.end(), "nothing gave " << whole.name << " a gradient");
    const ValueId d_whole = graph_.add_value("d " + whole.name, mirror->second, whole.column, whole.width);
    for (ValueId part : linear.parts)
      graph_.values[static_cast<size_t>(d_whole)].of.push_back(gradient(part));
    return d_whole;
  }
  // Makes a gradient that is placed in its buffer like the value in its own.
  ValueId new_gradient(ValueId value) {
    const Value original = graph_.value(value);
    auto [mirror, is_new] = mirrors_.try_emplace(original.buffer, 0);
    if (is_new) mirror->second = graph_.add_buffer(Buffer(graph_.buffer_of(value)));
    return gradient_in(value, mirror->second);
  }
  ValueId gradient_in(ValueId value, int32_t buffer) {
    const Value original = graph_.value(value);
    return gradients_[value] =
               graph_.add_value("d " + original.name, buffer, original.column, original.width);
  }
  // Returns the gradient of `value`, as a new value in the memory of `gradient`.
  ValueId renewed(ValueId value, ValueId gradient) {
    const Value old = graph_.value(gradient);
    return graph_.add_value("d " + graph_.value(value).name, old.buffer, old.column, old.width);
  }
  // True if a value that is still to be visited has the same gradient in the same place.
  bool shared(ValueId value) const {
    const ValueId mine = gradient(value);
    return std::any_of(gradients_.begin(), gradients_.end(), [&](const auto& entry) {
      return entry.second == mine && entry.first != value && wants(entry.first) &&
             graph_.producers[static_cast<size_t>(entry.first)] < static_cast<int32_t>(at_);
    });
  }

  // Makes the op add to the gradient that `value` has so far, as its last input and first output,
  // or write the first gradient.
  void contribute(Op op, ValueId value) {
    const ValueId so_far = gradient(value);
    const bool in_place = so_far != kNoValue && !shared(value);
    if (in_place) {
      op.in.push_back(so_far);
      op.attributes.accumulate = true;
      gradients_[value] = renewed(value, so_far);
    } else {
      gradients_.erase(value);
      if (so_far != kNoValue) mirrors_.erase(graph_.value(value).buffer);
      new_gradient(value);
    }
    op.out.insert(op.out.begin(), gradients_[value]);
    push(std::move(op));
    if (so_far != kNoValue && !in_place) sum_into(value, so_far);
  }
  void sum_into(ValueId value, ValueId more) {
    Op op;
    op.kind = OpKind::add_gradient;
    op.layer = graph_.ops.back().layer;
    op.in = {gradients_[value], more};
    op.out = {gradients_[value] = renewed(value, gradients_[value])};
    push(std::move(op));
  }
  // Gives `value` the gradient of a sum that it is a part of.
  void pass_on(ValueId value, ValueId same) {
    if (gradient(value) == kNoValue)
      gradients_[value] = same;
    else
      sum_into(value, same);
  }

  // Returns the gradient of a sum, in the type of `part`. Parts of several sums with one gradient
  // share it while it is there.
  ValueId in_type_of(ValueId part, ValueId d_sum) {
    if (graph_.buffer_of(part).type == graph_.buffer_of(d_sum).type) return d_sum;
    auto found = casts_.find(d_sum);
    const bool there = found != casts_.end() && std::any_of(gradients_.begin(), gradients_.end(), [&](const auto& entry) {
      return entry.second == found->second;
    });
    if (there) return found->second;
    const Value original = graph_.value(part);
    const int32_t buffer = graph_.add_buffer(Buffer(graph_.buffer_of(part)));
    if (gradient(part) == kNoValue) mirrors_[original.buffer] = buffer;
    const ValueId made = casts_[d_sum] = graph_.add_value("d " + original.name, buffer, original.column, original.width);
    push({.kind = OpKind::cast, .layer = graph_.ops[at_].layer, .in = {d_sum}, .out = {made}});
    return made;
  }

  // ---- the rules, one a kind ----

  void backward(const Op& op) {
    if (op.kind == OpKind::head) {
      gradients_[op.in[0]] = op.out[0];
      return;
    }
    if (op.out.empty() || !wants(op.out[0])) return;
    switch (op.kind) {
      case OpKind::embed:
        return embed(op);
      case OpKind::gather:
        return gather(op);
      case OpKind::add:
        return add(op);
      case OpKind::cast:
        return cast(op);
      case OpKind::scale:
        return scale(op);
      case OpKind::norm:
        return norm(op);
      case OpKind::layer_norm:
        return layer_norm(op);
      case OpKind::linear:
        return linear(op);
      case OpKind::dora:
        return dora(op);
      case OpKind::dora_ratio:  // held constant
        return;
      case OpKind::rope:
        return rope(op);
      case OpKind::attention:
        return attention(op);
      case OpKind::regroup:
        return regroup(op);
      case OpKind::latent_heads:
        return latent_heads(op);
      case OpKind::trim_heads:
        return trim_heads(op);
      case OpKind::glu:
        return glu(op);
      case OpKind::activation:
        return activation(op);
      case OpKind::gate_rows:
        return gate_rows(op);
      case OpKind::route:
        return route(op);
      case OpKind::dispatch:
        return dispatch(op);
      case OpKind::expert_linear:
        return expert_linear(op);
      case OpKind::combine:
        return combine(op);
      default:
        FORGE_CHECK(false, "an op without a backward in a forward list");
    }
  }

  void embed(const Op& forward) {
    Op op = like(OpKind::embed_backward, forward);
    op.modules = forward.modules;
    op.in = {gradient(forward.out[0])};
    push(std::move(op));
  }

  void gather(const Op& forward) {
    Op op = like(OpKind::scatter, forward);
    op.in = {gradient(forward.out[0])};
    contribute(std::move(op), forward.in[0]);
  }

  void add(const Op& forward) {
    const ValueId d_sum = gradient(forward.out[0]);
    for (ValueId part : forward.in)
      if (wants(part)) pass_on(part, in_type_of(part, d_sum));
  }

  void cast(const Op& forward) {
    Op op = like(OpKind::cast_backward, forward);
    op.in = {gradient(forward.out[0])};
    contribute(std::move(op), forward.in[0]);
  }

  void scale(const Op& forward) {
    Op op = like(OpKind::scale_backward, forward);
    op.in = {gradient(forward.out[0])};
    // The value that the result was added to may have the same gradient, in the place that would be
    // this one's. Then this one gets another place.
    if (shared(forward.out[0])) mirrors_.erase(graph_.value(forward.in[0]).buffer);
    contribute(std::move(op), forward.in[0]);
  }

  void norm(const Op& forward) {
    Op op = like(OpKind::norm_backward, forward);
    op.modules = forward.modules;
    op.in = {gradient(forward.out[0]), need(forward.in[0]), need(forward.out[1])};
    contribute(std::move(op), forward.in[0]);
  }

  void layer_norm(const Op& forward) {
    Op op = like(OpKind::layer_norm_backward, forward);
    op.modules = forward.modules;
    op.in = {gradient(forward.out[0]), need(forward.in[0]), need(forward.out[1])};
    contribute(std::move(op), forward.in[0]);
  }

  void linear(const Op& forward) {
    const ValueId x = forward.in[0], d_y = whole_gradient(forward);
    bool trained = false, adapted = false;
    for (int32_t at : forward.modules) {
      trained |= graph_.modules[static_cast<size_t>(at)].trained || graph_.modules[static_cast<size_t>(at)].bias_trained;
      adapted |= graph_.modules[static_cast<size_t>(at)].rank > 0;
    }
    const ValueId input = trained || adapted ? need(x) : kNoValue;
    std::vector<ValueId> products(forward.out.begin() + 1, forward.out.end());  // s of the adapters
    for (ValueId& s : products) s = need(s);
    if (wants(x)) {
      Op op = like(OpKind::linear_input_gradient, forward);
      op.modules = forward.modules;
      op.in = {d_y};
      contribute(std::move(op), x);
    }
    if (trained) {
      Op op = like(OpKind::linear_weight_gradient, forward);
      op.modules = forward.modules;
      op.in = {d_y, input};
      push(std::move(op));
    }
    if (!adapted) return;
    Op op = like(OpKind::adapter_gradient, forward);
    op.modules = forward.modules;
    op.in = {d_y, input};
    op.in.insert(op.in.end(), products.begin(), products.end());
    if (!wants(x)) {
      push(std::move(op));
      return;
    }
    contribute(std::move(op), x);
  }

  // Makes a gradient for each module's part, in the place of the result's gradient where no other
  // value has the same.
  void dora(const Op& forward) {
    Op op = like(OpKind::dora_backward, forward);
    op.modules = forward.modules;
    const ValueId x = forward.in[0], d_y = whole_gradient(forward);
    op.in = {d_y, need(x), need(forward.in[1])};
    const std::vector<ValueId> parts =
        graph_.ops[static_cast<size_t>(graph_.producers[static_cast<size_t>(x)])].parts;
    if (forward.parts.size() > 1 || !shared(forward.parts[0]))
      mirrors_[graph_.value(x).buffer] = graph_.value(d_y).buffer;
    for (ValueId part : parts) op.out.push_back(new_gradient(part));
    push(std::move(op));
  }

  void rope(const Op& forward) {
    Op op = like(OpKind::rope_backward, forward);
    for (size_t i = 0; i < forward.in.size(); ++i) {
      const ValueId turned = gradient(forward.out[i]);
      op.in.push_back(turned);
      op.out.push_back(gradients_[forward.in[i]] = renewed(forward.in[i], turned));
    }
    push(std::move(op));
  }

  void attention(const Op& forward) {
    Op op = like(OpKind::attention_backward, forward);
    op.modules = forward.modules;
    for (ValueId in : forward.in) op.in.push_back(need(in));
    op.in.insert(op.in.end(), {need(forward.out[0]), need(forward.out[1]), gradient(forward.out[0])});
    for (ValueId in : forward.in) op.out.push_back(new_gradient(in));
    push(std::move(op));
  }

  void regroup(const Op& forward) {
    Op op = like(OpKind::regroup_backward, forward);
    op.in = {whole_gradient(forward)};
    contribute(std::move(op), forward.in[0]);
  }

  void latent_heads(const Op& forward) {
    Op op = like(OpKind::latent_heads_backward, forward);
    op.in = {whole_gradient(forward)};
    for (ValueId in : forward.in) op.out.push_back(new_gradient(in));
    push(std::move(op));
  }

  void trim_heads(const Op& forward) {
    Op op = like(OpKind::trim_heads_backward, forward);
    op.in = {gradient(forward.out[0])};
    op.out = {new_gradient(forward.in[0])};
    push(std::move(op));
  }

  void activation(const Op& forward) {
    Op op = like(OpKind::activation_backward, forward);
    op.in = {gradient(forward.out[0]), need(forward.in[0])};
    const int32_t place = graph_.value(op.in[1]).buffer;
    mirrors_[graph_.value(forward.in[0]).buffer] = place;
    op.out = {gradient_in(forward.in[0], place)};
    push(std::move(op));
  }

  void gate_rows(const Op& forward) {
    Op op = like(OpKind::gate_rows_backward, forward);
    op.in = {gradient(forward.out[0]), need(forward.in[0]), need(forward.in[1])};
    for (ValueId in : forward.in) op.out.push_back(new_gradient(in));
    push(std::move(op));
  }

  void route(const Op& forward) {
    Op op = like(OpKind::route_backward, forward);
    op.modules = forward.modules;
    op.in = {gradient(forward.out[0]), need(forward.in[0]), need(forward.out[1]), need(forward.out[2])};
    op.out = {new_gradient(forward.in[0])};
    push(std::move(op));
  }

  void dispatch(const Op& forward) {
    Op op = like(OpKind::dispatch_backward, forward);
    op.in = {gradient(forward.out[0]), need(forward.in[1])};
    contribute(std::move(op), forward.in[0]);
  }

  // Makes the weights' gradient in fp32, the type of the weights.
  void combine(const Op& forward) {
    Op op = like(OpKind::combine_backward, forward);
    op.in = {gradient(forward.out[0]), need(forward.in[0]), need(forward.in[1]), need(forward.in[2])};
    const ValueId weights = forward.in[2], d_rows = new_gradient(forward.in[0]);
    gradients_[weights] = graph_.new_value("d " + graph_.value(weights).name, Rows::tokens, graph_.value(weights).width, ValueType::fp32);
    op.out = {d_rows, gradients_[weights]};
    push(std::move(op));
  }

  void expert_linear(const Op& forward) {
    const ValueId rows = forward.in[0], d_y = gradient(forward.out[0]), ends = need(forward.in[1]), order = need(forward.in[2]);
    bool trained = false;
    for (int32_t at : forward.modules)
      trained |= graph_.modules[static_cast<size_t>(at)].trained ||
                 graph_.modules[static_cast<size_t>(at)].bias_trained;
    const bool adapted = forward.out.size() > 1;
    const ValueId input = trained || adapted ? need(rows) : kNoValue, sums = adapted ? need(forward.out[1]) : kNoValue;
    const auto of_experts = [&](OpKind kind, std::vector<ValueId> in) {
      Op op = like(kind, forward);
      op.modules = forward.modules;
      op.in = std::move(in);
      return op;
    };
    // Experts that DoRA rescales have one gradient, of weights and adapters together.
    const bool rescaled = std::any_of(forward.modules.begin(), forward.modules.end(), [&](int32_t at) { return graph_.modules[static_cast<size_t>(at)].dora; });
    if (wants(rows) && !rescaled) contribute(of_experts(OpKind::expert_input_gradient, {d_y, ends}), rows);
    if (trained) push(of_experts(OpKind::expert_weight_gradient, {d_y, input, ends}));
    if (!adapted) return;
    Op adapter = of_experts(OpKind::expert_adapter_gradient, {d_y, input, sums, ends, order});
    wants(rows) ? contribute(std::move(adapter), rows) : static_cast<void>(push(std::move(adapter)));
  }

  void glu(const Op& forward) {
    Op op = like(OpKind::glu_backward, forward);
    op.in = {gradient(forward.out[0])};
    for (ValueId in : forward.in) op.in.push_back(need(in));
    for (size_t i = 0; i < forward.in.size(); ++i) {
      const int32_t place = graph_.value(op.in[i + 1]).buffer;
      mirrors_[graph_.value(forward.in[i]).buffer] = place;
      op.out.push_back(gradient_in(forward.in[i], place));
    }
    push(std::move(op));
  }

  Graph graph_;
  const KeptValues& kept_;
  size_t at_ = 0;             // the forward op whose backward is being made
  std::vector<bool> wanted_;  // by forward op
  std::set<int32_t> repeated_ops_;
  std::map<ValueId, ValueId> repeated_, gradients_;
  std::map<ValueId, ValueId> casts_;  // of gradients, by what they were made of
  std::map<int32_t, int32_t> repeated_buffers_, mirrors_;
};

}  // namespace

Graph with_backward(Graph forward, const KeptValues& kept) {
  return Derivation(std::move(forward), kept).derive();
}

}  // namespace forge
