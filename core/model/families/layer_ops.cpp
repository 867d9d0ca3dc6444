#include "core/model/families/layer_ops.h"

#include <algorithm>

#include "core/model/families/family.h"
#include "kernels/activation/activation_op.h"
#include "kernels/attention/attention_op.h"
#include "kernels/experts/experts_op.h"
#include "kernels/latent/heads_op.h"
#include "kernels/linear/linear_op.h"
#include "kernels/rms_norm/norm_op.h"
#include "kernels/rope/rope_op.h"
#include "kernels/rows/rows_op.h"
#include "kernels/swiglu/glu_op.h"

namespace forge {
namespace {

std::string wide(const char* what, int64_t width, const std::string& expected) {
  return std::string(what) + " is " + std::to_string(width) + " wide, expected " + expected;
}

std::string heads_fault(const ModelSpec& m, const char* what, int64_t width, int64_t heads) {
  if (width == heads * m.head_dim) return "";
  return wide(what, width, std::to_string(heads) + " heads of " + std::to_string(m.head_dim));
}

// ---- widths

std::string same_width(const StepWidths& w) {
  w.out[0] = w.in[0];
  if (w.in.size() == 1 || w.in[0] == w.in[1]) return "";
  return wide("the second value", w.in[1], std::to_string(w.in[0]) + " as the first one");
}

std::string widths_of_heads(const StepWidths& w) {
  w.out[0] = w.in[0];
  if (w.in[0] % w.m.head_dim == 0) return "";
  return wide("the value", w.in[0], "a multiple of head_dim " + std::to_string(w.m.head_dim));
}

std::string widths_of_linears(const StepWidths& w) {
  for (size_t i = 0; i < w.out.size(); ++i) w.out[i] = width_of(w.step.modules[i].size, w.m);
  return "";
}

std::string widths_of_split(const StepWidths& w) {
  int64_t all = 0;
  for (size_t i = 0; i < w.out.size(); ++i) {
    w.out[i] = width_of(w.step.modules[i].size, w.m);
    all += w.out[i];
  }
  return all == w.in[0]
             ? ""
             : wide("the value", w.in[0], "as wide as its parts together, " + std::to_string(all));
}

std::string widths_of_regroup(const StepWidths& w) {
  const ModelSpec& m = w.m;
  w.out[0] = m.num_heads * m.head_dim;
  w.out[1] = w.out[2] = m.num_kv_heads * m.head_dim;
  return heads_fault(m, "the value", w.in[0], m.num_heads + 2 * m.num_kv_heads);
}

std::string widths_of_rope(const StepWidths& w) {
  w.out[0] = w.in[0], w.out[1] = w.in[1];
  const std::string fault = heads_fault(w.m, "q", w.in[0], w.m.num_heads);
  return fault.empty() ? heads_fault(w.m, "k", w.in[1], w.m.num_kv_heads) : fault;
}

std::string widths_of_attention(const StepWidths& w) {
  w.out[0] = w.in[0];
  std::string fault = heads_fault(w.m, "q", w.in[0], w.m.num_heads);
  if (fault.empty()) fault = heads_fault(w.m, "k", w.in[1], w.m.num_kv_heads);
  if (fault.empty()) fault = heads_fault(w.m, "v", w.in[2], w.m.num_kv_heads);
  return fault;
}

std::string widths_of_gate_rows(const StepWidths& w) {
  w.out[0] = w.in[0];
  return w.in[1] == 1 ? "" : wide("the gate", w.in[1], "1");
}

std::string widths_of_experts(const StepWidths& w) {
  w.out[0] = w.in[0];
  if (w.m.num_experts == 0) return "there are no experts: no setting sets num_experts";
  if (w.m.experts_per_token == 0)
    return "a token has no experts: no setting sets experts_per_token";
  if (w.m.experts_per_token > w.m.num_experts)
    return "a token has " + std::to_string(w.m.experts_per_token) + " experts of " +
           std::to_string(w.m.num_experts);
  if (w.m.expert_size == 0) return "experts are 0 wide: no setting sets expert_size";
  return w.in[0] == w.m.hidden_size
             ? ""
             : wide("the value", w.in[0], "hidden_size " + std::to_string(w.m.hidden_size));
}

// ---- calls of the recorder

void record_norm(const StepCall& c) {
  c.out[0] = norm(c.g, c.m, c.in[0], c.step.modules[0].name.c_str());
}

void record_head_norm(const StepCall& c) {
  c.out[0] = head_norm(c.g, c.in[0], c.step.modules[0].name, c.m.head_dim, c.m.rms_norm_eps,
                       c.m.norm_offset);
}

void record_linears(const StepCall& c) {
  const bool bias =
      c.step.always_bias || (c.step.bias && c.m.*std::get<bool ModelSpec::*>(c.step.bias->member));
  std::vector<LinearShape> shapes;
  for (const StepModule& module : c.step.modules)
    shapes.push_back({module.name.c_str(), width_of(module.size, c.m), bias});
  std::ranges::copy(linear_all(c.g, c.in[0], shapes), c.out.begin());
}

template <size_t N>
void split_into(const StepCall& c) {
  int64_t widths[N];
  for (size_t i = 0; i < N; ++i) widths[i] = width_of(c.step.modules[i].size, c.m);
  std::ranges::copy(c.g.split(c.in[0], widths), c.out.begin());
}

void record_split(const StepCall& c) {
  constexpr void (*kSplit[])(const StepCall& call) = {split_into<2>, split_into<3>, split_into<4>};
  kSplit[c.out.size() - 2](c);
}

void record_regroup(const StepCall& c) {
  std::ranges::copy(regroup(c.g, c.in[0], heads_of(c.m)), c.out.begin());
}

// Layers without rotary positions leave q and k as they are.
void record_rope(const StepCall& c) {
  const auto turned = turn(c.g, c.m, c.layer, c.in[0], c.in[1]);
  std::ranges::copy(turned, c.out.begin());
}

void record_attention(const StepCall& c) {
  c.out[0] = attention(c.g, c.in[0], c.in[1], c.in[2], heads_of(c.m), attention_of(c.m, c.layer));
}

// In the order of the op's words.
constexpr GateKind kGates[] = {GateKind::silu, GateKind::gelu_tanh};
constexpr ActivationKind kActivations[] = {ActivationKind::gelu, ActivationKind::gelu_tanh,
                                           ActivationKind::relu};

void record_gated(const StepCall& c) { c.out[0] = glu(c.g, c.in[0], c.in[1], kGates[c.step.word]); }

void record_activation(const StepCall& c) {
  c.out[0] = activation(c.g, c.in[0], kActivations[c.step.word]);
}

void record_scale(const StepCall& c) {
  const SpecMember* factor = c.step.factor;
  c.out[0] = scale(c.g, c.in[0],
                   factor ? c.m.*std::get<double ModelSpec::*>(factor->member) : c.step.number);
}

void record_add(const StepCall& c) { c.out[0] = add(c.g, c.in[0], c.in[1]); }

void record_experts(const StepCall& c) {
  const std::vector<StepModule>& names = c.step.modules;
  const std::string experts = names[1].name + ".", gate = "." + names[2].name,
                    up = "." + names[3].name, down = "." + names[4].name;
  const ExpertNames all{names[0].name.c_str(), experts.c_str(), gate.c_str(), up.c_str(),
                        down.c_str()};
  c.out[0] = sparse_mlp(c.g, c.m, c.in[0], all, route_rule(c.m));
}

void record_gate_rows(const StepCall& c) { c.out[0] = gate_rows(c.g, c.in[0], c.in[1]); }

constexpr size_t kMostParts = 8;

constexpr StepReads kAlone = StepReads::alone, kStream = StepReads::stream;

constexpr LayerOp kOps[] = {
    {.name = "norm",
     .form = "y = norm(x, MODULE)",
     .reads = {kStream},
     .rest = Rest::module,
     .record = record_norm,
     .widths = same_width},
    {.name = "head_norm",
     .form = "q = head_norm(q, MODULE)",
     .reads = {kAlone},
     .rest = Rest::module,
     .record = record_head_norm,
     .widths = widths_of_heads},
    {.name = "linear",
     .form = "y, … = linear(x, MODULE: SIZE, …, bias: FLAG)",
     .reads = {kStream},
     .most_out = kMostParts,
     .rest = Rest::linears,
     .record = record_linears,
     .widths = widths_of_linears},
    {.name = "split",
     .form = "a, b, … = split(x, SIZE, SIZE, …)",
     .reads = {kAlone},
     .least_out = 2,
     .most_out = 4,
     .rest = Rest::sizes,
     .record = record_split,
     .widths = widths_of_split},
    {.name = "regroup",
     .form = "q, k, v = regroup(x)",
     .reads = {kAlone},
     .least_out = 3,
     .most_out = 3,
     .record = record_regroup,
     .widths = widths_of_regroup},
    {.name = "rope",
     .form = "q, k = rope(q, k)",
     .inputs = 2,
     .reads = {kAlone, kAlone},
     .least_out = 2,
     .most_out = 2,
     .record = record_rope,
     .widths = widths_of_rope},
    {.name = "attention",
     .form = "m = attention(q, k, v)",
     .inputs = 3,
     .reads = {kAlone, kAlone, kAlone},
     .record = record_attention,
     .widths = widths_of_attention},
    {.name = "gated",
     .form = "y = gated(gate, up, silu)",
     .inputs = 2,
     .reads = {kAlone, kAlone},
     .rest = Rest::word,
     .words = {"silu", "gelu_tanh"},
     .record = record_gated,
     .widths = same_width},
    {.name = "activation",
     .form = "y = activation(x, gelu)",
     .reads = {kAlone},
     .rest = Rest::word,
     .words = {"gelu", "gelu_tanh", "relu"},
     .record = record_activation,
     .widths = same_width},
    {.name = "scale",
     .form = "x = scale(x, FACTOR)",
     .reads = {kAlone},
     .rest = Rest::factor,
     .record = record_scale,
     .widths = same_width},
    {.name = "add",
     .form = "h = add(h, y)",
     .inputs = 2,
     .reads = {kStream, kAlone},
     .sums = true,
     .record = record_add,
     .widths = same_width},
    {.name = "experts",
     .form = "y = experts(x, router: MODULE, experts: MODULE, gate: NAME, up: NAME, down: NAME)",
     .reads = {StepReads::shared},
     .rest = Rest::experts,
     .record = record_experts,
     .widths = widths_of_experts},
    {.name = "gate_rows",
     .form = "y = gate_rows(y, gate)",
     .inputs = 2,
     .reads = {kAlone, kAlone},
     .record = record_gate_rows,
     .widths = widths_of_gate_rows},
};

}  // namespace

const LayerOp* find_layer_op(const std::string& name) {
  const auto found = std::ranges::find(kOps, std::string_view(name),
                                       [](const LayerOp& op) { return std::string_view(op.name); });
  return found == std::end(kOps) ? nullptr : found;
}

std::vector<std::string> layer_op_names() {
  std::vector<std::string> names;
  for (const LayerOp& op : kOps) names.push_back(op.name);
  return names;
}

}  // namespace forge
