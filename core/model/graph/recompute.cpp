#include "core/model/graph/recompute.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "core/graph/op_record.h"
#include "core/lib/base/text.h"
#include "kernels/activation/activation_op.h"
#include "kernels/attention/attention_op.h"
#include "kernels/layer_norm/layer_norm_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {
namespace {

bool is_norm(const Op& op) { return op.kind == &ops::norm || op.kind == &ops::layer_norm; }

// Cost of a FLOP of attention, in FLOPs of products: its tiles are small, and half of what they
// touch is masked.
constexpr double kAttentionCost = 3;

constexpr int64_t kMostLayers = 100'000;

bool overlap(const Value& a, const Value& b) {
  return a.buffer == b.buffer && a.column < b.column + b.width && b.column < a.column + a.width;
}

// Returns values that a later op writes over; nothing could be kept of them.
std::set<ValueId> overwritten(const Graph& forward) {
  std::set<ValueId> gone;
  for (const Op& op : forward.ops)
    for (ValueId in : op.in)
      for (ValueId out : op.out)
        if (overlap(forward.value(in), forward.value(out))) gone.insert(in);
  return gone;
}

// Returns "gate_proj+up_proj" for "layers.3.gate_proj+up_proj".
std::string local_name(const std::string& name) {
  return name.substr(name.find('.', name.find('.') + 1) + 1);
}

// Returns the op that makes the next layer's input: the last op of a layer, `at`, or the one whose
// result a last norm reads, as in BART.
const Op& end_of_layer(const Graph& forward, size_t at) {
  const int64_t layer = forward.ops[at].layer;
  while (at > 0 && is_norm(forward.ops[at]) && forward.ops[at - 1].layer == layer) --at;
  return forward.ops[at];
}

struct Group {
  std::string name;
  int64_t layer = -1;
  bool always_kept = false;  // holds the layer's result, or what weights alone decide
  std::vector<int32_t> ops;  // that write it, in order
  std::vector<ValueId> values;
};

// The groups of a forward list.
class Groups {
 public:
  explicit Groups(const Graph& forward)
      : forward_(forward), parent_(forward.values.size()), group_of_(forward.values.size(), -1) {
    std::iota(parent_.begin(), parent_.end(), 0);
    join_values();
    for (size_t v = 0; v < parent_.size(); ++v) collect(static_cast<ValueId>(v));
    mark_layer_ends();
  }

  const std::vector<Group>& all() const { return groups_; }
  const Group* of(ValueId value) const {
    const int32_t at = group_of_[static_cast<size_t>(value)];
    return at < 0 ? nullptr : &groups_[static_cast<size_t>(at)];
  }

 private:
  ValueId root(ValueId value) {
    while (parent_[static_cast<size_t>(value)] != value) value = parent_[static_cast<size_t>(value)];
    return value;
  }
  void join(ValueId a, ValueId b) {
    a = root(a), b = root(b);
    parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }
  void join_values() {
    std::vector<ValueId> first(forward_.buffers.size(), kNoValue);  // of each buffer
    for (size_t v = 0; v < parent_.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      ValueId& found = first[static_cast<size_t>(forward_.values[v].buffer)];
      found == kNoValue ? static_cast<void>(found = id) : join(id, found);
    }
    for (const Op& op : forward_.ops)
      for (const auto* values : {&op.out, &op.parts})
        for (ValueId value : *values)
          if (!op.out.empty()) join(value, op.out[0]);
    // A sum and what a layer adds are one also where the types differ, so that the sum is not in
    // the other's place.
    for (const Op& op : forward_.ops)
      if (op.kind == &ops::add && forward_.ops[static_cast<size_t>(forward_.producers[static_cast<size_t>(op.in[1])])].layer == op.layer)
        join(op.in[1], op.out[0]);
  }
  void collect(ValueId value) {
    const int32_t producer = forward_.producers[static_cast<size_t>(value)];
    if (producer < 0 || forward_.ops[static_cast<size_t>(producer)].layer < 0) return;
    int32_t& at = group_of_[static_cast<size_t>(root(value))];
    if (at < 0) {
      at = static_cast<int32_t>(groups_.size());
      groups_.push_back(
          {local_name(forward_.value(value).name), forward_.ops[static_cast<size_t>(producer)].layer});
    }
    group_of_[static_cast<size_t>(value)] = at;
    Group& group = groups_[static_cast<size_t>(at)];
    group.values.push_back(value);
    group.always_kept |= forward_.buffer_of(value).rows == Rows::one;
    if (std::find(group.ops.begin(), group.ops.end(), producer) == group.ops.end())
      group.ops.push_back(producer);
  }
  void mark_layer_ends() {
    for (size_t i = 0; i + 1 < forward_.ops.size(); ++i) {
      if (forward_.ops[i].layer < 0 || forward_.ops[i].layer == forward_.ops[i + 1].layer) continue;
      const int32_t at = group_of_[static_cast<size_t>(end_of_layer(forward_, i).out[0])];
      groups_[static_cast<size_t>(at)].always_kept = true;
    }
  }

