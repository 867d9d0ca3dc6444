#include "kernels/experts/experts_op.h"

#include "kernels/call/derive.h"
#include "kernels/call/run.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/experts_args.h"

namespace forge {

Routing route(Recorder& g, ValueId logits, const RouteRule& rule, const char* correction,
              int64_t correction_rows) {
  const int64_t experts = g.graph.value(logits).width;
  ValueId weights = g.like("expert weights", logits, rule.per_token, ValueType::fp32);
  ValueId order = g.like("expert order", logits, rule.per_token, ValueType::fp32);
  ValueId ends = g.graph.new_value(g.name("expert ends"), Rows::one, experts, ValueType::fp32);
  std::vector<ValueId> out{weights, order, ends};
  if (rule.balance) out.push_back(g.graph.new_value(g.name("expert probability"), Rows::one, experts, ValueType::fp32));
  std::vector<int32_t> modules;
  if (*correction) {
    modules.push_back(g.module_at(correction, ModuleKind::vector, correction_rows, experts));
    g.use_at(modules.back()).constant = true, g.use_at(modules.back()).trained = false;
  }
  g.push(&ops::route, {logits}, out, modules).attributes.route = rule;
  return {weights, order, ends, experts, rule};
}

Routing scale_weights(Recorder& g, Routing routing, const std::string& module) {
  ValueId scaled = g.like("scaled weights", routing.weights, routing.rule.per_token, ValueType::fp32);
  const int32_t at = g.module_at(module, ModuleKind::vector, 0, routing.experts);
  g.push(&ops::scale_weights, {routing.weights, routing.order, routing.ends}, {scaled}, {at}).attributes.route = routing.rule;
  routing.weights = scaled;
  return routing;
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

ValueId collect(Recorder& g, ValueId rows, const Routing& routing) {
  ValueId y = g.like("experts", rows, g.graph.value(rows).width / routing.rule.per_token);
  g.push(&ops::collect, {rows, routing.order}, {y}).attributes.route = routing.rule;
  return y;
}

ValueId gate_rows(Recorder& g, ValueId x, ValueId gate) {
  ValueId y = g.like("gated", x, g.graph.value(x).width);
  g.push(&ops::gate_rows, {x, gate}, {y});
  return y;
}

ValueId weigh_rows(Recorder& g, ValueId x, ValueId weight) {
  ValueId y = g.like("weighed", x, g.graph.value(x).width);
  g.push(&ops::weigh_rows, {x, weight}, {y});
  return y;
}

namespace {

using bind::numbers;

void derive_dispatch(Gradients& g, const Op& forward) {
  g.contribute(g.like(&ops::dispatch_backward, forward, {g.gradient(forward.out[0]), g.need(forward.in[1])}),
               forward.in[0]);
}

// Each row's gradient is its token's.
void derive_collect(Gradients& g, const Op& forward) {
  Op op = g.like(&ops::dispatch, forward, {g.gradient(forward.out[0]), g.need(forward.in[1])});
  op.out = {g.new_gradient(forward.in[0])};
  g.push(std::move(op));
}

void derive_weigh_rows(Gradients& g, const Op& forward) {
  Op op = derive::gradient_op<&ops::weigh_rows_backward, 2>(g, forward);
  op.out = {g.new_gradient(forward.in[1])};
  g.contribute(std::move(op), forward.in[0]);
}

// Makes the weights' gradient in fp32, the type of the weights.
ValueId gradient_of_weights(Gradients& g, ValueId weights) {
  const Value value = g.graph.value(weights);
  return g.set_gradient(weights, g.graph.new_value("d " + value.name, Rows::tokens, value.width, ValueType::fp32));
}

void derive_combine(Gradients& g, const Op& forward) {
  Op op = derive::gradient_op<&ops::combine_backward, 3>(g, forward);
  const ValueId d_rows = g.new_gradient(forward.in[0]);
  op.out = {d_rows, gradient_of_weights(g, forward.in[2])};
  g.push(std::move(op));
}

void derive_scale_weights(Gradients& g, const Op& forward) {
  Op op = derive::gradient_op<&ops::scale_weights_backward, 3>(g, forward);
  op.out = {gradient_of_weights(g, forward.in[0])};
  g.push(std::move(op));
}

// Returns the arguments that a router and its gradient share.
template <class Args>
Args routed(const Call& c, ValueId logits) {
  Args args{c.type(), c.op.attributes.route, c.tokens(), /*experts=*/c.m.width(logits)};
  c.place(logits, args.logits, args.logits_stride);
  return args;
}

void run_route(const OpRun& r) {
  FORGE_CHECK(r.op.modules.empty() || r.module().held == r.type(),
              "a correction in another type than the scores' logits");
  auto args = routed<ExpertRoute>(r, r.in(0));
  if (!r.op.modules.empty()) args.correction = r.module().weight;
  args.weights = r.m.numbers(r.out(0));
  args.places = numbers(r, r.out(1)), args.ends = numbers(r, r.out(2));
  if (r.op.out.size() > 3) args.probability = r.m.numbers(r.out(3));
  r.device.run(args);
  if (!r.device.separate()) return;
  // The number of rows of each expert decides which work is enqueued next, so the host waits for
  // it, once a layer.
  std::vector<int32_t>& ends = (*r.batch.expert_ends)[r.out(2)];
  ends.resize(static_cast<size_t>(r.m.width(r.out(2))));
  r.device.read(ends.data(), r.m.data(r.out(2)), static_cast<int64_t>(ends.size() * sizeof(int32_t)));
}

ExpertRouteBackward route_backward_args(const Call& c) {
  auto args = routed<ExpertRouteBackward>(c, c.in(1));
  args.places = numbers(c, c.in(2)), args.ends = numbers(c, c.in(3));
  args.d_weights = c.m.numbers(c.in(0)), args.slope = c.batch.balance_slope;
  c.place(c.out(0), args.d_logits, args.d_logits_stride);
  return args;
}

// Returns the arguments that ops between tokens' rows and experts' rows share.
template <class Args>
Args between(const Call& c, ValueId tokens, ValueId order) {
  Args args{c.type(), c.tokens(), c.op.attributes.route.per_token, c.m.width(tokens)};
  args.places = numbers(c, order);
  return args;
}

// Copies tokens' rows to the experts' rows, or adds up a token's rows: its backward, and collect.
ExpertRows dispatch_args(const Call& c) {
  const bool back = c.op.kind != &ops::dispatch;
  const ValueId x = back ? c.out(0) : c.in(0), rows = back ? c.in(0) : c.out(0);
  auto args = between<ExpertRows>(c, x, c.in(1));
  c.place(x, args.x, args.x_stride);
  args.rows = bind::expert_rows(c, rows);
  args.back = back, args.accumulate = c.op.attributes.accumulate;
  return args;
}

ExpertCombine combine_args(const Call& c) {
  auto args = between<ExpertCombine>(c, c.out(0), c.in(1));
  args.weights = c.m.numbers(c.in(2)), args.rows = bind::expert_rows(c, c.in(0));
  c.place(c.out(0), args.y, args.y_stride);
  return args;
}

ExpertCombineBackward combine_backward_args(const Call& c) {
  auto args = between<ExpertCombineBackward>(c, c.in(0), c.in(2));
  args.weights = c.m.numbers(c.in(3)), args.rows = bind::expert_rows(c, c.in(1));
  c.place(c.in(0), args.d_y, args.d_y_stride);
  args.d_rows = bind::expert_rows(c, c.out(0)), args.d_weights = c.m.numbers(c.out(1));
  return args;
}

GateRows gate_rows_args(const Call& c) {
  auto args = over_rows<GateRows>(c, c.in(0));
  c.place(c.in(0), args.x, args.x_stride);
  c.place(c.in(1), args.gate, args.gate_stride);
  c.place(c.out(0), args.y, args.y_stride);
  return args;
}

GateRowsBackward gate_rows_backward_args(const Call& c) {
  auto args = over_rows<GateRowsBackward>(c, c.in(0));
  c.place(c.in(0), args.d_y, args.d_y_stride);
  c.place(c.in(1), args.x, args.x_stride);
  c.place(c.in(2), args.gate, args.gate_stride);
  c.place(c.out(0), args.d_x, args.d_x_stride);
  c.place(c.out(1), args.d_gate, args.d_gate_stride);
  return args;
}

}  // namespace

const OpRecord ops::route{.name = "route",
                          .flops = flops::elementwise,
                          .derive = derive::apart<&ops::route_backward, 1, 2>,
                          .run = run_route,
                          .copies = {.results = 4,
                          .operands = 4}};
const OpRecord ops::route_backward{.name = "route backward",
                                   .flops = flops::elementwise,
                                   .types = types::any,
                                   .run = by<route_backward_args>,
                                   .copies = {.results = 4,
                                   .operands = 4}};
const OpRecord ops::scale_weights{.name = "scale weights",
                                  .flops = flops::elementwise,
                                  .types = types::any,
                                  .derive = derive_scale_weights,
                                  .copies = {.results = 3, .operands = 3}};
const OpRecord ops::scale_weights_backward{.name = "scale weights backward",
                                           .flops = flops::elementwise,
                                           .types = types::any,
                                           .copies = {.results = 3, .operands = 3}};
const OpRecord ops::dispatch{.name = "dispatch", .derive = derive_dispatch, .run = by<dispatch_args>};
const OpRecord ops::dispatch_backward{.name = "dispatch backward",
                                      .flops = flops::elementwise,
                                      .run = by<dispatch_args>,
                                      .copies = {.results = 3,
                                      .operands = 1}};
const OpRecord ops::combine{.name = "combine",
                            .flops = flops::elementwise,
                            .derive = derive_combine,
                            .run = by<combine_args>,
                            .copies = {.results = 2,
                            .operands = 3}};
const OpRecord ops::collect{.name = "collect",
                            .flops = flops::elementwise,
                            .derive = derive_collect,
                            .run = by<dispatch_args>,
                            .copies = {.results = 2,
                            .operands = 2}};
const OpRecord ops::combine_backward{.name = "combine backward",
                                     .flops = flops::elementwise,
                                     .run = by<combine_backward_args>,
                                     .copies = {.results = 3,
                                     .operands = 3}};
const OpRecord ops::gate_rows{.name = "gate rows", .flops = flops::elementwise, .derive = derive::apart<&ops::gate_rows_backward, 2>, .run = by<gate_rows_args>};
const OpRecord ops::gate_rows_backward{.name = "gate rows backward",
                                       .flops = flops::elementwise,
                                       .run = by<gate_rows_backward_args>,
                                       .copies = {.results = 3,
                                       .operands = 1},
                                       .gradient_of = {&ops::gate_rows, 2}};
const OpRecord ops::weigh_rows{.name = "weigh rows", .flops = flops::elementwise, .derive = derive_weigh_rows};
const OpRecord ops::weigh_rows_backward{.name = "weigh rows backward",
                                        .flops = flops::elementwise,
                                        .copies = {.results = 3, .operands = 1},
                                        .gradient_of = {&ops::weigh_rows, 2}};

}  // namespace forge
