#include "tests/oracle/segments.h"

#include <set>

#include "kernels/embedding/embedding_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {
namespace {

// True for an op whose result may be the stream: a sum, or the stream times a layer's own number.
bool makes_stream(const Op& op) {
  return op.kind == &ops::add || (op.kind == &ops::scale && !op.modules.empty());
}

// Returns, for each op of the forward list, true if it makes the stream and nothing else made so
// far is read after it, so that the list can be cut there. What an encoder made is excepted, since
// a decoder reads it in every layer. Parallel branches end in one such addition.
std::vector<bool> stream_cuts(const Graph& forward) {
  std::vector<size_t> last(forward.values.size(), 0);
  for (size_t i = 0; i < forward.ops.size(); ++i)
    for (ValueId in : forward.ops[i].in) last[static_cast<size_t>(in)] = i;
  std::set<ValueId> alive, source;  // what is read later; of rows of the source in `source`
  const auto group = [&](ValueId value) -> std::set<ValueId>& {
    return forward.buffer_of(value).rows == Rows::source ? source : alive;
  };
  std::vector<bool> cuts;
  for (size_t i = 0; i < forward.ops.size(); ++i) {
    const Op& op = forward.ops[i];
    for (const auto* made : {&op.out, &op.parts})
      for (ValueId value : *made)
        if (last[static_cast<size_t>(value)] > i) group(value).insert(value);
    for (ValueId in : op.in)
      if (last[static_cast<size_t>(in)] == i) group(in).erase(in);
    const bool stream = makes_stream(op);
    cuts.push_back(stream && group(op.out[0]) == std::set<ValueId>{op.out[0]});
  }
  return cuts;
}

// True for an op that embeds a stack's tokens, not for a table of the layers' own inputs, which has
// another width.
bool begins_stack(const Graph& list, const Op& op) {
  return op.kind == &ops::embed && list.value(op.out[0]).width == list.value(list.ops[0].out[0]).width;
}

bool embeds(const Op& op) { return op.kind == &ops::embed || op.kind == &ops::add || op.kind == &ops::scale; }

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
  for (size_t i = 0; list.ops[i].kind != &ops::gather; ++i) {
    if (begins_stack(list, list.ops[i])) {
      if (!segments.empty()) segments.back().end = i, segments.back().output = list.ops[i - 1].out[0];
      const size_t first = i;
      while (embeds(list.ops[i]) && (list.ops[i].kind != &ops::embed || begins_stack(list, list.ops[i]))) ++i;
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
    if (op.kind == &ops::embed && list.module(op).learns()) return lowest;
  while (lowest < segments.size() && !segments[lowest].learns) ++lowest;
  return lowest;
}

}  // namespace forge