  const Graph& forward_;
  std::vector<ValueId> parent_;
  std::vector<int32_t> group_of_;
  std::vector<Group> groups_;
};

bool is_activation(const Op& op) { return op.kind == &ops::glu || op.kind == &ops::activation; }

// True for results of norms, activations and casts, which cost a pass over memory.
bool never_kept(const Graph& forward, ValueId value) {
  const Op& op = forward.ops[static_cast<size_t>(forward.producers[static_cast<size_t>(value)])];
  const bool result = value == op.out[0];  // and not 1 / rms
  return op.layer >= 0 && ((is_norm(op) && result) || is_activation(op) || op.kind == &ops::cast);
}

// Returns the buffers of what is only added to a stream of another type: nothing reads them again.
std::set<int32_t> only_added(const Graph& forward) {
  std::set<ValueId> added, read;
  for (const Op& op : forward.ops)
    for (ValueId in : op.in) {
      const bool apart = op.kind == &ops::add && forward.buffer_of(in).type != forward.buffer_of(op.out[0]).type;
      (apart ? added : read).insert(in);
    }
  std::set<int32_t> buffers;
  for (ValueId value : added)
    if (read.count(value) == 0) buffers.insert(forward.value(value).buffer);
  return buffers;
}

// Returns the groups that activations of their layers read.
std::set<const Group*> read_by_activations(const Graph& forward, const Groups& groups) {
  std::set<const Group*> read;
  for (size_t i = 0; i < forward.ops.size(); ++i) {
    const Op& op = forward.ops[i];
    const Group* group = is_activation(op) ? groups.of(op.in[0]) : nullptr;
    if (group && op.layer == group->layer && i >= static_cast<size_t>(group->ops.back()))
      read.insert(group);
  }
  return read;
}

// Returns the bytes of what could be kept of the group. `added`: only_added().
int64_t bytes_of(const Graph& forward, const Group& group, const std::set<int32_t>& added, const StepSizes& sizes) {
  std::set<int32_t> buffers = added;
  int64_t bytes = 0;
  for (ValueId value : group.values) {
    const Buffer& b = forward.buffer_of(value);
    if (!never_kept(forward, value) && buffers.insert(forward.value(value).buffer).second)
      bytes += sizes.rows(b.rows) * b.width * sizes.element(b.type);
  }
  return bytes;
}

double flops_of(const Graph& forward, int32_t index, const StepSizes& sizes, double mean_length) {
  const Op& op = forward.ops[static_cast<size_t>(index)];
  return cost_of(forward, op, sizes, mean_length).flops * (op.kind == &ops::attention ? kAttentionCost : 1);
}

// Returns the lowest layer that learns. Nothing is kept below it.
int64_t lowest_layer(const Graph& forward) {
  int64_t lowest = INT64_MAX;
  for (const ModuleUse& module : forward.modules)
    if (module.learns())
      lowest = std::min(lowest, module.kind == ModuleKind::embedding ? 0
                                : module.layer < 0                   ? INT64_MAX
                                                                     : module.layer);
  return lowest;
}

}  // namespace

Recomputed recomputed_by(const Graph& forward, Checkpointing policy) {
  Recomputed again;
  if (policy == Checkpointing::none) return again;
  const Groups groups(forward);
  const std::set<const Group*> read = policy == Checkpointing::full
                                          ? std::set<const Group*>()
                                          : read_by_activations(forward, groups);
  for (const Group& group : groups.all())
    if (!group.always_kept && (policy == Checkpointing::full || read.count(&group) > 0))
      again.add(group.name, group.layer);
  return again;
}

