#include "core/model/graph/offload.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/lib/base/error.h"
#include "kernels/offload/offload_op.h"

namespace forge {
namespace {

struct Waiting {
  ValueId value = kNoValue;
  size_t made = 0, wanted = 0;  // the last op that writes its memory, and the first one of the backward that reads it
};

class Offloading {
 public:
  explicit Offloading(Graph& step) : step_(step), before_(step.ops.size()), behind_(step.ops.size()) {}

  void offload(const std::vector<ValueId>& values) {
    std::vector<Waiting> waiting;
    for (auto value = values.rbegin(); value != values.rend(); ++value) {
      const Waiting found = find(*value);
      if (found.wanted == 0) continue;
      // A later layer, which attends to keys that are made of it, wants it earlier.
      if (!waiting.empty() && found.wanted < waiting.back().wanted) continue;
      FORGE_CHECK(waiting.empty() || found.made < waiting.back().made,
                  step_.value(*value).name << " is made after the input of a layer above it");
      waiting.push_back(found);
    }
    std::ranges::reverse(waiting);
    for (size_t i = 0; i + 1 < waiting.size(); ++i) move(waiting[i], waiting[i + 1], static_cast<int64_t>(i));
    insert();
  }

 private:
  bool lies_in(ValueId value, int32_t buffer) const { return step_.value(value).buffer == buffer; }

  // Finds the ops that make a value and read it. `wanted` stays 0 if the backward does not read it.
  Waiting find(ValueId value) const {
    const int32_t buffer = step_.value(value).buffer;
    Waiting found{value};
    for (size_t i = 0; i < step_.forward_ops; ++i)
      for (const auto* made : {&step_.ops[i].out, &step_.ops[i].parts})
        for (const ValueId other : *made)
          if (lies_in(other, buffer)) found.made = i;
    for (size_t i = step_.forward_ops; i < step_.ops.size() && found.wanted == 0; ++i)
      for (const ValueId read : step_.ops[i].in)
        if (read == value) found.wanted = i;
    return found;
  }

  void move(const Waiting& h, const Waiting& above, int64_t slot) {
    const auto [values, back] = renamed(h.value);
    const auto op = [&](OpKind kind, size_t beside, std::vector<ValueId> in, std::vector<ValueId> out) {
      Op made{.kind = kind, .layer = step_.ops[beside].layer, .in = std::move(in), .out = std::move(out)};
      made.attributes.slot = slot;
      return made;
    };
    // The next call adds the ops of the copy of `above`, if it has one, after these.
    behind_[h.made].push_back(op(&ops::store, h.made, values, {}));
    behind_[above.made].push_back(op(&ops::stored, above.made, values, {}));
    before_[above.wanted].push_back(op(&ops::load, above.wanted, {}, back));
    before_[h.wanted].push_back(op(&ops::loaded, h.wanted, back, {}));
  }

  // Gives the backward a place of its own for all that it touches of a value's memory. The
  // forward's values there, such as an adapter's sums after it, get other names. Returns the values
  // that are in both places, by their forward and their backward names.
  std::pair<std::vector<ValueId>, std::vector<ValueId>> renamed(ValueId value) {
    const int32_t buffer = step_.value(value).buffer, place = step_.add_buffer(Buffer(step_.buffer_of(value)));
    std::set<ValueId> made;
    each(0, step_.forward_ops, buffer, [&](ValueId& other) { made.insert(other); });
    std::map<ValueId, ValueId> names;
    each(step_.forward_ops, step_.ops.size(), buffer, [&](ValueId& other) {
      if (made.count(other) == 0) {  // an adapter's sums that are made again
        step_.values[static_cast<size_t>(other)].buffer = place;
        return;
      }
      auto [name, is_new] = names.try_emplace(other, kNoValue);
      const Value old = step_.value(other);
      if (is_new) name->second = step_.add_value(old.name + "'", place, old.column, old.width);
      other = name->second;
    });
    std::pair<std::vector<ValueId>, std::vector<ValueId>> both;
    for (const auto& [before, behind] : names) both.first.push_back(before), both.second.push_back(behind);
    return both;
  }
  template <class Visit>
  void each(size_t first, size_t end, int32_t buffer, Visit visit) {
    for (size_t i = first; i < end; ++i)
      for (auto* values : {&step_.ops[i].in, &step_.ops[i].out, &step_.ops[i].parts})
        for (ValueId& other : *values)
          if (lies_in(other, buffer)) visit(other);
  }

  void insert() {
    std::vector<Op> ops;
    size_t forward = 0;
    for (size_t i = 0; i < step_.ops.size(); ++i) {
      std::move(before_[i].begin(), before_[i].end(), std::back_inserter(ops));
      ops.push_back(std::move(step_.ops[i]));
      std::move(behind_[i].begin(), behind_[i].end(), std::back_inserter(ops));
      if (i + 1 == step_.forward_ops) forward = ops.size();
    }
    step_.ops = std::move(ops), step_.forward_ops = forward;
  }

  Graph& step_;
  std::vector<std::vector<Op>> before_, behind_;  // by op: ops put before and after it
};

}  // namespace

void offload(Graph& step, const std::vector<ValueId>& values) {
  if (!values.empty()) Offloading(step).offload(values);
}

}  // namespace forge
