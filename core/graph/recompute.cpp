#include "core/graph/recompute.h"

#include <algorithm>

namespace forge {
namespace {

bool overlap(const Value& a, const Value& b) {
  return a.buffer == b.buffer && a.column < b.column + b.width && b.column < a.column + a.width;
}

// Values that a later op writes over; nothing could be kept of them.
std::set<ValueId> overwritten(const Graph& forward) {
  std::set<ValueId> gone;
  for (const Op& op : forward.ops)
    for (ValueId in : op.in)
      for (ValueId out : op.out)
        if (overlap(forward.value(in), forward.value(out))) gone.insert(in);
  return gone;
}

// Whether some op of `kind` reads what `op` made, or a part of it.
bool feeds(const Graph& forward, const Op& op, OpKind kind) {
  return std::any_of(forward.ops.begin(), forward.ops.end(), [&](const Op& reader) {
    return reader.kind == kind && reader.layer == op.layer &&
           std::any_of(reader.in.begin(), reader.in.end(), [&](ValueId in) {
             return forward.value(in).buffer == forward.value(op.out[0]).buffer;
           });
  });
}

// The last op of a layer makes the next one's input.
bool ends_layer(const Graph& forward, size_t index) {
  return index + 1 >= forward.ops.size() || forward.ops[index].layer != forward.ops[index + 1].layer;
}

bool keeps(const Graph& forward, size_t index, Checkpointing policy) {
  const Op& op = forward.ops[index];
  if (op.layer < 0 || ends_layer(forward, index)) return true;
  if (op.kind == OpKind::glu || policy == Checkpointing::full) return false;
  return policy == Checkpointing::none || !(op.kind == OpKind::linear && feeds(forward, op, OpKind::glu));
}

}  // namespace

KeptValues kept_values(const Graph& forward, Checkpointing policy) {
  const std::set<ValueId> gone = overwritten(forward);
  KeptValues kept;
  for (size_t v = 0; v < forward.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    const int32_t producer = forward.producers[v];
    if (producer < 0 || gone.count(id)) continue;
    const Op& op = forward.ops[static_cast<size_t>(producer)];
    const bool small = forward.buffer_of(id).type == ValueType::fp32;  // 1 / rms, lse, x Aᵀ
    if (op.kind == OpKind::norm && !small && op.layer >= 0) continue;
    // What the layer's last product makes is its input to the stream: nobody would compute it again for x Aᵀ alone.
    const bool last_product =
        op.kind == OpKind::linear && ends_layer(forward, static_cast<size_t>(producer) + 1);
    if (keeps(forward, static_cast<size_t>(producer), policy) || (small && last_product)) kept.insert(id);
  }
  return kept;
}

}  // namespace forge
