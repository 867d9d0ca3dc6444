#include "core/graph/layout.h"

#include <algorithm>

#include "core/graph/op_record.h"

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
int64_t aligned_bytes(const Buffer& b, const StepSizes& sizes) { return aligned(sizes.rows(b.rows) * b.width * sizes.element(b.type)); }

// Returns buffers by their index, then a workspace for each op.
std::vector<Item> items_of(const Graph& graph, const StepSizes& sizes, const WorkspaceOf& workspace) {
  std::vector<Item> items(graph.buffers.size() + graph.ops.size());
  for (size_t i = 0; i < graph.buffers.size(); ++i) items[i].bytes = aligned_bytes(graph.buffers[i], sizes);
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

// Bytes that are taken, as ranges that do not touch, in order.
class Taken {
 public:
  void add(int64_t begin, int64_t end) {
    const auto first = std::lower_bound(ranges_.begin(), ranges_.end(), begin, [](const Range& r, int64_t at) { return r.end < at; });
    auto last = first;
    for (; last != ranges_.end() && last->begin <= end; ++last) begin = std::min(begin, last->begin), end = std::max(end, last->end);
    if (first == last) {
      ranges_.insert(first, {begin, end});
    } else {
      *first = {begin, end};
      ranges_.erase(first + 1, last);
    }
  }
  // Returns the lowest place for so many bytes from `offset` on.
  int64_t free_from(int64_t offset, int64_t bytes) const {
    auto range = std::upper_bound(ranges_.begin(), ranges_.end(), offset, [](int64_t at, const Range& r) { return at < r.end; });
    for (; range != ranges_.end() && range->begin < offset + bytes; ++range) offset = range->end;
    return offset;
  }

 private:
  struct Range {
    int64_t begin, end;
  };
  std::vector<Range> ranges_;
};

constexpr int32_t kStretch = 32;  // ops

// Items placed at kStretch consecutive ops. A large model has thousands of items: most of them end
// after a few ops, and the others live through many stretches as a whole.
struct Stretch {
  Taken at_any, at_all;    // memory of items that live at any of the ops, and at all of them
  std::vector<Item> some;  // items that begin or end among them, by offset

  void add(const Item& item, bool whole) {
    const int64_t end = item.offset + item.bytes;
    at_any.add(item.offset, end);
    if (whole) return at_all.add(item.offset, end);
    some.insert(std::upper_bound(some.begin(), some.end(), item, [](const Item& a, const Item& b) { return a.offset < b.offset; }), item);
  }
  // Returns the lowest place from `offset` on that no item takes that lives at the same time.
  // `whole`: the item lives at all of the ops.
  int64_t free_from(int64_t offset, const Item& item, bool whole) const {
    if (whole) return at_any.free_from(offset, item.bytes);
    offset = at_all.free_from(offset, item.bytes);
    for (const Item& other : some) {
      if (offset + item.bytes <= other.offset) break;
      if (item.meets(other)) offset = std::max(offset, other.offset + other.bytes);
    }
    return offset;
  }
};

void place(std::vector<Item>& items, size_t ops) {
  std::vector<size_t> order;
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i].last >= 0 && items[i].bytes > 0) order.push_back(i);
  std::ranges::stable_sort(order, std::greater(), [&](size_t index) { return items[index].bytes; });
  std::vector<Stretch> stretches(ops / kStretch + 1);
  for (size_t index : order) {
    Item& item = items[index];
    const auto first = static_cast<size_t>(item.first / kStretch), last = static_cast<size_t>(item.last / kStretch);
    const auto whole = [&](size_t i) { return i > first && i < last; };
    // Each stretch may move it up; where none does, it is free in all.
    int64_t before = -1;
    for (item.offset = 0; item.offset != before;) {
      before = item.offset;
      for (size_t i = first; i <= last; ++i) item.offset = stretches[i].free_from(item.offset, item, whole(i));
    }
    for (size_t i = first; i <= last; ++i) stretches[i].add(item, whole(i));
  }
}

// Counts the bytes held at each op, and takes those of the fullest one.
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

// Places the values that are copied out in the host's memory.
void place_on_host(const Graph& graph, const StepSizes& sizes, Layout& layout) {
  for (const Op& op : graph.ops) {
    if (!op.kind->to_host) continue;
    const auto slot = static_cast<size_t>(op.attributes.slot);
    layout.host_offsets.resize(std::max(layout.host_offsets.size(), slot + 1));
    layout.host_offsets[slot] = layout.host_bytes;
    layout.host_bytes += aligned_bytes(graph.buffer_of(op.in[0]), sizes);
  }
}

}  // namespace

int64_t host_bytes(const Graph& graph, const StepSizes& sizes) {
  Layout layout;
  place_on_host(graph, sizes, layout);
  return layout.host_bytes;
}

Layout lay_out(const Graph& graph, const StepSizes& sizes, const WorkspaceOf& workspace) {
  std::vector<Item> items = items_of(graph, sizes, workspace);
  place(items, graph.ops.size());
  Layout layout;
  count_fullest(graph, items, layout);
  place_on_host(graph, sizes, layout);
  for (size_t i = 0; i < items.size(); ++i) {
    (i < graph.buffers.size() ? layout.offsets : layout.workspaces).push_back(items[i].offset);
    if (items[i].offset >= 0) layout.bytes = std::max(layout.bytes, items[i].offset + items[i].bytes);
  }
  return layout;
}

}  // namespace forge
