#include "core/graph/layout.h"

#include <algorithm>
#include <numeric>

namespace forge {
namespace {

// A piece of memory and the ops between which it holds something.
struct Item {
  int64_t bytes = 0, offset = -1;
  int32_t first = INT32_MAX, last = -1;

  bool meets(const Item& other) const { return first <= other.last && other.first <= last; }
  void touch(int32_t op) {
    first = std::min(first, op);
    last = std::max(last, op);
  }
};

int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

// Buffers by their index, then a workspace for each op.
std::vector<Item> items_of(const Graph& graph, const StepSizes& sizes, const WorkspaceOf& workspace) {
  std::vector<Item> items(graph.buffers.size() + graph.ops.size());
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const Buffer& b = graph.buffers[i];
    items[i].bytes = aligned(sizes.rows(b.rows) * b.width * sizes.element(b.type));
  }
  for (size_t t = 0; t < graph.ops.size(); ++t) {
    const Op& op = graph.ops[t];
    const auto at = static_cast<int32_t>(t);
    for (const auto* values : {&op.in, &op.out})
      for (ValueId value : *values) items[static_cast<size_t>(graph.value(value).buffer)].touch(at);
    Item& space = items[graph.buffers.size() + t];
    space.bytes = aligned(workspace(graph, op, sizes));
    if (space.bytes > 0) space.touch(at);
  }
  return items;
}

// The lowest offset at which `item` meets nothing that is placed. `placed` is sorted by offset.
int64_t lowest_gap(const Item& item, const std::vector<Item>& placed) {
  int64_t offset = 0;
  for (const Item& other : placed) {
    if (!item.meets(other)) continue;
    if (offset + item.bytes <= other.offset) return offset;
    offset = std::max(offset, other.offset + other.bytes);
  }
  return offset;
}

void insert(const Item& item, std::vector<Item>& placed) {
  placed.insert(std::upper_bound(placed.begin(), placed.end(), item, [](const Item& a, const Item& b) { return a.offset < b.offset; }), item);
}

void place(std::vector<Item>& items, size_t ops) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return items[a].bytes > items[b].bytes; });
  // All that is placed, and what of it lives during some of so many ops: most items are gone after a few, and a large model has thousands.
  constexpr int32_t kStretch = 64;
  std::vector<Item> all;
  std::vector<std::vector<Item>> stretches(ops / kStretch + 1);
  for (size_t index : order) {
    Item& item = items[index];
    if (item.last < 0 || item.bytes == 0) continue;
    const auto first = static_cast<size_t>(item.first / kStretch), last = static_cast<size_t>(item.last / kStretch);
    item.offset = lowest_gap(item, first == last ? stretches[first] : all);
    insert(item, all);
    for (size_t i = first; i <= last; ++i) insert(item, stretches[i]);
  }
}

// What is held at each op, for the fullest one.
void count_fullest(const Graph& graph, const std::vector<Item>& items, Layout& layout) {
  const size_t ops = graph.ops.size();
  std::vector<int64_t> kept(ops + 1), working(ops + 1);
  for (const Item& item : items) {
    if (item.last < 0) continue;
    const auto forward = static_cast<int32_t>(graph.forward_ops);
    std::vector<int64_t>& bytes = item.first < forward && item.last >= forward ? kept : working;
    bytes[static_cast<size_t>(item.first)] += item.bytes;
    bytes[static_cast<size_t>(item.last) + 1] -= item.bytes;
  }
  int64_t kept_now = 0, working_now = 0;
  for (size_t t = 0; t < ops; ++t) {
    kept_now += kept[t];
    working_now += working[t];
    if (kept_now + working_now <= layout.kept_bytes + layout.working_bytes) continue;
    layout.kept_bytes = kept_now;
    layout.working_bytes = working_now;
  }
}

}  // namespace

Layout lay_out(const Graph& graph, const StepSizes& sizes, const WorkspaceOf& workspace) {
  std::vector<Item> items = items_of(graph, sizes, workspace);
  place(items, graph.ops.size());
  Layout layout;
  count_fullest(graph, items, layout);
  for (size_t i = 0; i < items.size(); ++i) {
    (i < graph.buffers.size() ? layout.offsets : layout.workspaces).push_back(items[i].offset);
    if (items[i].offset >= 0) layout.bytes = std::max(layout.bytes, items[i].offset + items[i].bytes);
  }
  return layout;
}

}  // namespace forge
