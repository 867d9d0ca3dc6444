// Linear layers of the rehearsal: adapters, DoRA, experts.
#include "providers/reference/rehearsed_ops.h"

namespace forge {

// One module's columns are views of its result.
void RehearsedOps::set_result(const Op& op, size_t module, const Held& y) {
  for (size_t part = 0; part < op.parts.size(); ++part)
    if (op.parts.size() != op.modules.size() || part == module) value(op.parts[part]) = y;
}

void RehearsedOps::linear(const Op& op, Use use, SavedOp* node) {
  if (node) node->modules.resize(op.modules.size());
  for (size_t i = 0; i < op.modules.size(); ++i)
    set_result(op, i, adapted(list_.module(op, i), value(op.in[0]), use, node ? &node->modules[i] : nullptr));
}

void RehearsedOps::dora(const Op& op, Use use, SavedOp* node) {
  if (node) node->modules.resize(op.modules.size());
  const Op& made = list_.ops[static_cast<size_t>(list_.producers[static_cast<size_t>(op.in[0])])];
  for (size_t i = 0; i < op.modules.size(); ++i) {
    const ModuleUse& module = list_.module(op, i);
    Held y = std::move(value(made.parts[i]));
    if (module.rank > 0) {
      // Holds the whole weight in fp32 for its rows' norms, and A and B if they are not in fp32.
      const int64_t factors = narrow() ? module.rank * (module.in + module.out) : 0;
      ledger_.hold(use, 4 * (module.in * module.out + factors));
      if (node) node->modules[i].unscaled = y;
      y = wide(use, module.out);
    }
    set_result(op, i, y);
  }
}

void RehearsedOps::dora_backward(SavedOp& node) {
  const Op& op = *node.op;
  const Op& made = list_.ops[static_cast<size_t>(list_.producers[static_cast<size_t>(op.in[0])])];
  for (size_t i = op.modules.size(); i-- > 0;) {
    Held grad = module_gradient(op, i);
    if (node.modules[i].unscaled) {
      Held scaled = wide(Use::layer, list_.module(op, i).out);
      wide(Use::layer, list_.module(op, i).out);  // grad × y before its sum over the tokens
      grad = scaled;
      node.modules[i].unscaled.reset();
    }
    gradients_[made.parts[i]] = {grad};
  }
}

// Rehearses kernels/linear.
Held RehearsedOps::adapted(const ModuleUse& module, const Held& x, Use use, SavedModule* saved) {
  if (module.rank == 0) {
    if (saved && module.trained) saved->x = x;
    return product(use, module.in, module.out);
  }
  Held dropped = x;
  if (shape_.training && shape_.adapter.dropout > 0) {
    Held mask = ledger_.hold(use, 4 * tokens() * module.in);
    Held converted = narrow() ? wide(use, module.in) : mask;
    dropped = wide(use, module.in);
    if (saved) saved->mask = converted;
  }
  Held s = product(use, module.in, module.rank), y = product(use, module.in, module.out);
  if (saved) saved->x = dropped, saved->s = s;
  return y;
}

// Rehearses kernels/experts.
void RehearsedOps::route(const Op& op, Use use, SavedOp* node) {
  const int64_t experts = width(op.in[0]), chosen = tokens() * op.attributes.route.per_token;
  Held wide_logits = narrow() ? ledger_.hold(use, 4 * tokens() * experts) : Held();
  Held scores = ledger_.hold(use, 4 * tokens() * experts), indices = ledger_.hold(use, 8 * chosen);
  Held weights = ledger_.hold(use, 4 * chosen), sorted = ledger_.hold(use, 8 * chosen);
  value(op.out[0]) = op.attributes.route.normalise ? ledger_.hold(use, 4 * chosen) : weights;
  value(op.out[1]) = ledger_.hold(use, 8 * chosen);
  if (node) node->saved = {scores, indices, weights};
}

// Holds each expert's result, then all of them joined.
void RehearsedOps::expert_linear(const Op& op, Use use, SavedOp* node) {
  const ModuleUse& module = list_.module(op);
  const int64_t per_token = op.attributes.route.per_token;
  Held x = value(op.in[0]);
  SavedModule saved;
  if (module.rank > 0 && shape_.training && shape_.adapter.dropout > 0) {
    Held mask = ledger_.hold(use, 4 * tokens() * per_token * module.in);
    saved.mask = narrow() ? wide(use, per_token * module.in) : mask;
    x = wide(use, per_token * module.in);
  }
  if (module.rank > 0) saved.s = wide(use, per_token * module.rank);
  if (module.rank > 0 || module.trained) saved.x = x;
  multiply({tokens(), module.in, module.out});
  if (module.rank > 0 && shape_.adapter.use_dora) {
    saved.unscaled = wide(use, per_token * module.out);
    // Holds one expert's weight in fp32 for its rows' norms.
    ledger_.hold(use, 4 * (module.in * module.out + (narrow() ? module.rank * (module.in + module.out) : 0)));
  }
  Held each = wide(use, per_token * module.out);
  value(op.out[0]) = wide(use, per_token * module.out);
  if (node) node->modules = {saved};
}

void RehearsedOps::expert_linear_backward(SavedOp& node) {
  const Op& op = *node.op;
  const ModuleUse& module = list_.module(op);
  const int64_t per_token = op.attributes.route.per_token;
  Held grad = take(op.out[0]), each = wide(Use::layer, per_token * module.in);
  multiply({tokens(), module.out, module.in});
  // All experts' gradients count as one, since none is freed before the last.
  const int64_t trained = (module.trained ? module.in * module.out : 0) + module.rank * (module.in + module.out);
  const int64_t experts = module.experts > 0 ? module.experts : static_cast<int64_t>(op.modules.size());
  weight_grads_.push_back(ledger_.hold(Use::weight_grads, element() * trained * experts));
  if (module.experts > 0) weight_grads_.push_back(ledger_.hold(Use::weight_grads, element() * trained * experts));  // joined
  if (module.trained) multiply({module.out, tokens(), module.in, true});
  // One expert at a time holds d s, unscaled and scaled, and its product with A.
  if (module.rank > 0)
    ledger_.hold(Use::layer, element() * tokens() * per_token * (2 * module.rank + module.in) / experts);
  Held joined = wide(Use::layer, per_token * module.in);
  each.reset();
  grad.reset();
  node.modules.clear();
  Held sum = gradients_.count(op.in[0]) ? take(op.in[0]) : Held();
  gradients_[op.in[0]] = {sum ? sum : joined};
}

// Returns the gradient of a module's whole result. If its columns were split, each part's gradient
// is in a zeroed tensor of all columns.
Held RehearsedOps::module_gradient(const Op& op, size_t module) {
  if (op.parts.size() == op.modules.size()) return take(op.parts[module]);
  Held whole;
  for (size_t part = op.parts.size(); part-- > 0;) {
    Held grad = take(op.parts[part]), padded = wide(Use::layer, list_.module(op).out);
    if (!whole) whole = padded;
  }
  return whole;
}

void RehearsedOps::linear_backward(SavedOp& node) {
  const Op& op = *node.op;
  Held sum = gradients_.count(op.in[0]) ? take(op.in[0]) : Held();
  for (size_t i = op.modules.size(); i-- > 0;)
    sum = adapted_backward(list_.module(op, i), node.modules[i], module_gradient(op, i), std::move(sum));
  gradients_[op.in[0]] = {sum};
}

// Adds to `sum`, the gradient of x so far, in place; the first gradient becomes the sum.
Held RehearsedOps::adapted_backward(const ModuleUse& module, SavedModule& saved, Held grad, Held sum) {
  Held ds;
  if (module.rank > 0) {
    Held unscaled = product(Use::layer, module.out, module.rank);
    ds = wide(Use::layer, module.rank);
    weight_grads_.push_back(weight_grad(module.rank, module.out));
    saved.s.reset();
  }
  Held dx = product(Use::layer, module.out, module.in);
  if (module.trained) {
    weight_grads_.push_back(weight_grad(module.in, module.out));
    saved.x.reset();
  }
  grad.reset();
  if (!sum) sum = dx;
  dx.reset();
  if (module.rank == 0) return sum;
  dx = product(Use::layer, module.rank, module.in);
  weight_grads_.push_back(weight_grad(module.rank, module.in));
  saved.x.reset();
  if (saved.mask) wide(Use::layer, module.in);
  saved.mask.reset();
  return sum;
}

}  // namespace forge
