#include <algorithm>

#include "core/model/graph/layout.h"
#include "kernels/lora/lora_cuda_space.h"
#include "kernels/lora/lora_space.h"
#include "providers/fused/bind.h"
#include "providers/fused/workspace.h"

namespace forge::bind {

ExpertsOf expert_rows(const Call& c, ValueId id) {
  FORGE_CHECK(c.m.stride(id) == c.m.width(id), "rows of experts with gaps");
  return {static_cast<char*>(c.m.data(id)), c.m.width(id) / c.op.attributes.route.per_token};
}

Part range_of(const Call& c, const ExpertsOf& rows, const Range& range) {
  return {rows.data + range.begin * rows.width * c.bytes(), rows.width, rows.width};
}

FusedModule expert_module(const Call& c, size_t expert) {
  if (!joined(c)) return c.module(expert);
  FusedModule m = c.module();
  const ModuleUse& use = c.use();
  const auto number = static_cast<int64_t>(expert);
  const auto later = [&](const void* from, int64_t elements) {
    return from ? static_cast<const char*>(from) + number * elements * c.bytes() : nullptr;
  };
  const auto gradient = [&](float* from, int64_t elements) {
    return from ? from + number * elements : nullptr;
  };
  m.bias = later(m.bias, use.out), m.a = later(m.a, use.rank * use.in);
  m.d_weight = gradient(m.d_weight, use.in * use.out), m.d_bias = gradient(m.d_bias, use.out),
  m.d_a = gradient(m.d_a, use.rank * use.in);
  return m;
}

namespace {

LoraGroup adapter_of(const Call& c, const ExpertSpace& space, const Range& range, const Part& x,
                     const Part& y, ValueId sums) {
  const FusedModule m = expert_module(c, range.expert);
  FORGE_CHECK(!m.magnitude, "DoRA of an expert");
  LoraGroup g{.type = c.type(),
              .tokens = range.count,
              .width = x.width,
              .rank = expert_use(c, range.expert).rank,
              .members = 1};
  g.scale = m.scale;
  g.x = x.data, g.x_stride = x.stride, g.a = m.a;
  g.s = c.m.numbers(sums) + range.begin * (c.m.width(sums) / c.op.attributes.route.per_token);
  if (c.m.capacity.gpu) g.s_type = c.type();
  g.member[0] = {.out = y.width, .b = joined(c) ? c.at(space.b) : m.b, .y = y.data, .y_stride = y.stride};
  if (c.batch.dropout && m.dropout > 0)
    g.dropout = dropout_of(c, m, c.at<const int64_t>(space.examples) + range.begin,
                           c.at<const int32_t>(space.positions) + range.begin);
  return g;
}

}  // namespace

LoraForward expert_lora_forward(const Call& c, const ExpertSpace& space, const Range& range) {
  const Part x = range_of(c, expert_rows(c, c.in(0)), range),
             y = range_of(c, expert_rows(c, c.out(0)), range);
  return {adapter_of(c, space, range, x, y, c.out(1)), c.at(space.adapter)};
}

LoraBackward expert_lora_backward(const Call& c, const ExpertSpace& space, const Range& range) {
  const Part d_y = range_of(c, expert_rows(c, c.in(0)), range),
             x = range_of(c, expert_rows(c, c.in(1)), range);
  const FusedModule m = expert_module(c, range.expert);
  LoraBackward args{adapter_of(c, space, range, x, d_y, c.in(2))};
  args.group.member[0].d_b = joined(c) ? c.at<float>(space.d_b) : m.d_b;
  args.d_a = m.d_a;
  if (!c.op.out.empty()) {
    const Part d_x = range_of(c, expert_rows(c, c.out(0)), range);
    args.d_x = d_x.data, args.d_x_stride = d_x.stride;
  }
  args.workspace = c.at(space.adapter);
  return args;
}

ExpertSpace expert_space(const Call& c) {
  const ModuleUse& use = c.use();
  const int64_t factor = joined(c) ? use.out * use.rank : 0,
                rows = c.planned_tokens() * c.op.attributes.route.per_token;
  bool drops = false;
  for (size_t i = 0; i < c.op.modules.size(); ++i) drops |= c.use(i).dropout;
  ExpertSpace space;
  const auto take = [&](int64_t bytes) {
    const int64_t begin = space.bytes;
    space.bytes += (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    return begin;
  };
  space.examples = take(drops ? 8 * rows : 0), space.positions = take(drops ? 4 * rows : 0);
  space.b = take(c.bytes() * factor), space.d_b = take(4 * factor);
  int64_t adapter = 0;
  for (size_t i = 0; i < c.op.modules.size(); ++i) {
    if (c.use(i).rank == 0) continue;
    const Range all{i, 0, rows};  // one expert may get every row
    adapter = std::max(adapter, c.op.kind == OpKind::expert_adapter_gradient
                                    ? lora_workspace(c, expert_lora_backward(c, space, all).group, true)
                                    : lora_workspace(c, expert_lora_forward(c, space, all).group, false));
  }
  space.adapter = take(adapter);
  return space;
}

}  // namespace forge::bind
