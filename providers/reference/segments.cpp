#include "providers/reference/segments.h"

namespace forge {

std::vector<Segment> segments_of(const Graph& list, const Recomputed& again) {
  const std::vector<bool> repeats = computed_again(list, again);
  const std::vector<bool> cuts = stream_cuts(list);
  std::vector<Segment> segments;
  const size_t first = first_layer_op(list);
  ValueId stream = list.ops[first - 1].out[0];
  for (size_t i = first; i < list.ops.size() && list.ops[i].kind != OpKind::gather; ++i) {
    const Op& op = list.ops[i];
    if (segments.empty() || segments.back().end > 0) segments.push_back({.begin = i, .input = stream});
    Segment& segment = segments.back();
    for (size_t m = 0; m < op.modules.size(); ++m) segment.learns |= list.module(op, m).learns();
    segment.kept &= !repeats[i];
    if (!cuts[i]) continue;
    segment.end = i + 1;
    segment.output = stream = op.out[0];
    segment.keeps_output = !repeats[i];
  }
  return segments;
}

size_t first_layer_op(const Graph& list) {
  size_t first = 0;
  while (list.ops[first].layer < 0) ++first;
  return first;
}

size_t lowest_segment(const Graph& list, const std::vector<Segment>& segments) {
  size_t lowest = 0;
  for (const Op& op : list.ops)
    if (op.kind == OpKind::embed && list.module(op).learns()) return lowest;
  while (lowest < segments.size() && !segments[lowest].learns) ++lowest;
  return lowest;
}

}  // namespace forge