std::vector<RecomputeUnit> recompute_units(const Graph& forward, const StepSizes& sizes, double mean_length) {
  const int64_t lowest = lowest_layer(forward);
  const Groups groups(forward);
  const std::set<int32_t> added = only_added(forward);
  std::vector<RecomputeUnit> units;
  for (const Group& group : groups.all()) {
    const int64_t bytes = bytes_of(forward, group, added, sizes);
    if (group.always_kept || group.layer < lowest || bytes == 0) continue;
    RecomputeUnit unit{group.name, group.layer, 0, bytes};
    for (int32_t op : group.ops) unit.flops += flops_of(forward, op, sizes, mean_length);
    units.push_back(std::move(unit));
  }
  std::ranges::sort(units, {}, [](const RecomputeUnit& unit) {
    return std::make_pair(unit.flops / static_cast<double>(unit.bytes), unit.layer);
  });
  return units;
}

bool Recomputed::has(const std::string& group, int64_t layer) const {
  const auto found = layers.find(group);
  return found != layers.end() && found->second.count(layer) > 0;
}

KeptValues kept_values(const Graph& forward, const Recomputed& again, bool norms) {
  const std::set<ValueId> gone = overwritten(forward);
  const Groups groups(forward);
  KeptValues kept;
  for (size_t v = 0; v < forward.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (forward.producers[v] < 0 || gone.count(id)) continue;
    const bool norm = norms && is_norm(forward.ops[static_cast<size_t>(forward.producers[v])]);
    if (!norm && never_kept(forward, id)) continue;
    const Group* group = groups.of(id);
    if (!group || group->always_kept || !again.has(group->name, group->layer)) kept.insert(id);
  }
  return kept;
}

std::vector<ValueId> layer_inputs(const Graph& forward) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i + 1 < forward.ops.size(); ++i)
    if (forward.ops[i + 1].layer >= 0 && forward.ops[i + 1].layer != forward.ops[i].layer)
      // Inputs beside the stream are recorded after it.
      inputs.push_back(forward.ops[i].layer < 0 && forward.ops[i].parts.size() > 1
                           ? forward.ops[i + 1].in[0]
                           : end_of_layer(forward, i).out[0]);
  return inputs;
}

std::vector<bool> computed_again(const Graph& forward, const Recomputed& again) {
  const Groups groups(forward);
  std::vector<bool> repeated;
  for (const Op& op : forward.ops) {
    const Group* group = op.out.empty() ? nullptr : groups.of(op.out[0]);
    repeated.push_back(group && !group->always_kept && again.has(group->name, group->layer));
  }
  return repeated;
}

std::string layer_ranges(const std::set<int64_t>& layers) {
  std::vector<std::string> parts;
  for (auto at = layers.begin(); at != layers.end();) {
    const int64_t first = *at;
    int64_t last = first;
    while (++at != layers.end() && *at == last + 1) last = *at;
    parts.push_back(first == last ? std::to_string(first)
                                  : std::to_string(first) + "-" + std::to_string(last));
  }
  return join(parts, ",");
}

std::optional<std::set<int64_t>> layers_of(const std::string& ranges) {
  const auto number = [](std::string_view text) {
    int64_t value = -1;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    return fault == std::errc() && end == text.data() + text.size() && value < kMostLayers ? value : -1;
  };
  std::set<int64_t> layers;
  for (const std::string& part : split(ranges, ',')) {
    const size_t dash = std::min(part.find('-'), part.size());
    const int64_t first = number(std::string_view(part).substr(0, dash));
    const int64_t last = dash == part.size() ? first : number(std::string_view(part).substr(dash + 1));
    if (first < 0 || last < first) return std::nullopt;
    for (int64_t layer = first; layer <= last; ++layer) layers.insert(layer);
  }
  return layers;
}

std::string describe(const Recomputed& again) {
  std::vector<std::string> parts;
  for (const auto& [group, layers] : again.layers)
    parts.push_back(group + (layers.size() == 1 ? " in layer " : " in layers ") + layer_ranges(layers));
  return parts.empty() ? "nothing" : join(parts, ", ");
}

}  // namespace forge
