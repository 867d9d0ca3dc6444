#include "providers/reference/rehearsed_ops.h"

#include <algorithm>

namespace forge {
namespace {

// LibTorch's CPU flash attention works on blocks of keys and of queries, the latter by length.
constexpr int64_t kKeyBlock = 512;
int64_t query_block(int64_t length) {
  return std::min<int64_t>(length, length >= 768 ? 256 : length >= 192 ? 64 : 32);
}

// Attention that LibTorch's kernels do not know: with a cap, with sinks, or with a bias by distance.
bool by_steps(const Op& attention) { return attention.attributes.softcap != 0 || !attention.modules.empty(); }

}  // namespace

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
      // Where relu is zero so is its slope: its result is enough.
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
      // Each part's gradient in a zeroed tensor of all.
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

// Step by step in kernels/swiglu: gates and what they let through clamped, alpha times the former, its sigmoid, their product, 1 more than
// the latter.
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
  // Each one's gradient in a zeroed tensor of both.
  Held first = wide(Use::layer, 2 * inner), second = wide(Use::layer, 2 * inner);
  node.saved.clear();
  gradients_[op.in[0]] = {wide(Use::layer, 2 * inner)};
}

// kernels/layer_norm: in the type of x, then in its own.
void RehearsedOps::layer_norm(const Op& op, Use use, SavedOp* node) {
  const bool converts = list_element(op.in[0]) != list_element(op.out[0]);
  Held statistics = ledger_.hold(use, 8 * tokens()), normed = converts ? whole(use, op.in[0]) : Held();
  value(op.out[0]) = whole(use, op.out[0]);
  if (node) node->saved = {value(op.in[0]), statistics};
}

// kernels/rms_norm
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
    // d mean, then d square: grad · (2 · input¹), each a tensor.
    Held mean = ledger_.hold(use, fp32), power = ledger_.hold(use, fp32), twice = ledger_.hold(use, fp32);
    ledger_.hold(use, fp32);
  }
  node.saved.clear();
  if (!narrow(x)) return sum;
  Held out = ledger_.hold(use, own);
  sum.reset();
  return residual ? ledger_.hold(use, own) : out;
}

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
      // The whole weight in fp32 for its rows' norms; A and B too where they are not.
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

// kernels/linear
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

// kernels/experts
void RehearsedOps::route(const Op& op, Use use, SavedOp* node) {
  const int64_t experts = width(op.in[0]), chosen = tokens() * op.attributes.route.per_token;
  Held wide_logits = narrow() ? ledger_.hold(use, 4 * tokens() * experts) : Held();
  Held scores = ledger_.hold(use, 4 * tokens() * experts), indices = ledger_.hold(use, 8 * chosen);
  Held weights = ledger_.hold(use, 4 * chosen), sorted = ledger_.hold(use, 8 * chosen);
  value(op.out[0]) = op.attributes.route.normalise ? ledger_.hold(use, 4 * chosen) : weights;
  value(op.out[1]) = ledger_.hold(use, 8 * chosen);
  if (node) node->saved = {scores, indices, weights};
}

// Each expert's result, then all of them joined.
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
    // One expert's weight in fp32 for its rows' norms.
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
  // All experts' as one, since none is freed before the last.
  const int64_t trained = (module.trained ? module.in * module.out : 0) + module.rank * (module.in + module.out);
  const int64_t experts = module.experts > 0 ? module.experts : static_cast<int64_t>(op.modules.size());
  weight_grads_.push_back(ledger_.hold(Use::weight_grads, element() * trained * experts));
  if (module.experts > 0) weight_grads_.push_back(ledger_.hold(Use::weight_grads, element() * trained * experts));  // joined
  if (module.trained) multiply({module.out, tokens(), module.in, true});
  // Of one expert at a time: d s, unscaled and scaled, and its product with A.
  if (module.rank > 0)
    ledger_.hold(Use::layer, element() * tokens() * per_token * (2 * module.rank + module.in) / experts);
  Held joined = wide(Use::layer, per_token * module.in);
  each.reset();
  grad.reset();
  node.modules.clear();
  Held sum = gradients_.count(op.in[0]) ? take(op.in[0]) : Held();
  gradients_[op.in[0]] = {sum ? sum : joined};
}

// The gradient of what a module made, whole: of one whose columns went apart each part's lies in a zeroed tensor of all.
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

