#include "kernels/experts/experts_op.h"

#include "core/graph/gradients.h"
#include "kernels/call/functions.h"
#include "kernels/call/run.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/experts_args.h"

namespace forge {

Routing route(Recorder& g, ValueId logits, const RouteRule& rule, const char* correction) {
  const int64_t experts = g.graph.value(logits).width;
  ValueId weights = g.like("expert weights", logits, rule.per_token, ValueType::fp32);
  ValueId order = g.like("expert order", logits, rule.per_token, ValueType::fp32);
  ValueId ends = g.graph.new_value(g.name("expert ends"), Rows::one, experts, ValueType::fp32);
  std::vector<ValueId> out{weights, order, ends};
  if (rule.balance) out.push_back(g.graph.new_value(g.name("expert probability"), Rows::one, experts, ValueType::fp32));
  std::vector<int32_t> modules;
  if (*correction) {
    modules.push_back(g.module_at(correction, ModuleKind::vector, 0, experts));
    g.use_at(modules.back()).constant = true, g.use_at(modules.back()).trained = false;
  }
  g.push(&ops::route, {logits}, out, modules).attributes.route = rule;
  return {weights, order, ends, experts, rule};
}

ValueId dispatch(Recorder& g, ValueId x, const Routing& routing) {
  ValueId rows = g.like("expert rows", x, routing.rule.per_token * g.graph.value(x).width);
  g.push(&ops::dispatch, {x, routing.order}, {rows}).attributes.route = routing.rule;
  return rows;
}

ValueId combine(Recorder& g, ValueId rows, const Routing& routing) {
  ValueId y = g.like("experts", rows, g.graph.value(rows).width / routing.rule.per_token);
  g.push(&ops::combine, {rows, routing.order, routing.weights}, {y}).attributes.route = routing.rule;
  return y;
}

ValueId gate_rows(Recorder& g, ValueId x, ValueId gate) {
  ValueId y = g.like("gated", x, g.graph.value(x).width);
  g.push(&ops::gate_rows, {x, gate}, {y});
  return y;
}

namespace {

using bind::numbers;

void derive_route(Gradients& g, const Op& forward) {
  Op op = g.with_modules(&ops::route_backward, forward, {g.gradient(forward.out[0]), g.need(forward.in[0]), g.need(forward.out[1]), g.need(forward.out[2])});
  op.out = {g.new_gradient(forward.in[0])};
  g.push(std::move(op));
}

void derive_dispatch(Gradients& g, const Op& forward) {
  g.contribute(g.like(&ops::dispatch_backward, forward, {g.gradient(forward.out[0]), g.need(forward.in[1])}),
               forward.in[0]);
}

// Makes the weights' gradient in fp32, the type of the weights.
void derive_combine(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::combine_backward, forward,
                 {g.gradient(forward.out[0]), g.need(forward.in[0]), g.need(forward.in[1]), g.need(forward.in[2])});
  const ValueId weights = forward.in[2], d_rows = g.new_gradient(forward.in[0]);
  const ValueId d_weights = g.graph.new_value("d " + g.graph.value(weights).name, Rows::tokens, g.graph.value(weights).width, ValueType::fp32);
  op.out = {d_rows, g.set_gradient(weights, d_weights)};
  g.push(std::move(op));
}

void derive_gate_rows(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::gate_rows_backward, forward,
                 {g.gradient(forward.out[0]), g.need(forward.in[0]), g.need(forward.in[1])});
  for (ValueId in : forward.in) op.out.push_back(g.new_gradient(in));
  g.push(std::move(op));
}

void run_route(const OpRun& r) {
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

void run_route_backward(const OpRun& r) {
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
void run_dispatch(const OpRun& r) {
  const bool back = r.op.kind == &ops::dispatch_backward;
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

void run_combine(const OpRun& r) {
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

void run_combine_backward(const OpRun& r) {
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

void run_gate_rows(const OpRun& r) {
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

void run_gate_rows_backward(const OpRun& r) {
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

}  // namespace

const OpRecord ops::route{.name = "route",
                          .flops = flops::elementwise,
                          .derive = derive_route,
                          .run = run_route,
                          .copies = {.results = 4,
                          .operands = 4}};
const OpRecord ops::route_backward{.name = "route backward",
                                   .flops = flops::elementwise,
                                   .types = types::any,
                                   .run = run_route_backward,
                                   .copies = {.results = 4,
                                   .operands = 4}};
const OpRecord ops::dispatch{.name = "dispatch", .derive = derive_dispatch, .run = run_dispatch};
const OpRecord ops::dispatch_backward{.name = "dispatch backward",
                                      .flops = flops::elementwise,
                                      .run = run_dispatch,
                                      .copies = {.results = 3,
                                      .operands = 1}};
const OpRecord ops::combine{.name = "combine",
                            .flops = flops::elementwise,
                            .derive = derive_combine,
                            .run = run_combine,
                            .copies = {.results = 2,
                            .operands = 3}};
const OpRecord ops::combine_backward{.name = "combine backward",
                                     .flops = flops::elementwise,
                                     .run = run_combine_backward,
                                     .copies = {.results = 3,
                                     .operands = 3}};
const OpRecord ops::gate_rows{.name = "gate rows", .flops = flops::elementwise, .derive = derive_gate_rows, .run = run_gate_rows};
const OpRecord ops::gate_rows_backward{.name = "gate rows backward",
                                       .flops = flops::elementwise,
                                       .run = run_gate_rows_backward,
                                       .copies = {.results = 3,
                                       .operands = 1},
                                       .gradient_of = {&ops::gate_rows, 2}};

}  // namespace forge
