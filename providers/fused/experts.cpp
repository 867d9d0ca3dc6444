// Mixtures of experts: routing and the sums of kernels/experts, and the products of all experts of
// an op as one group.
#include "providers/fused/experts.h"

#include "core/base/error.h"
#include "core/model/forward.h"
#include "providers/fused/fused_plan.h"
#include "providers/fused/products.h"

namespace forge::fused {
namespace {

int32_t* numbers(const FusedRun& r, ValueId id) { return static_cast<int32_t*>(r.m.data(id)); }

// Rows of experts in a value, one after the other.
struct ExpertsOf {
  char* data = nullptr;
  int64_t width = 0;
};
ExpertsOf rows_of(const FusedRun& r, ValueId id) {
  FORGE_CHECK(r.m.stride(id) == r.m.width(id), "rows of experts with gaps");
  return {static_cast<char*>(r.m.data(id)), r.m.width(id) / r.op.attributes.route.per_token};
}

// The rows [begin, begin + count) of one expert.
struct Range {
  size_t expert;
  int64_t begin, count;
};
template <class Visit>
void each_expert(const FusedRun& r, ValueId ends_id, Visit visit) {
  const int32_t* ends = r.device.separate() ? r.batch.expert_ends->at(ends_id).data() : numbers(r, ends_id);
  const auto experts = static_cast<size_t>(r.m.width(ends_id));
  for (size_t expert = 0; expert < experts; ++expert) {
    const int64_t begin = expert == 0 ? 0 : ends[expert - 1], count = ends[expert] - begin;
    if (count > 0) visit(Range{expert, begin, count});
  }
}

Part part_of(const FusedRun& r, const ExpertsOf& rows, const Range& range) {
  return {rows.data + range.begin * rows.width * r.bytes(), rows.width, rows.width};
}

bool joined(const FusedRun& r) { return r.use().experts > 0; }
const ModuleUse& use_of(const FusedRun& r, size_t expert) { return r.use(joined(r) ? 0 : expert); }

// Returns an expert's own module, or its part of the op's one module. B of a joined module stays
// that of the whole module: see `factor_of`.
FusedModule module_of(const FusedRun& r, size_t expert) {
  if (!joined(r)) return r.module(expert);
  FusedModule m = r.module();
  const ModuleUse& use = r.use();
  const auto number = static_cast<int64_t>(expert);
  const auto later = [&](const void* from, int64_t elements) {
    return from ? static_cast<const char*>(from) + number * elements * r.bytes() : nullptr;
  };
  const auto gradient = [&](float* from, int64_t elements) {
    return from ? from + number * elements : nullptr;
  };
  m.bias = later(m.bias, use.out), m.a = later(m.a, use.rank * use.in);
  m.d_weight = gradient(m.d_weight, use.in * use.out), m.d_bias = gradient(m.d_bias, use.out),
  m.d_a = gradient(m.d_a, use.rank * use.in);
  return m;
}

// Returns B [out, rank] of one expert. In a joined module the columns of the experts alternate, so
// they are copied first.
const void* factor_of(const FusedRun& r, const ExpertSpace& space, const FusedModule& m, size_t expert) {
  if (!joined(r)) return m.b;
  const ModuleUse& use = r.use();
  void* own = static_cast<char*>(r.workspace) + space.b;
  r.device.run(CopyRows{.element_bytes = r.bytes(),
                        .rows = use.out * use.rank,
                        .width = 1,
                        .x = static_cast<const char*>(m.b) + static_cast<int64_t>(expert) * r.bytes(),
                        .x_stride = use.experts,
                        .y = own,
                        .y_stride = 1});
  return own;
}

LoraGroup adapter_of(const FusedRun& r, const ExpertSpace& space, const Range& range, const Part& x,
                     const Part& y, ValueId sums) {
  const FusedModule m = module_of(r, range.expert);
  FORGE_CHECK(!m.magnitude, "DoRA of an expert");
  char* const workspace = static_cast<char*>(r.workspace);
  LoraGroup g{.type = r.type(),
              .tokens = range.count,
              .width = x.width,
              .rank = use_of(r, range.expert).rank,
              .members = 1};
  g.scale = m.scale;
  g.x = x.data, g.x_stride = x.stride, g.a = m.a;
  g.s = r.m.numbers(sums) + range.begin * (r.m.width(sums) / r.op.attributes.route.per_token);
  if (r.device.separate()) g.s_type = r.type();
  g.member[0] = {
      .out = y.width, .b = factor_of(r, space, m, range.expert), .y = y.data, .y_stride = y.stride};
  if (r.batch.dropout && m.dropout > 0)
    g.dropout = dropout_of(r, m, reinterpret_cast<const int64_t*>(workspace + space.examples) + range.begin,
                           reinterpret_cast<const int32_t*>(workspace + space.positions) + range.begin);
  return g;
}

// Copies the dropout keys of each row's token, in the order of the rows, 4 B at a time.
void place_keys(const FusedRun& r, const ExpertSpace& space, ValueId order) {
  if (!r.batch.dropout || space.examples == space.positions) return;
  const auto move = [&](const void* of_tokens, int64_t to, int64_t width) {
    r.device.run(ExpertRows{.type = Element::f32,
                            .tokens = r.m.tokens,
                            .per_token = r.op.attributes.route.per_token,
                            .width = width,
                            .places = numbers(r, order),
                            .x = const_cast<void*>(of_tokens),
                            .x_stride = width,
                            .rows = static_cast<char*>(r.workspace) + to});
  };
  move(r.batch.example, space.examples, 2);
  move(r.batch.position, space.positions, 1);
}

}  // namespace

void route(const FusedRun& r) {
  FORGE_CHECK(r.op.modules.empty() || r.module().held == r.type(),
              "a correction in another type than the scores' logits");
  r.device.run(ExpertRoute{.type = r.type(),
                           .rule = rule_of(r.op.attributes.route),
                           .tokens = r.m.tokens,
                           .experts = r.m.width(r.in(0)),
                           .logits = r.m.data(r.in(0)),
                           .logits_stride = r.m.stride(r.in(0)),
                           .correction = r.op.modules.empty() ? nullptr : r.module().weight,
                           .weights = r.m.numbers(r.out(0)),
                           .places = numbers(r, r.out(1)),
                           .ends = numbers(r, r.out(2)),
                           .probability = r.op.out.size() > 3 ? r.m.numbers(r.out(3)) : nullptr});
  if (!r.device.separate()) return;
  // The number of rows of each expert decides which work is enqueued next, so the host waits for
  // it, once a layer.
  std::vector<int32_t>& ends = (*r.batch.expert_ends)[r.out(2)];
  ends.resize(static_cast<size_t>(r.m.width(r.out(2))));
  r.device.read(ends.data(), r.m.data(r.out(2)), static_cast<int64_t>(ends.size() * sizeof(int32_t)));
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

// Copies tokens' rows to the experts' rows. The backward adds up a token's rows.
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
  const ExpertSpace space = expert_space(r.m.graph, r.op, r.m.capacity);
  place_keys(r, space, r.in(2));
  ProductGroup products(r);
  each_expert(r, r.in(1), [&](const Range& range) {
    products.product(range.count, part_of(r, y, range), part_of(r, x, range), multiplied(r, range.expert), module_of(r, range.expert).bias);
  });
  products.run();
  each_expert(r, r.in(1), [&](const Range& range) {
    if (use_of(r, range.expert).rank > 0)
      r.device.run(LoraForward{adapter_of(r, space, range, part_of(r, x, range), part_of(r, y, range), r.out(1)),
                               static_cast<char*>(r.workspace) + space.adapter});
  });
}

void expert_input_gradient(const FusedRun& r) {
  const ExpertsOf d_y = rows_of(r, r.in(0)), d_x = rows_of(r, r.out(0));
  ProductGroup products(r);
  each_expert(r, r.in(1), [&](const Range& range) {
    products.input_gradient(range.count, part_of(r, d_x, range), part_of(r, d_y, range), base(r, range.expert),
                            r.op.attributes.accumulate);
  });
  products.run();
}

void expert_weight_gradient(const FusedRun& r) {
  const ExpertsOf d_y = rows_of(r, r.in(0)), x = rows_of(r, r.in(1));
  ProductGroup products(r);
  each_expert(r, r.in(2), [&](const Range& range) {
    const FusedModule m = module_of(r, range.expert);
    const Part of_y = part_of(r, d_y, range), of_x = part_of(r, x, range);
    if (m.d_bias)
      r.device.run(SumColumns{r.type(), range.count, of_y.width, of_y.data, of_y.stride, m.d_bias});
    if (!m.d_weight) return;
    joined(r) ? products.weight_gradient(range.count, m.d_weight, of_x, of_y)
              : products.weight_gradient(range.count, m.d_weight, of_y, of_x);
  });
  products.run();
}

void expert_adapter_gradient(const FusedRun& r) {
  const ExpertsOf d_y = rows_of(r, r.in(0)), x = rows_of(r, r.in(1));
  const ExpertSpace space = expert_space(r.m.graph, r.op, r.m.capacity);
  place_keys(r, space, r.in(4));
  each_expert(r, r.in(3), [&](const Range& range) {
    if (use_of(r, range.expert).rank == 0) return;
    const FusedModule m = module_of(r, range.expert);
    LoraBackward args{adapter_of(r, space, range, part_of(r, x, range), part_of(r, d_y, range), r.in(2))};
    args.group.member[0].d_b = m.d_b;
    args.d_a = m.d_a;
    if (!r.op.out.empty()) {
      const Part d_x = part_of(r, rows_of(r, r.out(0)), range);
      args.d_x = d_x.data, args.d_x_stride = d_x.stride;
    }
    args.workspace = static_cast<char*>(r.workspace) + space.adapter;
    if (!joined(r)) return r.device.run(args);
    const ModuleUse& use = r.use();
    const int64_t elements = use.out * use.rank;
    float* own = args.group.member[0].d_b =
        reinterpret_cast<float*>(static_cast<char*>(r.workspace) + space.d_b);
    r.device.clear(own, 4 * elements);
    r.device.run(args);
    r.device.run(AddRows{Element::f32, elements, 1, own, 1, m.d_b + range.expert, use.experts});
  });
}

}  // namespace forge::fused