// Adds to `sum`, the gradient of x so far, in place; the first one becomes it.
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

// kernels/rope: two products, a sum or difference, for each half; then both together.
Held RehearsedOps::turned(int64_t width, Use use) {
  Held first = wide(use, width / 2);
  Held a = wide(use, width / 2), b = wide(use, width / 2), second = wide(use, width / 2);
  a.reset();
  b.reset();
  return wide(use, width);
}

Held RehearsedOps::turned_backward(Held grad, int64_t width) {
  Held first = wide(Use::layer, width / 2), second = wide(Use::layer, width / 2);
  {
    Held negative = wide(Use::layer, width / 2);
    wide(Use::layer, width / 2);
  }
  grad.reset();
  // Each half's gradient in a zeroed tensor of the whole width.
  Held whole = wide(Use::layer, width);
  second.reset();
  wide(Use::layer, width);
  return whole;
}

RehearsedOps::Lengths RehearsedOps::longest(const Op& attention) const {
  const Sight sight = attention.attributes.sight;
  return {sight == Sight::whole ? shape_.longest_source : shape_.longest_sequence,
          sight == Sight::causal ? shape_.longest_sequence : shape_.longest_source};
}

int64_t RehearsedOps::forward_scratch(const Op& op) {
  const int64_t rows = query_block(longest(op).queries), keys = std::min(kKeyBlock, longest(op).keys);
  const int64_t product = std::max(product_scratch({rows, op.attributes.head_dim, keys}), product_scratch({rows, keys, op.attributes.head_dim}));
  return shape_.threads * (rows * (4 * (keys + 2 + op.attributes.head_dim) + (narrow() ? element() * keys : 0)) + product);
}

int64_t RehearsedOps::backward_scratch(const Op& op) {
  const int64_t rows = query_block(longest(op).queries), keys = std::min(kKeyBlock, longest(op).keys);
  const int64_t product = product_scratch({keys, rows, op.attributes.head_dim, true});  // d k and d v, the largest
  return shape_.threads * (rows * keys * 2 * (4 + (narrow() ? element() : 0)) + 4 * rows + product);
}

// LibTorch's attention has as many key heads as query heads; of several sequences each is called for.
void RehearsedOps::attention(const Op& op, Use use, SavedOp* node) {
  if (padded()) return padded_attention(op, use, node);
  const Attributes& a = op.attributes;
  const int64_t q = width(op.in[0]);
  const bool grouped = a.heads != a.kv_heads;
  Held keys = grouped ? wide(use, q) : value(op.in[1]), values = grouped ? wide(use, q) : value(op.in[2]);
  Held output = wide(use, q), logsumexp = ledger_.hold(use, 4 * tokens() * a.heads);
  const Pairs pairs = scores(op, use, node);
  ledger_.hold(Use::layer, forward_scratch(op));
  value(op.out[0]) = shape_.several_sequences ? wide(use, q) : output;
  if (node) node->saved = {value(op.in[0]), keys, values, output, logsumexp, pairs.scores, pairs.narrow};
}

// What attention with a mask or a cap keeps of every pair of tokens in a sequence: LibTorch's kernels know no cap, so scores are
// capped, masked, made probabilities and rounded one after the other. Of the longest sequence more while it is at work.
RehearsedOps::Pairs RehearsedOps::scores(const Op& op, Use use, const SavedOp* node) {
  const Attributes& a = op.attributes;
  const auto [queries, length] = longest(op);
  const int64_t e = element();
  const bool eager = by_steps(op), masked = eager || (a.window > 0 && a.window < length), biased = a.position_distance > 0;
  if (!masked) return {};
  const int64_t mask = a.sight == Sight::causal ? (eager ? 1 : e) : 0;
  const int64_t kept = eager ? a.heads * (4 + (a.softcap != 0 ? e : 0)) : 0;  // the softmax, and the cap's tanh
  const int64_t pairs = biased ? queries_of(op).pairs : tokens() * length, at_once = queries * length;
  Pairs all;
  if (node) all.scores = ledger_.hold(use, pairs * (mask + kept));
  if (node && eager && narrow()) all.narrow = ledger_.hold(use, pairs * a.heads * e);
  if (eager) ledger_.hold(Use::layer, at_once * a.heads * (2 * e + (node ? 0 : 4)));
  return all;
}

