#include "core/model/graph/ops.h"

#include <algorithm>
#include <array>

namespace forge {
namespace {

// Multiplications and additions of one op beside its values' traffic, for all its rows.
using Flops = double (*)(const Graph&, const Op&, double rows, double mean_length);

double none(const Graph&, const Op&, double, double) { return 0; }

// Returns the number of matrices in one module.
double held(const ModuleUse& module) { return static_cast<double>(std::max<int64_t>(module.experts, 1)); }

double weights(const Graph& graph, const Op& op) {
  double count = 0;
  for (size_t i = 0; i < op.modules.size(); ++i)
    count += held(graph.module(op, i)) * static_cast<double>(graph.module(op, i).in) * static_cast<double>(graph.module(op, i).out);
  return count;
}
double factors(const Graph& graph, const Op& op) {
  double count = 0;
  for (size_t i = 0; i < op.modules.size(); ++i) {
    const ModuleUse& module = graph.module(op, i);
    count += held(module) * static_cast<double>(module.rank) * static_cast<double>(module.in + module.out);
  }
  return count;
}

// Widths of an op's modules: the input that all read, and the sums of their outputs and ranks.
struct Sides {
  double in = 0, out = 0, ranks = 0;
};
Sides sides(const Graph& graph, const Op& op) {
  Sides all;
  for (size_t i = 0; i < op.modules.size(); ++i) {
    const ModuleUse& module = graph.module(op, i);
    all.in = static_cast<double>(module.in), all.out += static_cast<double>(module.out);
    all.ranks += static_cast<double>(module.rank);
  }
  return all;
}

double linear(const Graph& graph, const Op& op, double rows, double) {
  const Sides s = sides(graph, op);
  return 2 * rows * (weights(graph, op) + (op.attributes.folded ? s.ranks * s.out : factors(graph, op)));
}
// Returns the share of the matrices that a token uses: every row of a token's experts goes through
// one of them.
double share_of_experts(const Graph& graph, const Op& op) {
  double matrices = 0;
  for (size_t i = 0; i < op.modules.size(); ++i) matrices += held(graph.module(op, i));
  return static_cast<double>(op.attributes.route.per_token) / matrices;
}
double experts(const Graph& graph, const Op& op, double rows, double mean_length) {
  return linear(graph, op, rows, mean_length) * share_of_experts(graph, op);
}
double product(const Graph& graph, const Op& op, double rows, double) {
  const Sides s = sides(graph, op);
  return 2 * rows * (weights(graph, op) + (op.attributes.folded ? s.ranks * s.in : 0));
}
// Counts products with the weights that are trained: where only biases are, there is no product.
double weight_gradient(const Graph& graph, const Op& op, double rows, double) {
  double count = 0;
  for (size_t i = 0; i < op.modules.size(); ++i)
    if (const ModuleUse& module = graph.module(op, i); module.trained)
      count += held(module) * static_cast<double>(module.in * module.out);
  return 2 * rows * count;
}
// Counts like one linear layer, for what goes through each expert.
double expert_product(const Graph& graph, const Op& op, double rows, double mean_length) {
  return product(graph, op, rows, mean_length) * share_of_experts(graph, op);
}
double expert_weights(const Graph& graph, const Op& op, double rows, double mean_length) {
  return weight_gradient(graph, op, rows, mean_length) * share_of_experts(graph, op);
}
double expert_adapters(const Graph& graph, const Op& op, double rows, double) {
  return 4 * rows * factors(graph, op) * share_of_experts(graph, op);
}
double sums(const Graph& graph, const Op& op, double rows, double) {
  const Sides s = sides(graph, op);
  return 2 * rows * s.ranks * s.in;
}
// Counts d s by all of B, whose blocks are beside zeros, and the gradient of each block.
double sums_gradient(const Graph& graph, const Op& op, double rows, double) {
  const Sides s = sides(graph, op);
  return 2 * rows * (s.ranks * s.out + factors(graph, op)) - sums(graph, op, rows, 0);
}
double adapter(const Graph& graph, const Op& op, double rows, double) {
  return 4 * rows * factors(graph, op);
}
// Counts B A, added to W and squared, for each adapted module.
double ratio(const Graph& graph, const Op& op, double, double) {
  double flops = 0;
  for (size_t i = 0; i < op.modules.size(); ++i) {
    const ModuleUse& module = graph.module(op, i);
    if (module.rank > 0)
      flops += static_cast<double>(2 * (module.rank + 1)) * static_cast<double>(module.in * module.out);
  }
  return flops;
}
// Counts logits, their gradient to the input and, of a trained head, to the weight.
double head(const Graph& graph, const Op& op, double rows, double) {
  const double once = 2 * rows * weights(graph, op);
  return once * (op.kind == OpKind::evaluate ? 1 : graph.module(op).trained ? 3 : 2);
}
// Counts scores and mixed values of what is visible (half of a causal text), less what a window
// hides. The backward makes the scores again and three gradients.
double attention(const Graph&, const Op& op, double rows, double mean_length) {
  const Attributes& a = op.attributes;
  const double window = a.window > 0 ? static_cast<double>(a.window) : mean_length, hidden = mean_length - window;
  const double seen = a.sight == Sight::causal ? mean_length / 2 - (hidden > 0 ? hidden * hidden / (2 * mean_length) : 0) : mean_length;
  const double pairs = rows * seen * static_cast<double>(a.heads * a.head_dim);
  return pairs * (op.kind == OpKind::attention ? 4 : 10);
}
double elementwise(const Graph& graph, const Op& op, double rows, double) {
  return 8 * rows * static_cast<double>(graph.value(op.in[0]).width);
}

double gated_sums(const Graph& graph, const Op& op, double rows, double mean_length) {
  return elementwise(graph, op, rows, mean_length) + sums(graph, op, rows, mean_length);
}
// Counts d A of what reads y, and d s and d B of what made gate and up: 2 rows · rank · columns
// each.
double gated_gradients(const Graph& graph, const Op& op, double rows, double mean_length) {
  double ranks = 0;
  for (size_t i = 0; i < op.modules.size(); ++i)
    ranks += static_cast<double>((i == 0 && gate_modules(op).reader ? 1 : 2) * graph.module(op, i).rank);
  return elementwise(graph, op, rows, mean_length) + 2 * rows * ranks * static_cast<double>(graph.value(op.in[0]).width);
}

// Counts squares and sums. An update takes a few more FLOPs, all hidden by the time of its bytes.
double trained(const Graph&, const Op& op, double, double) {
  return (op.kind == OpKind::gradient_norm ? 2 : 16) * static_cast<double>(op.attributes.elements);
}

// Returns true if an op's kernels take the types of its values.
using Types = bool (*)(const Graph&, const Op&);

ValueType type_of(const Graph& graph, ValueId id) { return graph.buffer_of(id).type; }

bool of_any_type(const Graph&, const Op&) { return true; }
bool of_compute_type(const Graph& graph, const Op& op) { return type_of(graph, op.in[0]) == ValueType::compute; }
bool in_type_of_result(const Graph& graph, const Op& op) { return type_of(graph, op.in[0]) == type_of(graph, op.out[0]); }
bool all_of_one_type(const Graph& graph, const Op& op) {
  return in_type_of_result(graph, op) && type_of(graph, op.in[1]) == type_of(graph, op.in[0]);
}
bool stream_and_branch(const Graph& graph, const Op& op) {
  return in_type_of_result(graph, op) && type_of(graph, op.in[1]) == ValueType::compute && type_of(graph, op.out[1]) == ValueType::compute;
}
// An addend must have the type of the result.
bool of_product(const Graph& graph, const Op& op) {
  const Attributes& a = op.attributes;
  return of_compute_type(graph, op) && op.in.size() == size_t{1} + a.folded + a.accumulate &&
         (!a.accumulate || type_of(graph, op.in.back()) == type_of(graph, op.out[0]));
}
bool cast_of_types(const Graph& graph, const Op& op) { return !in_type_of_result(graph, op); }
bool cast_to_gradient(const Graph& graph, const Op& op) {
  return cast_of_types(graph, op) && (op.in.size() == 1 || type_of(graph, op.in[1]) == type_of(graph, op.out[0]));
}
// The stream and its gradients must have one type.
bool norm_gradient(const Graph& graph, const Op& op) {
  const ValueType stream = type_of(graph, op.out[0]);
  return of_compute_type(graph, op) && type_of(graph, op.in[1]) == stream && (op.in.size() == 3 || type_of(graph, op.in[3]) == stream);
}

// An op's largest part: a pass over its values, or products of matrices.
enum class Part { pass, products };
// The matrices of its modules that an op reads.
enum class Reads { weights, factors };

struct Row {
  OpKind kind;
  const char* name;
  Flops flops;
  Types types = of_compute_type;
  Part part = Part::pass;
  Reads reads = Reads::weights;
};
// Rows are in the order of OpKind.
constexpr std::array kTable{Row{OpKind::embed, "embed", none},
                            Row{OpKind::gather, "gather", none, in_type_of_result},
                            Row{OpKind::add, "add", elementwise, in_type_of_result},
                            Row{OpKind::cast, "cast", none, cast_of_types},
                            Row{OpKind::scale, "scale", elementwise},
                            Row{OpKind::norm, "norm", elementwise, of_any_type},
                            Row{OpKind::add_norm, "add+norm", elementwise, stream_and_branch},
                            Row{OpKind::layer_norm, "layer norm", elementwise, of_any_type},
                            Row{OpKind::linear, "linear", linear, of_product, Part::products},
                            Row{OpKind::adapter_sums, "adapter sums", sums, of_compute_type, Part::products, Reads::factors},
                            Row{OpKind::dora_ratio, "dora ratio", ratio, of_compute_type, Part::products},
                            Row{OpKind::dora, "dora", elementwise},
                            Row{OpKind::rope, "rope", elementwise},
                            Row{OpKind::attention, "attention", attention},
                            Row{OpKind::regroup, "regroup", none},
                            Row{OpKind::latent_heads, "latent heads", none},
                            Row{OpKind::trim_heads, "trim heads", none},
                            Row{OpKind::glu, "glu", elementwise},
                            Row{OpKind::glu_sums, "glu, adapter sums", gated_sums, of_compute_type, Part::products, Reads::factors},
                            Row{OpKind::activation, "activation", elementwise},
                            Row{OpKind::gate_rows, "gate rows", elementwise},
                            Row{OpKind::route, "route", elementwise},
                            Row{OpKind::dispatch, "dispatch", none},
                            Row{OpKind::expert_linear, "expert linear", experts},
                            Row{OpKind::combine, "combine", elementwise},
                            Row{OpKind::head, "head", head, of_compute_type, Part::products},
                            Row{OpKind::evaluate, "evaluate", head, of_compute_type, Part::products},
                            Row{OpKind::scatter, "scatter", none, in_type_of_result},
                            Row{OpKind::add_gradient, "add gradient", elementwise, all_of_one_type},
                            Row{OpKind::cast_backward, "cast backward", elementwise, cast_to_gradient},
                            Row{OpKind::scale_backward, "scale backward", elementwise},
                            Row{OpKind::norm_backward, "norm backward", elementwise, norm_gradient},
                            Row{OpKind::layer_norm_backward, "layer norm backward", elementwise, norm_gradient},
                            Row{OpKind::linear_input_gradient, "linear d x", product, of_compute_type, Part::products},
                            Row{OpKind::linear_weight_gradient, "linear d W", weight_gradient, of_compute_type, Part::products},
                            Row{OpKind::adapter_gradient, "adapter backward", adapter, of_compute_type, Part::products},
                            Row{OpKind::adapter_sums_gradient, "adapter d s, d B", sums_gradient, of_compute_type, Part::products, Reads::factors},
                            Row{OpKind::adapter_input_gradient, "adapter d A", sums, of_compute_type, Part::products, Reads::factors},
                            Row{OpKind::dora_backward, "dora backward", elementwise},
                            Row{OpKind::rope_backward, "rope backward", elementwise},
                            Row{OpKind::attention_backward, "attention backward", attention},
                            Row{OpKind::glu_backward, "glu backward", elementwise},
                            Row{OpKind::glu_adapters_backward, "glu, adapters backward", gated_gradients, of_compute_type, Part::products, Reads::factors},
                            Row{OpKind::regroup_backward, "regroup backward", none},
                            Row{OpKind::latent_heads_backward, "latent heads backward", none},
                            Row{OpKind::trim_heads_backward, "trim heads backward", none},
                            Row{OpKind::activation_backward, "activation backward", elementwise},
                            Row{OpKind::gate_rows_backward, "gate rows backward", elementwise},
                            Row{OpKind::route_backward, "route backward", elementwise, of_any_type},
                            Row{OpKind::dispatch_backward, "dispatch backward", elementwise},
                            Row{OpKind::combine_backward, "combine backward", elementwise},
                            Row{OpKind::expert_input_gradient, "experts d x", expert_product},
                            Row{OpKind::expert_weight_gradient, "experts d W", expert_weights},
                            Row{OpKind::expert_adapter_gradient, "experts adapter backward", expert_adapters},
                            Row{OpKind::embed_backward, "embed backward", none, of_any_type},
                            Row{OpKind::store, "store", none, of_any_type},
                            Row{OpKind::stored, "stored", none, of_any_type},
                            Row{OpKind::load, "load", none},
                            Row{OpKind::loaded, "loaded", none, of_any_type},
                            Row{OpKind::gradient_norm, "gradient norm", trained},
                            Row{OpKind::update, "update", trained}};

constexpr bool in_order() {
  for (size_t i = 0; i < kTable.size(); ++i)
    if (static_cast<size_t>(kTable[i].kind) != i) return false;
  return true;
}
static_assert(in_order());

const Row& row_of(OpKind kind) { return kTable[static_cast<size_t>(kind)]; }

}  // namespace

const char* name_of(OpKind kind) { return row_of(kind).name; }
bool is_product(OpKind kind) { return row_of(kind).part == Part::products; }
bool types_agree(const Graph& graph, const Op& op) { return op.in.empty() || row_of(op.kind).types(graph, op); }

int64_t rows_of(const Graph& graph, const Op& op, const StepSizes& sizes) {
  if (op.in.empty() && op.out.empty()) return 0;
  return sizes.rows(graph.buffer_of(op.in.empty() ? op.out[0] : op.in[0]).rows);
}

Cost cost_of(const Graph& graph, const Op& op, const StepSizes& sizes, double mean_length) {
  if (op.kind == OpKind::stored || op.kind == OpKind::loaded) return {};
  const auto rows = static_cast<double>(rows_of(graph, op, sizes));
  Cost cost{row_of(op.kind).flops(graph, op, rows, mean_length), static_cast<double>(op.attributes.bytes)};
  for (const auto* values : {&op.in, &op.out})
    for (ValueId id : *values) {
      const Buffer& buffer = graph.buffer_of(id);
      cost.bytes +=
          static_cast<double>(sizes.rows(buffer.rows) * graph.value(id).width * sizes.element(buffer.type));
    }
  const bool adapters_alone = row_of(op.kind).reads == Reads::factors;
  cost.bytes += (adapters_alone ? factors(graph, op) : weights(graph, op)) * static_cast<double>(sizes.compute_bytes);
  return cost;
}

}  // namespace forge
