#include "kernels/delta_rule/delta_rule_op.h"

#include "kernels/call/derive.h"
#include "kernels/call/run.h"
#include "kernels/delta_rule/delta_rule_tiles.h"

namespace forge {

ValueId delta_gates(Recorder& g, ValueId b, ValueId a, const char* a_log, const char* dt_bias) {
  const int64_t heads = g.graph.value(a).width;
  ValueId gates = g.like("gates", a, 2 * heads, ValueType::fp32);
  const int32_t rates = g.module_at(a_log, ModuleKind::vector, 0, heads),
                bias = g.module_at(dt_bias, ModuleKind::vector, 0, heads);
  g.use_at(rates).first = FirstValues::log_rates, g.use_at(bias).first = FirstValues::ones;
  g.push(&ops::delta_gates, {b, a}, {gates}, {rates, bias});
  return gates;
}

ValueId delta_rule(Recorder& g, ValueId q, ValueId k, ValueId v, ValueId gates,
                   const DeltaHeads& heads) {
  ValueId y = g.like("delta", q, heads.value_heads * heads.value_dim);
  Attributes& a = g.push(&ops::delta_rule, {q, k, v, gates}, {y}).attributes;
  a.heads = heads.value_heads, a.kv_heads = heads.key_heads, a.key_dim = heads.key_dim,
  a.value_dim = heads.value_dim;
  return y;
}

ValueId step_gates(Recorder& g, ValueId a, const char* a_log, const char* dt_bias, double least_step) {
  const int64_t heads = g.graph.value(a).width;
  ValueId gates = g.like("steps", a, 2 * heads, ValueType::fp32);
  const int32_t rates = g.module_at(a_log, ModuleKind::vector, 0, heads), bias = g.module_at(dt_bias, ModuleKind::vector, 0, heads);
  g.use_at(rates).first = FirstValues::log_rates, g.use_at(bias).first = FirstValues::ones;
  g.push(&ops::step_gates, {a}, {gates}, {rates, bias}).attributes.least_step = least_step;
  return gates;
}

ValueId state_space(Recorder& g, ValueId q, ValueId k, ValueId v, ValueId gates, const DeltaHeads& heads, const char* skip) {
  ValueId y = g.like("states", q, heads.value_heads * heads.value_dim);
  const int32_t at = g.module_at(skip, ModuleKind::vector, 0, heads.value_heads);
  g.use_at(at).first = FirstValues::ones;
  Attributes& a = g.push(&ops::state_space, {q, k, v, gates}, {y}, {at}).attributes;
  a.heads = heads.value_heads, a.kv_heads = heads.key_heads, a.key_dim = heads.key_dim, a.value_dim = heads.value_dim;
  return y;
}

DeltaHeads delta_heads_of(const Attributes& a) {
  return {a.kv_heads, a.heads, a.key_dim, a.value_dim};
}

namespace {

// Counts, for a token and head of v, its products with the state (three; in the backward the states
// are made again, and the gradients take seven and a half) and those within a chunk.
double rule_flops(const Graph&, const Op& op, double rows, double) {
  const Attributes& a = op.attributes;
  const bool back = op.kind == &ops::delta_rule_backward || op.kind == &ops::state_space_backward;
  const double heads = static_cast<double>(a.heads), k = static_cast<double>(a.key_dim),
               v = static_cast<double>(a.value_dim);
  const double state = (back ? 20 : 6) * heads * k * v;
  const double chunk = static_cast<double>(kDeltaChunk) *
                       ((back ? 10 : 2) * heads * v + 4 * static_cast<double>(a.kv_heads) * k +
                        (back ? 4 * heads * k : 0));
  return rows * (state + chunk);
}

template <class Args>
void place_gates(const Call& c, ValueId id, Args*& gates, int64_t& stride) {
  gates = c.m.numbers(id), stride = c.m.stride(id);
}

template <class Args>
Args gates_args(const Call& c, ValueId b, ValueId a) {
  FORGE_CHECK(c.module(0).held == c.type() && c.module(1).held == c.type(),
              "gates' weights in another type than they are computed in");
  Args args;
  args.type = c.type(), args.rows = c.m.rows(a), args.heads = c.m.width(a);
  if (b != a) c.place(b, args.b, args.b_stride);  // steps have no b
  c.place(a, args.a, args.a_stride);
  args.a_log = c.module(0).weight, args.dt_bias = c.module(1).weight;
  args.least_step = static_cast<float>(c.op.attributes.least_step);
  return args;
}

DeltaGatesForward gates_forward_args(const Call& c) {
  auto args = gates_args<DeltaGatesForward>(c, c.in(0), c.in(1));
  place_gates(c, c.out(0), args.gates, args.gates_stride);
  return args;
}

DeltaGatesBackward gates_backward_args(const Call& c) {
  auto args = gates_args<DeltaGatesBackward>(c, c.in(1), c.in(2));
  place_gates(c, c.in(0), args.d_gates, args.d_gates_stride);
  c.place(c.out(0), args.d_b, args.d_b_stride);
  c.place(c.out(1), args.d_a, args.d_a_stride);
  args.d_a_log = c.module(0).d_weight, args.d_dt_bias = c.module(1).d_weight;
  return args;
}

DeltaGatesForward steps_forward_args(const Call& c) {
  auto args = gates_args<DeltaGatesForward>(c, c.in(0), c.in(0));
  place_gates(c, c.out(0), args.gates, args.gates_stride);
  return args;
}

DeltaGatesBackward steps_backward_args(const Call& c) {
  auto args = gates_args<DeltaGatesBackward>(c, c.in(1), c.in(1));
  place_gates(c, c.in(0), args.d_gates, args.d_gates_stride);
  c.place(c.out(0), args.d_a, args.d_a_stride);
  args.d_a_log = c.module(0).d_weight, args.d_dt_bias = c.module(1).d_weight;
  return args;
}

bool is_state_space(const Op& op) { return op.kind == &ops::state_space || op.kind == &ops::state_space_backward; }

// Returns the arguments that forward and backward share; `q` is the first of q, k, v, gates.
template <class Args>
Args rule_args(const Call& c, size_t q) {
  const DeltaHeads heads = delta_heads_of(c.op.attributes);
  Args args;
  args.shape = {c.type(),          c.batch.sequences, c.batch.cu_seqlens, heads.key_heads,
                heads.value_heads, heads.key_dim,     heads.value_dim,    c.tokens(),
                !is_state_space(c.op)};
  if (is_state_space(c.op)) args.skip = c.module(0).weight;
  c.place(c.in(q), args.q, args.q_stride);
  c.place(c.in(q + 1), args.k, args.k_stride);
  c.place(c.in(q + 2), args.v, args.v_stride);
  place_gates(c, c.in(q + 3), args.gates, args.gates_stride);
  args.workspace = c.workspace;
  return args;
}

DeltaRuleForward forward_args(const Call& c) {
  auto args = rule_args<DeltaRuleForward>(c, 0);
  c.place(c.out(0), args.y, args.y_stride);
  return args;
}

DeltaRuleBackward backward_args(const Call& c) {
  auto args = rule_args<DeltaRuleBackward>(c, 1);
  c.place(c.in(0), args.d_y, args.d_y_stride);
  c.place(c.out(0), args.d_q, args.d_q_stride);
  c.place(c.out(1), args.d_k, args.d_k_stride);
  c.place(c.out(2), args.d_v, args.d_v_stride);
  place_gates(c, c.out(3), args.d_gates, args.d_gates_stride);
  if (is_state_space(c.op)) args.d_skip = c.module(0).d_weight;
  return args;
}

// In decoding a text goes on from the matrices that its slot keeps.
void run_rule(const OpRun& r) {
  DeltaRuleForward args = forward_args(r);
  std::vector<char*> states;
  if (const StatePlaces* places = r.batch.states) {
    states = places->of_matrices(r.op.layer);
    args.states = states.data(), args.begins = places->begins;
  }
  r.device.run(args);
}

int64_t forward_workspace(const Call& c) {
  return c.m.capacity.gpu
             ? 0
             : delta_rule_workspace(forward_args(c).shape, false, c.m.capacity.threads);
}
int64_t backward_workspace(const Call& c) {
  return c.m.capacity.gpu
             ? 0
             : delta_rule_workspace(backward_args(c).shape, true, c.m.capacity.threads);
}

}  // namespace

const OpRecord ops::delta_gates{.name = "delta gates",
                                .flops = flops::elementwise,
                                .derive = derive::apart<&ops::delta_gates_backward, 2>,
                                .run = by<gates_forward_args>,
                                .copies = {.results = 4}};
const OpRecord ops::delta_gates_backward{.name = "delta gates backward",
                                         .flops = flops::elementwise,
                                         .types = types::any,
                                         .run = by<gates_backward_args>,
                                         .copies = {.results = 4, .operands = 4},
                                         .gradient_of = {&ops::delta_gates, 2}};
const OpRecord ops::delta_rule{.name = "delta rule",
                               .flops = rule_flops,
                               .derive = derive::apart<&ops::delta_rule_backward, 4>,
                               .run = run_rule,
                               .workspace = forward_workspace};
const OpRecord ops::delta_rule_backward{.name = "delta rule backward",
                                        .flops = rule_flops,
                                        .run = by<backward_args>,
                                        .workspace = backward_workspace,
                                        .gradient_of = {&ops::delta_rule, 4}};
const OpRecord ops::step_gates{.name = "step gates",
                               .flops = flops::elementwise,
                               .derive = derive::apart<&ops::step_gates_backward, 1>,
                               .run = by<steps_forward_args>,
                               .copies = {.results = 4}};
const OpRecord ops::step_gates_backward{.name = "step gates backward",
                                        .flops = flops::elementwise,
                                        .types = types::any,
                                        .run = by<steps_backward_args>,
                                        .copies = {.results = 4, .operands = 4},
                                        .gradient_of = {&ops::step_gates, 1}};
const OpRecord ops::state_space{.name = "state space",
                                .flops = rule_flops,
                                .derive = derive::apart<&ops::state_space_backward, 4>,
                                .run = run_rule,
                                .workspace = forward_workspace};
const OpRecord ops::state_space_backward{.name = "state space backward",
                                         .flops = rule_flops,
                                         .run = by<backward_args>,
                                         .workspace = backward_workspace,
                                         .gradient_of = {&ops::state_space, 4}};

}  // namespace forge