void RehearsedOps::attention_backward(SavedOp& node) {
  if (padded()) return padded_attention_backward(node);
  const Op& op = *node.op;
  const int64_t q = width(op.in[0]), kv = width(op.in[1]);
  const auto keys = [&](int64_t width) { return ledger_.hold(Use::layer, element() * rows_of_value(op.in[1]) * width); };
  Held grad = take(op.out[0]), dq = wide(Use::layer, q), dk = keys(q), dv = keys(q);
  ledger_.hold(Use::layer, backward_scratch(op));
  if (by_steps(op)) {
    // The softmax's two gradients, both in fp32.
    node.saved.back().reset();
    const int64_t pairs = longest(op).queries * longest(op).keys * op.attributes.heads;
    ledger_.hold(Use::layer, pairs * 8);
    // The scaled scores', and that of a trained bias.
    const bool table = op.attributes.position_distance > 0 && list_.module(op).trained;
    ledger_.hold(Use::layer, pairs * element() * (table ? 3 : 2));
  }
  grad.reset();
  node.saved.clear();
  for (Held* part : {&dv, &dk})
    if (shape_.several_sequences) *part = keys(q);  // the sequences joined
  if (shape_.several_sequences) dq = wide(Use::layer, q);
  for (Held* part : {&dv, &dk})
    if (op.attributes.heads != op.attributes.kv_heads) *part = keys(kv);
  gradients_[op.in[0]] = {dq};
  gradients_[op.in[1]] = {dk};
  gradients_[op.in[2]] = {dv};
}

// As kernels/attention's grouped_attention: all texts padded, the groups in turn, their results joined, the padding left out.
void RehearsedOps::padded_attention(const Op& op, Use use, SavedOp* node) {
  const int64_t q = width(op.in[0]), heads = op.attributes.heads, e = element();
  const PaddedSide &queries = queries_of(op), &keys = keys_of(op);
  const auto slots = [&](const PaddedSide& side) { return ledger_.hold(use, e * side.slots * q); };
  std::vector<Held> saved{slots(queries), slots(keys), slots(keys)};
  Held output;
  if (by_steps(op)) {
    // Products want each head by itself.
    std::vector<Held> apart{slots(queries), slots(keys), slots(keys)};
    apart.push_back(node ? ledger_.hold(use, 4 * queries.pairs * heads) : nullptr);
    apart.push_back(node && narrow() ? ledger_.hold(use, e * queries.pairs * heads) : nullptr);
    ledger_.hold(Use::layer, queries.group_pairs * heads * (e + (node ? 0 : 4)));
    output = slots(queries);
    saved = std::move(apart);
  } else {
    output = slots(queries);
    saved.push_back(output), saved.push_back(ledger_.hold(use, 4 * queries.slots * heads));
    ledger_.hold(Use::layer, forward_scratch(op));
  }
  if (shape_.several_groups) output = slots(queries);
  value(op.out[0]) = wide(use, q);
  if (node) node->saved = std::move(saved);
}

void RehearsedOps::padded_attention_backward(SavedOp& node) {
  const Op& op = *node.op;
  const int64_t q = width(op.in[0]), e = element();
  const PaddedSide &queries = queries_of(op), &keys = keys_of(op);
  const auto slots = [&](const PaddedSide& side) { return ledger_.hold(Use::layer, e * side.slots * q); };
  Held grad = take(op.out[0]), d_slots = slots(queries);
  grad.reset();
  Held dq = slots(queries), dk = slots(keys), dv = slots(keys);
  if (by_steps(op)) {
    node.saved.back().reset();
    // The softmax's two gradients in fp32, the scores', and that of a trained bias.
    const int64_t pairs = queries.group_pairs * op.attributes.heads;
    ledger_.hold(Use::layer, pairs * (8 + e * (list_.module(op).trained ? 2 : 1)));
  } else {
    ledger_.hold(Use::layer, backward_scratch(op));
  }
  d_slots.reset();
  node.saved.clear();
  const auto rows = [&](Held& part, ValueId of, const PaddedSide& side) {
    part = slots(side);  // the groups joined, or the heads beside one another
    part = ledger_.hold(Use::layer, e * rows_of_value(of) * q);
    gradients_[of] = {part};
  };
  rows(dv, op.in[2], keys), rows(dk, op.in[1], keys), rows(dq, op.in[0], queries);
}

}  // namespace forge
