#include "kernels/linear/linear_op.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/graph/gradients.h"
#include "kernels/device/cpu_product.h"
#include "kernels/fp8/fp8_op.h"
#include "kernels/linear/products.h"
#include "kernels/lora/folded_op.h"
#include "kernels/lora/lora_op.h"
#include "kernels/dora/dora_op.h"
#include "kernels/rows/rows_op.h"

namespace forge {

namespace {

ValueId rescaled(Recorder& g, ValueId x, const std::string& all, const std::vector<int32_t>& modules) {
  const int64_t width = g.graph.value(x).width;
  ValueId ratio = g.graph.new_value(g.name(all + ".ratio"), Rows::one, 2 * width, ValueType::fp32);
  g.push(&ops::dora_ratio, {}, {ratio}, modules);
  ValueId y = g.like(all, x, width);
  g.push(&ops::dora, {x, ratio}, {y}, modules);
  return y;
}

}  // namespace

std::vector<ValueId> linear_all(Recorder& g, ValueId x, const std::vector<LinearShape>& shapes) {
  x = in_compute_type(g, x);
  std::vector<int32_t> modules;
  for (const LinearShape& shape : shapes) {
    modules.push_back(
        g.module_at(shape.module, ModuleKind::linear, g.graph.value(x).width, shape.out, shape.bias));
    ModuleUse& use = g.use_at(modules.back());
    use.use = shape.use;
    use.fp8 = g.training.fp8 && !use.trained && shape.use == LinearUse::layer && !g.training.wide.count(use.path);
  }
  std::string all;
  int64_t width = 0;
  bool adapted = false;
  for (int32_t at : modules) {
    const ModuleUse& module = g.use_at(at);
    all += (all.empty() ? "" : "+") + last_part(module.path);
    width += module.out, adapted |= module.adapted();
  }
  const bool dora = g.training.dora && adapted;
  ValueId y = g.like(dora ? all + ".unscaled" : all, x, width);
  std::vector<ValueId> out{y};
  for (int32_t at : modules)
    if (const ModuleUse& module = g.use_at(at); module.adapted())
      out.push_back(g.like(last_part(module.path) + ".s", x, module.rank, ValueType::fp32));
  g.push(&ops::linear, {x}, out, modules).attributes.unscaled = dora;
  std::vector<ValueId> parts = g.columns(y, modules, dora ? ".unscaled" : "");
  return dora ? g.columns(rescaled(g, y, all, modules), modules) : parts;
}

namespace flops {

double linear(const Graph& graph, const Op& op, double rows, double) {
  const Sides s = sides(graph, op);
  return 2 * rows * (weights(graph, op) + (op.attributes.folded ? s.ranks * s.out : factors(graph, op)));
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

}  // namespace flops

namespace {

using bind::Weight;
using fused::base;

// An addend must have the type of the result.
bool of_product(const Graph& graph, const Op& op) {
  const Attributes& a = op.attributes;
  return types::compute(graph, op) && op.in.size() == size_t{1} + a.folded + a.accumulate &&
         (!a.accumulate || graph.buffer_of(op.in.back()).type == graph.buffer_of(op.out[0]).type);
}

void derive_linear(Gradients& g, const Op& forward) {
  const ValueId x = forward.in[0], d_y = g.whole_gradient(forward);
  const bool trained = any_module(g.graph, forward, &ModuleUse::trains);
  const bool adapted = any_module(g.graph, forward, &ModuleUse::adapted);
  const ValueId input = trained || adapted ? g.need(x) : kNoValue;
  std::vector<ValueId> products(forward.out.begin() + 1, forward.out.end());  // s of the adapters
  for (ValueId& s : products) s = g.need(s);
  if (g.wants(x)) g.contribute(g.with_modules(&ops::linear_input_gradient, forward, {d_y}), x);
  if (trained) g.push(g.with_modules(&ops::linear_weight_gradient, forward, {d_y, input}));
  if (!adapted) return;
  Op op = g.with_modules(&ops::adapter_gradient, forward, {d_y, input});
  op.in.insert(op.in.end(), products.begin(), products.end());
  g.wants(x) ? g.contribute(std::move(op), x) : static_cast<void>(g.push(std::move(op)));
}

// Returns one weight of all the op's modules if their weights are consecutive in memory; otherwise
// one without data and blocks.
Weight base_together(const OpRun& r) {
  const OpModule& first = r.module();
  const bool in_blocks = fused::stays_in_blocks(r, 0) && first.stored_bytes > 0;
  const void* next = in_blocks ? first.blocks.codes : first.weight;
  Weight all{first.weight, 0, in_blocks ? r.use(0).in : first.stride};
  if (in_blocks) all.blocks = &first.blocks;
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const OpModule& module = r.module(i);
    const bool follows =
        in_blocks ? module.blocks.codes == next && module.blocks.coding == first.blocks.coding
                  : !r.weights.converts(module) && module.weight == next && module.stride == all.stride;
    if (!next || !follows) return {};
    next = static_cast<const char*>(next) +
           (in_blocks ? module.stored_bytes : r.use(i).out * all.stride * r.bytes());
    all.rows += r.use(i).out;
  }
  return all;
}

// The terms that adapters add to the products of an op's modules, by module; s is computed before.
constexpr size_t kMostTails = 4;
using Tails = std::array<GemmTail, kMostTails>;

// True if the products add the adapters' terms.
bool adapters_run_on(const OpRun& r) {
  bool whole_vectors = true;
  for (size_t i = 0; i < r.op.modules.size(); ++i) whole_vectors &= r.use(i).out % 16 == 0;
  return fused::takes_tails(r) && whole_vectors && r.op.modules.size() <= kMostTails;
}

Tails tails_of(const OpRun& r) {
  Tails tails;
  bind::each_adapter(r, [&](size_t i, size_t adapter) {
    LoraForward args = bind::lora_forward(r, i, adapter);
    const LoraGroup& g = args.group;
    tails[i] = {0,      g.member[0].out, g.rank, g.scale, static_cast<const float*>(g.s),
                g.rank, g.member[0].b,   g.rank};
    args.group.member[0].y = nullptr;
    r.device.run(args);
  });
  return tails;
}

void folded_linear(const OpRun& r) {
  bool biased = false;
  for (size_t i = 0; i < r.op.modules.size(); ++i) biased |= r.module(i).bias != nullptr;
  for (size_t i = 0; biased && i < r.op.modules.size(); ++i) {
    const Part to = part(r, r.out(0), i);
    FORGE_CHECK(r.module(i).bias, "modules of one product with and without a bias");
    r.device.run(bind::copy(r, r.tokens(), {const_cast<void*>(r.module(i).bias), 0, to.width}, to));
  }
  r.device.run(bind::folded_linear(r));
}

void run_linear(const OpRun& r) {
  if (r.op.attributes.folded) return folded_linear(r);
  const ValueId x = r.in(0), y = r.out(0);
  const size_t modules = r.op.modules.size();
  const Weight all = base_together(r);
  bool biased = false;
  const auto bias = [&](size_t i) {  // added by the product, unless DoRA rescales
    const OpModule& module = r.module(i);
    FORGE_CHECK(!module.magnitude || r.op.attributes.unscaled, "a list without the ops of its DoRA");
    return module.magnitude ? nullptr : module.bias;
  };
  for (size_t i = 0; i < modules; ++i) biased |= bias(i) != nullptr;
  const bool run_on = !bind::any_fp8(r.m.graph, r.op) && adapters_run_on(r);
  const Part h = bind::added(r);
  Tails tails = run_on ? tails_of(r) : Tails{};
  if (all.rows > 0 && !biased) {
    for (size_t i = 1; run_on && i < modules; ++i) tails[i].column = tails[i - 1].column + r.use(i - 1).out;
    fused::product(r, r.tokens(), whole(r, y), whole(r, x), all, nullptr, h, {tails.data(), run_on ? modules : 0});
  } else {
    const QuantizeRows rows = fused::fp8_rows(r, whole(r, x));
    for (size_t i = 0; i < modules; ++i)
      if (r.use(i).fp8)
        fused::fp8_product(r, i, rows, bias(i));
      else
        fused::product(r, r.tokens(), part(r, y, i), whole(r, x), fused::multiplied(r, i), bias(i), h,
                {tails.data() + (run_on ? i : 0), run_on ? size_t{1} : 0});
  }
  if (run_on) return;
  bind::each_adapter(r, [&](size_t i, size_t adapter) { r.device.run(bind::lora_forward(r, i, adapter)); });
}

void run_input_gradient(const OpRun& r) {
  if (r.op.attributes.folded) return r.device.run(bind::folded_input_gradient(r));
  const Part d_x = whole(r, r.out(0));
  const auto add = [&](const Part& d_y, const Weight& weight, bool accumulate) {
    r.device.run(bind::input_gradient(r, r.tokens(), d_x, d_y, weight, accumulate));
  };
  if (const Weight all = base_together(r); all.data)
    return add(whole(r, r.in(0)), all, r.op.attributes.accumulate);
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const bool accumulate = r.op.attributes.accumulate || i > 0;
    if (r.use(i).fp8)
      fused::fp8_input_gradient(r, i);
    else
      add(part(r, r.in(0), i), base(r, i), accumulate);
  }
}

// Returns the gradients of all the op's modules if they are consecutive in memory; otherwise null.
float* gradients_together(const Call& c) {
  float *first = c.module().d_weight, *next = first;
  for (size_t i = 0; i < c.op.modules.size(); ++i) {
    if (!next || c.module(i).d_weight != next) return nullptr;
    next += c.use(i).out * c.use(i).in;
  }
  return first;
}

// Returns the gradients of the op's trained weights.
std::vector<Gemm> weight_gradients(const Call& c) {
  const Part x = whole(c, c.in(1));
  // In 16 bits a CPU's product is rounded in a workspace for one module.
  if (float* all = gradients_together(c); all && c.type() == Element::f32)
    return {bind::weight_gradient(c, c.tokens(), all, whole(c, c.in(0)), x)};
  std::vector<Gemm> products;
  for (size_t i = 0; i < c.op.modules.size(); ++i)
    if (float* gradient = c.module(i).d_weight)
      products.push_back(bind::weight_gradient(c, c.tokens(), gradient, part(c, c.in(0), i), x));
  return products;
}

void run_weight_gradient(const OpRun& r) {
  for (size_t i = 0; i < r.op.modules.size(); ++i)
    if (float* bias = r.module(i).d_bias) {
      const Part d_y = part(r, r.in(0), i);
      r.device.run(SumColumns{r.type(), r.tokens(), d_y.width, d_y.data, d_y.stride, bias});
    }
  for (const Gemm& product : weight_gradients(r)) r.device.run(product);
}

int64_t linear_workspace(const Call& c) {
  if (c.m.capacity.gpu && c.op.attributes.accumulate) {
    const Part x = whole(c, c.in(0)), y = whole(c, c.out(0));
    return device_gemm_workspace(bind::plus(bind::product(c, c.tokens(), y, x, {.rows = y.width}, false),
                                            bind::added(c), c.workspace));
  }
  return std::max(adapters_workspace(c), bind::fp8_space(c).bytes);
}

int64_t input_gradient_workspace(const Call& c) { return bind::fp8_space(c).bytes; }
int64_t weight_gradient_workspace(const Call& c) { return c.m.capacity.gpu ? 0 : most_workspace(weight_gradients(c)); }

}  // namespace

const OpRecord ops::linear{.name = "linear",
                           .flops = flops::linear,
                           .types = of_product,
                           .bulk = Bulk::products,
                           .derive = derive_linear,
                           .run = run_linear,
                           .workspace = linear_workspace,
                           .copies = {.operands = 1}};
const OpRecord ops::linear_input_gradient{.name = "linear d x",
                                          .flops = flops::product,
                                          .bulk = Bulk::products,
                                          .run = run_input_gradient,
                                          .workspace = input_gradient_workspace,
                                          .copies = {.results = 3}};
const OpRecord ops::linear_weight_gradient{.name = "linear d W",
                                           .flops = flops::weight_gradient,
                                           .bulk = Bulk::products,
                                           .run = run_weight_gradient,
                                           .workspace = weight_gradient_workspace,
                                           .copies = {.results = 0}};

}  // namespace forge
