#include "providers/reference/rehearsed_ops.h"

namespace forge {

Held RehearsedOps::product(Use use, int64_t in, int64_t out) {
  Held result = wide(use, out);
  multiply({tokens(), in, out});
  return result;
}

Held RehearsedOps::weight_grad(int64_t in, int64_t out) {
  Held result = ledger_.hold(Use::weight_grads, element() * in * out);
  multiply({out, tokens(), in, true});
  return result;
}

void RehearsedOps::multiply(const Product& product) { ledger_.hold(Use::products, product_scratch(product)); }

int64_t RehearsedOps::product_scratch(const Product& product) { return narrow() && !shape_.cuda ? products_.bytes(product) : 0; }

Held RehearsedOps::run(size_t begin, size_t end, ValueId from, const Held& input, ValueId to, Use use,
                       std::vector<SavedOp>* nodes) {
  std::map<ValueId, size_t> last;
  for (size_t i = begin; i < end; ++i)
    for (ValueId in : list_.ops[i].in) last[in] = i;
  value(from) = input;
  for (size_t i = begin; i < end; ++i) {
    const Op& op = list_.ops[i];
    if (nodes) nodes->push_back({&op, {}, {}});
    forward(op, use, nodes ? &nodes->back() : nullptr);
    for (ValueId in : op.in)
      if (in != to && in != source_ && last[in] == i) value(in).reset();
  }
  Held result = value(to);
  value(to).reset();
  return result;
}

Held RehearsedOps::pull(std::vector<SavedOp> nodes, ValueId from, ValueId to, const Held& d_output) {
  gradients_.clear();
  weight_grads_.clear();
  gradients_[to] = {d_output, true};
  while (!nodes.empty()) {
    backward(nodes.back());
    nodes.pop_back();
  }
  Held result = take(from);
  if (Held own = source_ == kNoValue ? Held() : take(source_); own) {
    rows_ = shape_.source_tokens;
    source_gradient_ = source_gradient_ ? wide(Use::layer, width(source_)) : own;
  }
  gradients_.clear();
  weight_grads_.clear();
  return result;
}

Held RehearsedOps::take(ValueId value) {
  Held held = std::move(gradients_[value].held);
  gradients_.erase(value);
  return held;
}

void RehearsedOps::forward(const Op& op, Use use, SavedOp* node) {
  take_rows(op);
  switch (op.kind) {
    case OpKind::norm: {
      const ModuleUse& module = list_.module(op);
      value(op.out[0]) = norm(use, op.in[0], tokens(), width(op.in[0]) / module.out, module.trained, node);
      if (node && !narrow(op.in[0])) node->saved.push_back(value(op.in[0]));
      return;
    }
    case OpKind::linear:
      return linear(op, use, node);
    case OpKind::dora_ratio:
      return;
    case OpKind::dora:
      return dora(op, use, node);
    case OpKind::rope:
      for (size_t i = 0; i < op.in.size(); ++i) value(op.out[i]) = turned(width(op.in[i]), use);
      return;
    case OpKind::attention:
      return attention(op, use, node);
    case OpKind::latent_heads: {
      for (ValueId part : op.parts) value(part) = wide(use, width(part));
      return;
    }
    case OpKind::glu: {
      if (op.in.size() == 1) return clamped_glu(op, use, node);
      Held activated = wide(use, width(op.in[0]));
      value(op.out[0]) = wide(use, width(op.in[0]));
      if (node) node->saved = {value(op.in[0]), activated, value(op.in[1])};
      return;
    }
    case OpKind::layer_norm:
      return layer_norm(op, use, node);
    case OpKind::regroup:
      for (ValueId part : op.parts) value(part) = wide(use, width(part));
      return;
    case OpKind::activation:
      value(op.out[0]) = wide(use, width(op.in[0]));
      // The slope of relu is zero wherever its result is, so the result suffices.
      if (node) node->saved = {value(op.attributes.activation == ActivationKind::relu ? op.out[0] : op.in[0])};
      return;
    case OpKind::gate_rows:
      value(op.out[0]) = wide(use, width(op.in[0]));
      if (node) node->saved = {value(op.in[0]), value(op.in[1]), wide(use, 1)};
      return;
    case OpKind::route:
      return route(op, use, node);
    case OpKind::dispatch:
      ledger_.hold(use, 8 * tokens() * op.attributes.route.per_token);
      value(op.out[0]) = wide(use, width(op.out[0]));
      if (node) node->saved = {value(op.in[1])};
      return;
    case OpKind::expert_linear:
      return expert_linear(op, use, node);
    case OpKind::combine: {
      Held inverse = ledger_.hold(use, 16 * tokens() * op.attributes.route.per_token), each = wide(use, width(op.in[0]));
      value(op.out[0]) = wide(use, width(op.out[0]));
      if (node) node->saved = {value(op.in[0]), value(op.in[1]), value(op.in[2])};
      return;
    }
    default:  // an addition, a cast, or a product with a number
      value(op.out[0]) = whole(use, op.out[0]);
  }
}

void RehearsedOps::backward(SavedOp& node) {
  const Op& op = *node.op;
  take_rows(op);
  switch (op.kind) {
    case OpKind::norm: {
      const ValueId x = op.in[0];
      const bool again = gradients_.count(x) > 0;
      Held others = again ? gradients_[x].held : Held();
      Held sum = norm_backward(Use::layer, x, tokens(), list_.module(op).trained, node, take(op.out[0]), again);
      gradients_[x] = {sum};
      return;
    }
    case OpKind::cast:
    case OpKind::layer_norm:
    case OpKind::activation: {
      const ValueId x = op.in[0];
      Held grad = take(op.out[0]), others = gradients_.count(x) ? take(x) : Held();
      if (op.kind == OpKind::layer_norm && list_element(x) != list_element(op.out[0])) grad = whole(Use::layer, x);
      Held own = whole(Use::layer, x);
      grad.reset();
      node.saved.clear();
      gradients_[x] = {others ? whole(Use::layer, x) : own};
      return;
    }
    case OpKind::scale: {
      const Held grad = take(op.out[0]);
      gradients_[op.in[0]] = {wide(Use::layer, width(op.in[0]))};
      return;
    }
    case OpKind::regroup: {
      // Each part's gradient is in a zeroed tensor of all.
      Held whole;
      for (size_t part = op.parts.size(); part-- > 0;) {
        const Held grad = take(op.parts[part]), padded = wide(Use::layer, width(op.in[0]));
        if (!whole) whole = padded;
      }
      gradients_[op.in[0]] = {whole};
      return;
    }
    case OpKind::gate_rows: {
      const Held grad = take(op.out[0]);
      Held own = wide(Use::layer, width(op.in[0]));
      wide(Use::layer, width(op.in[0]));  // grad × x before its sum over the features
      gradients_[op.in[0]] = {own};
      gradients_[op.in[1]] = {wide(Use::layer, 1)};
      return;
    }
    case OpKind::route: {
      take(op.out[0]);
      ledger_.hold(Use::layer, 12 * tokens() * width(op.in[0]));  // of the scores, and of the logits in both types
      gradients_[op.in[0]] = {wide(Use::layer, width(op.in[0]))};
      return;
    }
    case OpKind::dispatch: {
      const Held grad = take(op.out[0]), again = gradients_.count(op.in[0]) ? take(op.in[0]) : Held();
      Held each = wide(Use::layer, width(op.out[0])), own = wide(Use::layer, width(op.in[0]));
      gradients_[op.in[0]] = {again ? wide(Use::layer, width(op.in[0])) : own};
      return;
    }
    case OpKind::expert_linear:
      return expert_linear_backward(node);
    case OpKind::combine: {
      const Held grad = take(op.out[0]);
      Held each = wide(Use::layer, width(op.in[0]));
      gradients_[op.in[2]] = {ledger_.hold(Use::layer, 4 * tokens() * op.attributes.route.per_token)};
      Held spread = wide(Use::layer, width(op.in[0]));
      gradients_[op.in[0]] = {wide(Use::layer, width(op.in[0]))};
      return;
    }
    case OpKind::linear:
      return linear_backward(node);
    case OpKind::dora_ratio:
      return;
    case OpKind::dora:
      return dora_backward(node);
    case OpKind::rope:
      for (size_t i = op.in.size(); i-- > 0;)
        gradients_[op.in[i]] = {turned_backward(take(op.out[i]), width(op.in[i]))};
      return;
    case OpKind::attention:
      return attention_backward(node);
    case OpKind::latent_heads: {
      std::vector<Held> heads;  // each waits until its own input's is made
      for (ValueId part : op.parts) heads.push_back(take(part));
      for (size_t i = 0; i < op.in.size(); ++i) gradients_[op.in[i]] = {wide(Use::layer, width(op.in[i]))};
      wide(Use::layer, width(op.parts[1]));  // the shared key's, of each head before their sum
      return;
    }
    case OpKind::trim_heads: {
      const Held grad = take(op.out[0]);
      gradients_[op.in[0]] = {wide(Use::layer, width(op.in[0]))};
      return;
    }
    case OpKind::glu: {
      if (op.in.size() == 1) return clamped_glu_backward(node);
      const int64_t inner = width(op.in[0]);
      Held grad = take(op.out[0]), activated = wide(Use::layer, inner), up = wide(Use::layer, inner);
      grad.reset();
      node.saved[1].reset(), node.saved[2].reset();
      Held gate = wide(Use::layer, inner);
      activated.reset();
      node.saved.clear();
      gradients_[op.in[0]] = {gate};
      gradients_[op.in[1]] = {up};
      return;
    }
    default: {
      const Held grad = take(op.out[0]);
      for (ValueId in : op.in)
        if (list_element(in) == list_element(op.out[0]))
          gradients_[in] = {grad, true};
        else
          gradients_[in] = {whole(Use::layer, in)};
    }
  }
}

// Rehearses kernels/swiglu step by step: gates and up values clamped, alpha times the gates, its
// sigmoid, their product, 1 plus the up values.
void RehearsedOps::clamped_glu(const Op& op, Use use, SavedOp* node) {
  const int64_t inner = width(op.out[0]);
  Held gate = wide(use, inner), up = wide(use, inner), more = wide(use, inner), sharp = wide(use, inner), open = wide(use, inner);
  sharp.reset();
  Held gated = wide(use, inner);
  value(op.out[0]) = wide(use, inner);
  if (node) node->saved = {value(op.in[0]), gate, more, open, gated};
}

void RehearsedOps::clamped_glu_backward(SavedOp& node) {
  const Op& op = *node.op;
  const int64_t inner = width(op.out[0]);
  Held grad = take(op.out[0]), up = wide(Use::layer, inner), gated = wide(Use::layer, inner);
  grad.reset();
  node.saved[2].reset(), node.saved[4].reset();
  Held gate = wide(Use::layer, inner), open = wide(Use::layer, inner), more = wide(Use::layer, inner);
  gated.reset();
  // The gradients of gates and up values are each in a zeroed tensor of both.
  Held first = wide(Use::layer, 2 * inner), second = wide(Use::layer, 2 * inner);
  node.saved.clear();
  gradients_[op.in[0]] = {wide(Use::layer, 2 * inner)};
}

// Rehearses kernels/layer_norm: in the type of x, then in its own.
void RehearsedOps::layer_norm(const Op& op, Use use, SavedOp* node) {
  const bool converts = list_element(op.in[0]) != list_element(op.out[0]);
  Held statistics = ledger_.hold(use, 8 * tokens()), normed = converts ? whole(use, op.in[0]) : Held();
  value(op.out[0]) = whole(use, op.out[0]);
  if (node) node->saved = {value(op.in[0]), statistics};
}

// Rehearses kernels/rms_norm.
Held RehearsedOps::norm(Use use, ValueId x, int64_t rows, int64_t heads, bool trained, SavedOp* node) {
  const int64_t fp32 = 4 * rows * width(x), own = element() * rows * width(x);
  Held input = narrow(x) ? ledger_.hold(use, fp32) : Held();
  ledger_.hold(use, fp32);  // the squares
  Held inverse = ledger_.hold(use, 4 * rows * heads);
  Held scaled = ledger_.hold(use, fp32);
  Held normed = narrow() ? ledger_.hold(use, own) : scaled;
  Held out = ledger_.hold(use, own);
  if (node) node->saved = {input, inverse, trained ? normed : Held()};
  return out;
}

Held RehearsedOps::norm_backward(Use use, ValueId x, int64_t rows, bool trained, SavedOp& node, Held grad, bool residual) {
  const int64_t fp32 = 4 * rows * width(x), own = element() * rows * width(x);
  Held scaled = ledger_.hold(use, own);
  if (trained) ledger_.hold(use, own);  // before its sum over rows
  grad.reset();
  node.saved[2].reset();
  if (narrow()) scaled = ledger_.hold(use, fp32);
  Held sum = ledger_.hold(use, fp32);
  ledger_.hold(use, fp32);  // grad × input before its sum over the features
  scaled.reset();
  if (residual && !narrow(x)) sum = ledger_.hold(use, fp32);
  {
    // Holds d mean, then d square: grad · (2 · input¹), each a tensor.
    Held mean = ledger_.hold(use, fp32), power = ledger_.hold(use, fp32), twice = ledger_.hold(use, fp32);
    ledger_.hold(use, fp32);
  }
  node.saved.clear();
  if (!narrow(x)) return sum;
  Held out = ledger_.hold(use, own);
  sum.reset();
  return residual ? ledger_.hold(use, own) : out;
}

}  // namespace forge
