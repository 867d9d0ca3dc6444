#include "tests/oracle/segments.h"

namespace forge {
namespace {

bool embeds(const Op& op) { return op.kind == OpKind::embed || op.kind == OpKind::add || op.kind == OpKind::scale; }

// Returns the encoder's value that an op reads from before its segment, or kNoValue.
ValueId source_read(const Graph& list, const Segment& segment, const Op& op) {
  for (ValueId in : op.in) {
    const bool before = static_cast<size_t>(list.producers[static_cast<size_t>(in)]) < segment.begin;
    if (before && in != segment.input && list.buffer_of(in).rows == Rows::source) return in;
  }
  return kNoValue;
}

}  // namespace

std::vector<Segment> segments_of(const Graph& list, const Recomputed& again) {
  const std::vector<bool> repeats = computed_again(list, again);
  const std::vector<bool> cuts = stream_cuts(list);
  std::vector<Segment> segments;
  for (size_t i = 0; list.ops[i].kind != OpKind::gather; ++i) {
    if (list.ops[i].kind == OpKind::embed) {
      if (!segments.empty()) segments.back().end = i, segments.back().output = list.ops[i - 1].out[0];
      const size_t first = i;
      while (embeds(list.ops[i])) ++i;
      segments.push_back({.begin = i, .stem = i - first, .input = list.ops[i - 1].out[0]});
    } else if (segments.back().end > 0) {
      segments.push_back({.begin = i, .input = segments.back().output});
    }
    const Op& op = list.ops[i];
    Segment& segment = segments.back();
    for (size_t m = 0; m < op.modules.size(); ++m) segment.learns |= list.module(op, m).learns();
    if (const ValueId source = source_read(list, segment, op); source != kNoValue) segment.source = source;
    segment.kept &= !repeats[i];
    if (!cuts[i]) continue;
    segment.end = i + 1;
    segment.output = op.out[0];
    segment.keeps_output = !repeats[i];
  }
  return segments;
}

size_t lowest_segment(const Graph& list, const std::vector<Segment>& segments) {
  size_t lowest = 0;
  for (const Op& op : list.ops)
    if (op.kind == OpKind::embed && list.module(op).learns()) return lowest;
  while (lowest < segments.size() && !segments[lowest].learns) ++lowest;
  return lowest;
}

}  // namespace forge
