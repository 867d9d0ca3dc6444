// Mixtures of experts: routing and the sums of kernels/experts, and the products of all experts of
// an op as one group.
#include "providers/fused/experts.h"

#include "core/lib/base/error.h"
#include "core/model/functions.h"
#include "providers/fused/products.h"

namespace forge::fused {
using bind::ExpertsOf;
using bind::ExpertSpace;
using bind::joined;
using bind::Range;

namespace {

int32_t* numbers(const FusedRun& r, ValueId id) { return static_cast<int32_t*>(r.m.data(id)); }

template <class Visit>
void each_expert(const FusedRun& r, ValueId ends_id, Visit visit) {
  const int32_t* ends = r.device.separate() ? r.batch.expert_ends->at(ends_id).data() : numbers(r, ends_id);
  const auto experts = static_cast<size_t>(r.m.width(ends_id));
  for (size_t expert = 0; expert < experts; ++expert) {
    const int64_t begin = expert == 0 ? 0 : ends[expert - 1], count = ends[expert] - begin;
    if (count > 0) visit(Range{expert, begin, count});
  }
}

// Copies B [out, rank] of one expert of a joined module, where the columns of the experts
// alternate.
void place_factor(const FusedRun& r, const ExpertSpace& space, size_t expert) {
  if (!joined(r)) return;
  const ModuleUse& use = r.use();
  r.device.run(CopyRows{.element_bytes = r.bytes(),
                        .rows = use.out * use.rank,
                        .width = 1,
                        .x = static_cast<const char*>(r.module().b) + static_cast<int64_t>(expert) * r.bytes(),
                        .x_stride = use.experts,
                        .y = r.at(space.b),
                        .y_stride = 1});
}

// Copies the dropout keys of each row's token, in the order of the rows, 4 B at a time.
void place_keys(const FusedRun& r, const ExpertSpace& space, ValueId order) {
  if (!r.batch.dropout || !space.has_keys()) return;
  const auto move = [&](const void* of_tokens, int64_t to, int64_t width) {
    r.device.run(ExpertRows{.type = Element::f32,
                            .tokens = r.tokens(),
                            .per_token = r.op.attributes.route.per_token,
                            .width = width,
                            .places = numbers(r, order),
                            .x = const_cast<void*>(of_tokens),
                            .x_stride = width,
                            .rows = r.at(to)});
  };
  move(r.rows().example, space.examples, 2);
  move(r.rows().position, space.positions, 1);
}

}  // namespace

void route(const FusedRun& r) {
  FORGE_CHECK(r.op.modules.empty() || r.module().held == r.type(),
              "a correction in another type than the scores' logits");
  r.device.run(ExpertRoute{.type = r.type(),
                           .rule = rule_of(r.op.attributes.route),
                           .tokens = r.tokens(),
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
                                   .tokens = r.tokens(),
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
                          .tokens = r.tokens(),
                          .per_token = r.op.attributes.route.per_token,
                          .width = r.m.width(x),
                          .places = numbers(r, r.in(1)),
                          .x = r.m.data(x),
                          .x_stride = r.m.stride(x),
                          .rows = bind::expert_rows(r, rows).data,
                          .back = back,
                          .accumulate = r.op.attributes.accumulate});
}

void combine(const FusedRun& r) {
  r.device.run(ExpertCombine{.type = r.type(),
                             .tokens = r.tokens(),
                             .per_token = r.op.attributes.route.per_token,
                             .width = r.m.width(r.out(0)),
                             .places = numbers(r, r.in(1)),
                             .weights = r.m.numbers(r.in(2)),
                             .rows = bind::expert_rows(r, r.in(0)).data,
                             .y = r.m.data(r.out(0)),
                             .y_stride = r.m.stride(r.out(0))});
}

void combine_backward(const FusedRun& r) {
  r.device.run(ExpertCombineBackward{.type = r.type(),
                                     .tokens = r.tokens(),
                                     .per_token = r.op.attributes.route.per_token,
                                     .width = r.m.width(r.in(0)),
                                     .places = numbers(r, r.in(2)),
                                     .weights = r.m.numbers(r.in(3)),
                                     .rows = bind::expert_rows(r, r.in(1)).data,
                                     .d_y = r.m.data(r.in(0)),
                                     .d_y_stride = r.m.stride(r.in(0)),
                                     .d_rows = bind::expert_rows(r, r.out(0)).data,
                                     .d_weights = r.m.numbers(r.out(1))});
}

void gate_rows(const FusedRun& r) {
  r.device.run(GateRows{.type = r.type(),
                        .rows = r.tokens(),
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
                                .rows = r.tokens(),
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
  const ExpertsOf x = bind::expert_rows(r, r.in(0)), y = bind::expert_rows(r, r.out(0));
  const ExpertSpace space = bind::expert_space(r);
  place_keys(r, space, r.in(2));
  ProductGroup products(r);
  each_expert(r, r.in(1), [&](const Range& range) {
    products.product(range.count, bind::range_of(r, y, range), bind::range_of(r, x, range), multiplied(r, range.expert), bind::expert_module(r, range.expert).bias);
  });
  products.run();
  each_expert(r, r.in(1), [&](const Range& range) {
    if (bind::expert_use(r, range.expert).rank == 0) return;
    place_factor(r, space, range.expert);
    r.device.run(bind::expert_lora_forward(r, space, range));
  });
}

void expert_input_gradient(const FusedRun& r) {
  const ExpertsOf d_y = bind::expert_rows(r, r.in(0)), d_x = bind::expert_rows(r, r.out(0));
  ProductGroup products(r);
  each_expert(r, r.in(1), [&](const Range& range) {
    products.input_gradient(range.count, bind::range_of(r, d_x, range), bind::range_of(r, d_y, range), base(r, range.expert),
                            r.op.attributes.accumulate);
  });
  products.run();
}

void expert_weight_gradient(const FusedRun& r) {
  const ExpertsOf d_y = bind::expert_rows(r, r.in(0)), x = bind::expert_rows(r, r.in(1));
  ProductGroup products(r);
  each_expert(r, r.in(2), [&](const Range& range) {
    const FusedModule m = bind::expert_module(r, range.expert);
    const Part of_y = bind::range_of(r, d_y, range), of_x = bind::range_of(r, x, range);
    if (m.d_bias)
      r.device.run(SumColumns{r.type(), range.count, of_y.width, of_y.data, of_y.stride, m.d_bias});
    if (!m.d_weight) return;
    joined(r) ? products.weight_gradient(range.count, m.d_weight, of_x, of_y)
              : products.weight_gradient(range.count, m.d_weight, of_y, of_x);
  });
  products.run();
}

void expert_adapter_gradient(const FusedRun& r) {
  const ExpertSpace space = bind::expert_space(r);
  place_keys(r, space, r.in(4));
  each_expert(r, r.in(3), [&](const Range& range) {
    if (bind::expert_use(r, range.expert).rank == 0) return;
    place_factor(r, space, range.expert);
    const LoraBackward args = bind::expert_lora_backward(r, space, range);
    if (!joined(r)) return r.device.run(args);
    const ModuleUse& use = r.use();
    const int64_t elements = use.out * use.rank;
    float* own = args.group.member[0].d_b;
    r.device.clear(own, 4 * elements);
    r.device.run(args);
    r.device.run(AddRows{Element::f32, elements, 1, own, 1, r.module().d_b + range.expert, use.experts});
  });
}

}  // namespace forge::fused
