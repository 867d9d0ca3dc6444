// Attention of the rehearsal, and the angles before it.
#include "providers/reference/rehearsed_ops.h"

#include <algorithm>

namespace forge {
namespace {

// LibTorch's CPU flash attention works on blocks of keys and of queries, the latter by length.
constexpr int64_t kKeyBlock = 512;
int64_t query_block(int64_t length) {
  return std::min<int64_t>(length, length >= 768 ? 256 : length >= 192 ? 64 : 32);
}

// True for attention that LibTorch's kernels do not support: with a cap, with sinks, or with a bias
// by distance.
bool by_steps(const Op& attention) { return attention.attributes.softcap != 0 || !attention.modules.empty(); }

}  // namespace

// Rehearses kernels/rope: two products and a sum or difference for each half; then both together.
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
  // Each half's gradient is in a zeroed tensor of the whole width.
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

// Rehearses LibTorch's attention, which has as many key heads as query heads; several sequences
// take a call each.
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

// Holds the numbers that attention with a mask or a cap keeps for every pair of tokens in a
// sequence. LibTorch's kernels support no cap, so scores are capped, masked, made probabilities and
// rounded one after the other. The longest sequence takes more while it is computed.
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
    // Holds the softmax's two gradients, both in fp32.
    node.saved.back().reset();
    const int64_t pairs = longest(op).queries * longest(op).keys * op.attributes.heads;
    ledger_.hold(Use::layer, pairs * 8);
    // Holds the scaled scores' gradient, and that of a trained bias.
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

// Rehearses grouped_attention() of kernels/attention: all texts are padded, the groups are computed
// in turn, their results are joined, and the padding is left out.
void RehearsedOps::padded_attention(const Op& op, Use use, SavedOp* node) {
  const int64_t q = width(op.in[0]), heads = op.attributes.heads, e = element();
  const PaddedSide &queries = queries_of(op), &keys = keys_of(op);
  const auto slots = [&](const PaddedSide& side) { return ledger_.hold(use, e * side.slots * q); };
  std::vector<Held> saved{slots(queries), slots(keys), slots(keys)};
  Held output;
  if (by_steps(op)) {
    // Products need each head by itself.
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
    // Holds the softmax's two gradients in fp32, the scores' gradient, and that of a trained bias.
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
