// Mixtures of experts: routing and the sums of kernels/experts, and a product for each expert's rows of one op.
#include "providers/fused/experts.h"

#include "core/base/error.h"
#include "core/model/forward.h"
#include "providers/fused/products.h"

namespace forge::fused {
namespace {

int32_t* numbers(const FusedRun& r, ValueId id) { return static_cast<int32_t*>(r.m.data(id)); }

// Rows of experts in a value, one behind the other.
struct ExpertsOf {
  char* data = nullptr;
  int64_t width = 0;
};
ExpertsOf rows_of(const FusedRun& r, ValueId id) {
  FORGE_CHECK(r.m.stride(id) == r.m.width(id), "rows of experts with gaps");
  return {static_cast<char*>(r.m.data(id)), r.m.width(id) / r.op.attributes.route.per_token};
}

// Rows [begin, begin + count) of one expert.
struct Range {
  size_t expert;
  int64_t begin, count;
};
template <class Visit>
void each_expert(const FusedRun& r, ValueId ends_id, Visit visit) {
  const int32_t* ends = numbers(r, ends_id);
  for (size_t expert = 0; expert < r.op.modules.size(); ++expert) {
    const int64_t begin = expert == 0 ? 0 : ends[expert - 1], count = ends[expert] - begin;
    if (count > 0) visit(Range{expert, begin, count});
  }
}

Part part_of(const FusedRun& r, const ExpertsOf& rows, const Range& range) {
  return {rows.data + range.begin * rows.width * r.bytes(), rows.width, rows.width};
}

LoraGroup adapter_of(const FusedRun& r, const Range& range, const Part& x, const Part& y, ValueId sums) {
  const FusedModule& m = r.module(range.expert);
  FORGE_CHECK(!m.magnitude, "DoRA of an expert");
  LoraGroup g{.type = r.type(),
              .tokens = range.count,
              .width = x.width,
              .rank = r.use(range.expert).rank,
              .members = 1};
  g.scale = m.scale;
  g.x = x.data, g.x_stride = x.stride, g.a = m.a;
  g.s = r.m.numbers(sums) + range.begin * (r.m.width(sums) / r.op.attributes.route.per_token);
  g.member[0] = {.out = y.width, .b = m.b, .y = y.data, .y_stride = y.stride};
  if (r.batch.dropout && m.dropout > 0)
    g.dropout = dropout_of(r, m, r.batch.expert_keys->example.data() + range.begin, r.batch.expert_keys->position.data() + range.begin);
  return g;
}

// Each row's keys of dropout are its token's.
void place_keys(const FusedRun& r, ValueId order) {
  bool drops = false;
  for (size_t expert = 0; expert < r.op.modules.size(); ++expert) drops |= r.module(expert).dropout > 0;
  if (!r.batch.dropout || !drops) return;
  const int64_t per_token = r.op.attributes.route.per_token;
  const int32_t* places = numbers(r, order);
  ExpertRowKeys& keys = *r.batch.expert_keys;
  keys.example.resize(static_cast<size_t>(r.m.tokens * per_token)), keys.position.resize(keys.example.size());
  for (int64_t slot = 0; slot < r.m.tokens * per_token; ++slot) {
    const auto row = static_cast<size_t>(places[slot]);
    keys.example[row] = r.batch.example[slot / per_token],
    keys.position[row] = r.batch.position[slot / per_token];
  }
}

}  // namespace

void route(const FusedRun& r) {
  FORGE_CHECK(r.op.modules.empty(), "a correction of the router's scores");
  r.device.run(ExpertRoute{.type = r.type(),
                           .rule = rule_of(r.op.attributes.route),
                           .tokens = r.m.tokens,
                           .experts = r.m.width(r.in(0)),
                           .logits = r.m.data(r.in(0)),
                           .logits_stride = r.m.stride(r.in(0)),
                           .weights = r.m.numbers(r.out(0)),
                           .places = numbers(r, r.out(1)),
                           .ends = numbers(r, r.out(2)),
                           .probability = r.op.out.size() > 3 ? r.m.numbers(r.out(3)) : nullptr});
}

void route_backward(const FusedRun& r) {
  r.device.run(ExpertRouteBackward{.type = r.type(),
                                   .rule = rule_of(r.op.attributes.route),
                                   .tokens = r.m.tokens,
                                   .experts = r.m.width(r.in(1)),
                                   .logits = r.m.data(r.in(1)),
                                   .logits_stride = r.m.stride(r.in(1)),
                                   .d_weights = r.m.numbers(r.in(0)),
                                   .places = numbers(r, r.in(2)),
                                   .ends = numbers(r, r.in(3)),
                                   .slope = r.batch.balance_slope,
                                   .d_logits = r.m.data(r.out(0)),
                                   .d_logits_stride = r.m.stride(r.out(0))});
}

// And back: the sum of a token's rows.
void dispatch(const FusedRun& r) {
  const bool back = r.op.kind == OpKind::dispatch_backward;
  const ValueId x = back ? r.out(0) : r.in(0), rows = back ? r.in(0) : r.out(0);
  r.device.run(ExpertRows{.type = r.type(),
                          .tokens = r.m.tokens,
                          .per_token = r.op.attributes.route.per_token,
                          .width = r.m.width(x),
                          .places = numbers(r, r.in(1)),
                          .x = r.m.data(x),
                          .x_stride = r.m.stride(x),
                          .rows = rows_of(r, rows).data,
                          .back = back,
                          .accumulate = r.op.attributes.accumulate});
}

void combine(const FusedRun& r) {
  r.device.run(ExpertCombine{.type = r.type(),
                             .tokens = r.m.tokens,
                             .per_token = r.op.attributes.route.per_token,
                             .width = r.m.width(r.out(0)),
                             .places = numbers(r, r.in(1)),
                             .weights = r.m.numbers(r.in(2)),
                             .rows = rows_of(r, r.in(0)).data,
                             .y = r.m.data(r.out(0)),
                             .y_stride = r.m.stride(r.out(0))});
}

void combine_backward(const FusedRun& r) {
  r.device.run(ExpertCombineBackward{.type = r.type(),
                                     .tokens = r.m.tokens,
                                     .per_token = r.op.attributes.route.per_token,
                                     .width = r.m.width(r.in(0)),
                                     .places = numbers(r, r.in(2)),
                                     .weights = r.m.numbers(r.in(3)),
                                     .rows = rows_of(r, r.in(1)).data,
                                     .d_y = r.m.data(r.in(0)),
                                     .d_y_stride = r.m.stride(r.in(0)),
                                     .d_rows = rows_of(r, r.out(0)).data,
                                     .d_weights = r.m.numbers(r.out(1))});
}

void gate_rows(const FusedRun& r) {
  r.device.run(GateRows{.type = r.type(),
                        .rows = r.m.tokens,
                        .width = r.m.width(r.in(0)),
                        .x = r.m.data(r.in(0)),
                        .x_stride = r.m.stride(r.in(0)),
                        .gate = r.m.data(r.in(1)),
                        .gate_stride = r.m.stride(r.in(1)),
                        .y = r.m.data(r.out(0)),
                        .y_stride = r.m.stride(r.out(0))});
}

void gate_rows_backward(const FusedRun& r) {
  r.device.run(GateRowsBackward{.type = r.type(),
                                .rows = r.m.tokens,
                                .width = r.m.width(r.in(0)),
                                .d_y = r.m.data(r.in(0)),
                                .d_y_stride = r.m.stride(r.in(0)),
                                .x = r.m.data(r.in(1)),
                                .x_stride = r.m.stride(r.in(1)),
                                .gate = r.m.data(r.in(2)),
                                .gate_stride = r.m.stride(r.in(2)),
                                .d_x = r.m.data(r.out(0)),
                                .d_x_stride = r.m.stride(r.out(0)),
                                .d_gate = r.m.data(r.out(1)),
                                .d_gate_stride = r.m.stride(r.out(1))});
}

void expert_linear(const FusedRun& r) {
  const ExpertsOf x = rows_of(r, r.in(0)), y = rows_of(r, r.out(0));
  place_keys(r, r.in(2));
  each_expert(r, r.in(1), [&](const Range& range) {
    const Part from = part_of(r, x, range), to = part_of(r, y, range);
    product(r, range.count, to, from, base(r, range.expert), r.module(range.expert).bias);
    if (r.use(range.expert).rank > 0)
      r.device.run(LoraForward{adapter_of(r, range, from, to, r.out(1)), r.workspace});
  });
}

void expert_input_gradient(const FusedRun& r) {
  const ExpertsOf d_y = rows_of(r, r.in(0)), d_x = rows_of(r, r.out(0));
  each_expert(r, r.in(1), [&](const Range& range) {
    input_gradient(r, range.count, part_of(r, d_x, range), part_of(r, d_y, range), base(r, range.expert),
                   r.op.attributes.accumulate);
  });
}

void expert_weight_gradient(const FusedRun& r) {
  const ExpertsOf d_y = rows_of(r, r.in(0)), x = rows_of(r, r.in(1));
  each_expert(r, r.in(2), [&](const Range& range) {
    if (float* gradient = r.module(range.expert).d_weight)
      weight_gradient(r, range.count, gradient, part_of(r, d_y, range), part_of(r, x, range));
  });
}

void expert_adapter_gradient(const FusedRun& r) {
  const ExpertsOf d_y = rows_of(r, r.in(0)), x = rows_of(r, r.in(1));
  place_keys(r, r.in(4));
  each_expert(r, r.in(3), [&](const Range& range) {
    if (r.use(range.expert).rank == 0) return;
    LoraBackward args{adapter_of(r, range, part_of(r, x, range), part_of(r, d_y, range), r.in(2))};
    args.group.member[0].d_b = r.module(range.expert).d_b;
    args.d_a = r.module(range.expert).d_a;
    if (!r.op.out.empty()) {
      const Part d_x = part_of(r, rows_of(r, r.out(0)), range);
      args.d_x = d_x.data, args.d_x_stride = d_x.stride;
    }
    args.workspace = r.workspace;
    r.device.run(args);
  });
}

}  // namespace forge::fused
