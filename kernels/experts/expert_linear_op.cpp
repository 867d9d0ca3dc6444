#include "kernels/experts/expert_linear_op.h"

#include <algorithm>
#include <utility>

#include "core/graph/gradients.h"
#include "core/graph/layout.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/experts_args.h"
#include "kernels/linear/linear_op.h"
#include "kernels/linear/products.h"
#include "kernels/lora/lora_cuda_space.h"
#include "kernels/lora/lora_op.h"
#include "kernels/lora/lora_space.h"
#include "kernels/rows/rows_op.h"

namespace forge {

namespace {

// Multiplies rows of experts by modules of the list. `name` is the result's.
ValueId multiply(Recorder& g, ValueId rows, const Routing& routing, const std::string& name,
                 int64_t out, std::vector<int32_t> modules) {
  const int64_t per_token = routing.rule.per_token;
  int64_t rank = 0;
  for (int32_t module : modules) rank = std::max(rank, g.use_at(module).rank);
  std::vector<ValueId> made{g.like(name, rows, per_token * out)};
  if (rank > 0) made.push_back(g.like(name + ".s", rows, per_token * rank, ValueType::fp32));
  const std::vector<ValueId> in{rows, routing.ends, routing.order};
  g.push(&ops::expert_linear, in, made, std::move(modules)).attributes.route = routing.rule;
  return made[0];
}

}  // namespace

ValueId expert_linear(Recorder& g, ValueId rows, const Routing& routing, const std::string& before, const std::string& after, int64_t out) {
  const int64_t in = g.graph.value(rows).width / routing.rule.per_token;
  const std::string matrices = after.empty() ? "." + last_part(before.substr(0, before.size() - 1)) : after;
  return multiply(g, rows, routing, "experts" + matrices, out,
                  g.experts_at(before, after, routing.experts, in, out));
}

ValueId joined_expert_linear(Recorder& g, ValueId rows, const Routing& routing,
                             const JoinedExperts& joined) {
  const int64_t in = g.graph.value(rows).width / routing.rule.per_token;
  const int32_t at = g.module_at(joined.module, ModuleKind::experts, in, joined.out, joined.bias);
  g.use_at(at).experts = routing.experts, g.use_at(at).use = joined.use;
  g.use_at(at).out_first = joined.out_first;
  return multiply(g, rows, routing, last_part(joined.module), joined.out, {at});
}

namespace {

using bind::numbers;
using bind::Range;
using bind::range_of;

// Returns the share of the matrices that a token uses: every row of a token's experts goes through
// one of them.
double share_of_experts(const Graph& graph, const Op& op) {
  double matrices = 0;
  for (size_t i = 0; i < op.modules.size(); ++i) matrices += flops::held(graph.module(op, i));
  return static_cast<double>(op.attributes.route.per_token) / matrices;
}

// Counts like one linear layer, for what goes through each expert.
template <Flops kOfLayer>
double expert_flops(const Graph& graph, const Op& op, double rows, double mean_length) {
  return kOfLayer(graph, op, rows, mean_length) * share_of_experts(graph, op);
}

void derive_expert_linear(Gradients& g, const Op& forward) {
  const ValueId rows = forward.in[0], d_y = g.gradient(forward.out[0]), ends = g.need(forward.in[1]), order = g.need(forward.in[2]);
  const bool trained = any_module(g.graph, forward, &ModuleUse::trains);
  const bool adapted = forward.out.size() > 1;
  const ValueId input = trained || adapted ? g.need(rows) : kNoValue, sums = adapted ? g.need(forward.out[1]) : kNoValue;
  // Experts that DoRA rescales have one gradient, of weights and adapters together.
  const bool rescaled = any_module(g.graph, forward, &ModuleUse::dora);
  if (g.wants(rows) && !rescaled) g.contribute(g.with_modules(&ops::expert_input_gradient, forward, {d_y, ends}), rows);
  if (trained) g.push(g.with_modules(&ops::expert_weight_gradient, forward, {d_y, input, ends}));
  if (!adapted) return;
  Op adapter = g.with_modules(&ops::expert_adapter_gradient, forward, {d_y, input, sums, ends, order});
  g.wants(rows) ? g.contribute(std::move(adapter), rows) : static_cast<void>(g.push(std::move(adapter)));
}

// True if one tensor holds all experts.
inline bool joined(const Call& c) { return c.use().experts > 0; }
inline const ModuleUse& expert_use(const Call& c, size_t expert) { return c.use(joined(c) ? 0 : expert); }
// Returns an expert's own module, or its part of the op's one module. B of a joined module stays
// that of the whole module: the experts' columns alternate in it.
OpModule expert_module(const Call& c, size_t expert) {
  if (!joined(c)) return c.module(expert);
  OpModule m = c.module();
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

// The workspace of an op over experts' rows with adapters, as offsets in bytes: the dropout keys of
// its rows, and B and d B of one expert of a tensor in which the experts' columns alternate.
struct ExpertSpace {
  int64_t examples = 0, positions = 0, b = 0, d_b = 0;
  int64_t adapter = 0;  // for kernels/lora
  int64_t bytes = 0;

  bool has_keys() const { return examples != positions; }
};
LoraGroup adapter_of(const Call& c, const ExpertSpace& space, const Range& range, const Part& x,
                     const Part& y, ValueId sums) {
  const OpModule m = expert_module(c, range.expert);
  FORGE_CHECK(!m.magnitude, "DoRA of an expert");
  LoraGroup g{c.type(), range.count, x.width, expert_use(c, range.expert).rank, /*members=*/1, m.scale};
  g.x = x.data, g.x_stride = x.stride, g.a = m.a;
  g.s = c.m.numbers(sums) + range.begin * (c.m.width(sums) / c.op.attributes.route.per_token);
  if (c.m.capacity.gpu) g.s_type = c.type();
  g.member[0] = {.out = y.width, .b = joined(c) ? c.at(space.b) : m.b, .y = y.data, .y_stride = y.stride};
  if (c.batch.dropout && m.dropout > 0)
    g.dropout = bind::dropout_of(c, m, c.at<const int64_t>(space.examples) + range.begin,
                           c.at<const int32_t>(space.positions) + range.begin);
  return g;
}

// Return the adapter of one expert. B of a joined module must be in its place of the workspace, d B
// is written there.
LoraForward expert_lora_forward(const Call& c, const ExpertSpace& space, const Range& range) {
  const Part x = range_of(c, c.in(0), range),
             y = range_of(c, c.out(0), range);
  return {adapter_of(c, space, range, x, y, c.out(1)), c.at(space.adapter)};
}

LoraBackward expert_lora_backward(const Call& c, const ExpertSpace& space, const Range& range) {
  const Part d_y = range_of(c, c.in(0), range),
             x = range_of(c, c.in(1), range);
  const OpModule m = expert_module(c, range.expert);
  LoraBackward args{adapter_of(c, space, range, x, d_y, c.in(2))};
  args.group.member[0].d_b = joined(c) ? c.at<float>(space.d_b) : m.d_b;
  args.d_a = m.d_a;
  if (!c.op.out.empty()) {
    const Part d_x = range_of(c, c.out(0), range);
    args.d_x = d_x.data, args.d_x_stride = d_x.stride;
  }
  args.workspace = c.at(space.adapter);
  return args;
}

ExpertSpace expert_space(const Call& c) {
  const ModuleUse& use = c.use();
  const int64_t factor = joined(c) ? use.out * use.rank : 0,
                rows = c.planned_tokens() * c.op.attributes.route.per_token;
  const bool drops = any_module(c.m.graph, c.op, &ModuleUse::dropout);
  ExpertSpace space;
  const auto take = [&](int64_t bytes) {
    const int64_t whole = (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    return std::exchange(space.bytes, space.bytes + whole);
  };
  space.examples = take(drops ? 8 * rows : 0), space.positions = take(drops ? 4 * rows : 0);
  space.b = take(c.bytes() * factor), space.d_b = take(4 * factor);
  int64_t adapter = 0;
  for (size_t i = 0; i < c.op.modules.size(); ++i) {
    if (c.use(i).rank == 0) continue;
    const Range all{i, 0, rows};  // one expert may get every row
    adapter = std::max(adapter, c.op.kind == &ops::expert_adapter_gradient
                                    ? lora_workspace(c, expert_lora_backward(c, space, all).group, true)
                                    : lora_workspace(c, expert_lora_forward(c, space, all).group, false));
  }
  space.adapter = take(adapter);
  return space;
}

template <class Visit>
void each_expert(const OpRun& r, ValueId ends_id, Visit visit) {
  const int32_t* ends = r.device.separate() ? r.batch.expert_ends->at(ends_id).data() : numbers(r, ends_id);
  const auto experts = static_cast<size_t>(r.m.width(ends_id));
  for (size_t expert = 0; expert < experts; ++expert) {
    const int64_t begin = expert == 0 ? 0 : ends[expert - 1], count = ends[expert] - begin;
    if (count > 0) visit(Range{expert, begin, count});
  }
}

// Copies B [out, rank] of one expert of a joined module, where the columns of the experts
// alternate.
void place_factor(const OpRun& r, const ExpertSpace& space, size_t expert) {
  if (!joined(r)) return;
  const ModuleUse& use = r.use();
  const Part all{const_cast<void*>(r.module().b), use.experts, use.experts};
  Part column = from_column(r, all, static_cast<int64_t>(expert));
  column.width = 1;
  r.device.run(bind::copy(r, use.out * use.rank, column, {r.at(space.b), 1, 1}));
}

// Copies the dropout keys of each row's token, in the order of the rows, 4 B at a time.
void place_keys(const OpRun& r, const ExpertSpace& space, ValueId order) {
  if (!r.batch.dropout || !space.has_keys()) return;
  const auto move = [&](const void* of_tokens, int64_t to, int64_t width) {
    ExpertRows args{Element::f32, r.tokens(), r.op.attributes.route.per_token, width};
    args.places = numbers(r, order), args.rows = r.at(to);
    args.x = const_cast<void*>(of_tokens), args.x_stride = width;
    r.device.run(args);
  };
  move(r.rows().example, space.examples, 2);
  move(r.rows().position, space.positions, 1);
}

void run_linear(const OpRun& r) {
  const ExpertSpace space = expert_space(r);
  place_keys(r, space, r.in(2));
  fused::ProductGroup products(r);
  each_expert(r, r.in(1), [&](const Range& range) {
    const Part y = range_of(r, r.out(0), range), x = range_of(r, r.in(0), range);
    products.product(range.count, y, x, fused::multiplied(r, range.expert), expert_module(r, range.expert).bias);
  });
  products.run();
  each_expert(r, r.in(1), [&](const Range& range) {
    if (expert_use(r, range.expert).rank == 0) return;
    place_factor(r, space, range.expert);
    r.device.run(expert_lora_forward(r, space, range));
  });
}

void run_input_gradient(const OpRun& r) {
  fused::ProductGroup products(r);
  each_expert(r, r.in(1), [&](const Range& range) {
    const Part d_x = range_of(r, r.out(0), range), d_y = range_of(r, r.in(0), range);
    const bool accumulate = r.op.attributes.accumulate;
    products.add(bind::input_gradient(r, range.count, d_x, d_y, fused::base(r, range.expert), accumulate));
  });
  products.run();
}

void run_weight_gradient(const OpRun& r) {
  fused::ProductGroup products(r);
  each_expert(r, r.in(2), [&](const Range& range) {
    const OpModule m = expert_module(r, range.expert);
    const Part of_y = range_of(r, r.in(0), range), of_x = range_of(r, r.in(1), range);
    if (m.d_bias)
      r.device.run(SumColumns{r.type(), range.count, of_y.width, of_y.data, of_y.stride, m.d_bias});
    if (!m.d_weight) return;
    const bool in_first = joined(r) && !r.use().out_first;
    products.add(bind::weight_gradient(r, range.count, m.d_weight, in_first ? of_x : of_y,
                                       in_first ? of_y : of_x));
  });
  products.run();
}

void run_adapter_gradient(const OpRun& r) {
  const ExpertSpace space = expert_space(r);
  place_keys(r, space, r.in(4));
  each_expert(r, r.in(3), [&](const Range& range) {
    if (expert_use(r, range.expert).rank == 0) return;
    place_factor(r, space, range.expert);
    const LoraBackward args = expert_lora_backward(r, space, range);
    if (!joined(r)) return r.device.run(args);
    const ModuleUse& use = r.use();
    const int64_t elements = use.out * use.rank;
    float* own = args.group.member[0].d_b;
    r.device.clear(own, 4 * elements);
    r.device.run(args);
    r.device.run(AddRows{Element::f32, elements, 1, own, 1, r.module().d_b + range.expert, use.experts});
  });
}

int64_t weight_gradient_workspace(const Call& c) {
  if (c.m.capacity.gpu) return 0;
  const int64_t rows = c.tokens() * c.op.attributes.route.per_token;  // one expert may get every row
  std::vector<Gemm> all;
  for (size_t i = 0; i < c.op.modules.size(); ++i)
    if (float* gradient = c.module(i).d_weight) {
      const auto of = [&](ValueId id) { return range_of(c, id, {i, 0, rows}); };
      all.push_back(bind::weight_gradient(c, rows, gradient, of(c.in(0)), of(c.in(1))));
    }
  return most_workspace(all);
}

int64_t space_workspace(const Call& c) { return expert_space(c).bytes; }

}  // namespace

const OpRecord ops::expert_linear{.name = "expert linear",
                                  .flops = expert_flops<flops::linear>,
                                  .derive = derive_expert_linear,
                                  .run = run_linear,
                                  .workspace = space_workspace,
                                  .copies = {.results = 3,
                                  .operands = 1}};
const OpRecord ops::expert_input_gradient{.name = "experts d x", .flops = expert_flops<flops::product>, .run = run_input_gradient, .copies = {.results = 3}};
const OpRecord ops::expert_weight_gradient{.name = "experts d W",
                                           .flops = expert_flops<flops::weight_gradient>,
                                           .run = run_weight_gradient,
                                           .workspace = weight_gradient_workspace};
const OpRecord ops::expert_adapter_gradient{.name = "experts adapter backward",
                                            .flops = expert_flops<flops::adapters>,
                                            .run = run_adapter_gradient,
                                            .workspace = space_workspace,
                                            .copies = {.results = 4,
                                            .operands = 3}};

}  // namespace forge
