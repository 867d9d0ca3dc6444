#include "providers/fused/linear.h"

#include <array>
#include <span>

#include "providers/fused/products.h"

namespace forge::fused {
namespace {

// Returns one weight of all the op's modules if their weights are consecutive in memory; otherwise
// one without data and blocks.
Weight base_together(const FusedRun& r) {
  const FusedModule& first = r.module();
  const bool in_blocks = stays_in_blocks(r, 0) && first.stored_bytes > 0;
  const void* next = in_blocks ? first.blocks.codes : first.weight;
  Weight all{first.weight, 0, in_blocks ? r.use(0).in : first.stride};
  if (in_blocks) all.blocks = &first.blocks;
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const FusedModule& module = r.module(i);
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
bool adapters_run_on(const FusedRun& r) {
  bool whole_vectors = true;
  for (size_t i = 0; i < r.op.modules.size(); ++i) whole_vectors &= r.use(i).out % 16 == 0;
  return takes_tails(r) && whole_vectors && r.op.modules.size() <= kMostTails;
}

Tails tails_of(const FusedRun& r) {
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

void folded_linear(const FusedRun& r) {
  bool biased = false;
  for (size_t i = 0; i < r.op.modules.size(); ++i) biased |= r.module(i).bias != nullptr;
  for (size_t i = 0; biased && i < r.op.modules.size(); ++i) {
    const Part to = part(r, r.out(0), i);
    FORGE_CHECK(r.module(i).bias, "modules of one product with and without a bias");
    r.device.run(bind::copy(r, r.tokens(), {const_cast<void*>(r.module(i).bias), 0, to.width}, to));
  }
  r.device.run(bind::folded_linear(r));
}

}  // namespace

void linear(const FusedRun& r) {
  if (r.op.attributes.folded) return folded_linear(r);
  const ValueId x = r.in(0), y = r.out(0);
  const size_t modules = r.op.modules.size();
  const Weight all = base_together(r);
  bool biased = false;
  const auto bias = [&](size_t i) {  // added by the product, unless DoRA rescales
    const FusedModule& module = r.module(i);
    FORGE_CHECK(!module.magnitude || r.op.attributes.unscaled, "a list without the ops of its DoRA");
    return module.magnitude ? nullptr : module.bias;
  };
  for (size_t i = 0; i < modules; ++i) biased |= bias(i) != nullptr;
  const bool run_on = !bind::any_fp8(r.m.graph, r.op) && adapters_run_on(r);
  const Part h = bind::added(r);
  Tails tails = run_on ? tails_of(r) : Tails{};
  if (all.rows > 0 && !biased) {
    for (size_t i = 1; run_on && i < modules; ++i) tails[i].column = tails[i - 1].column + r.use(i - 1).out;
    product(r, r.tokens(), whole(r, y), whole(r, x), all, nullptr, h, {tails.data(), run_on ? modules : 0});
  } else {
    const QuantizeRows rows = fp8_rows(r, whole(r, x));
    for (size_t i = 0; i < modules; ++i)
      if (r.use(i).fp8)
        fp8_product(r, i, rows, bias(i));
      else
        product(r, r.tokens(), part(r, y, i), whole(r, x), multiplied(r, i), bias(i), h,
                {tails.data() + (run_on ? i : 0), run_on ? size_t{1} : 0});
  }
  if (run_on) return;
  bind::each_adapter(r, [&](size_t i, size_t adapter) { r.device.run(bind::lora_forward(r, i, adapter)); });
}

// Computes the ratios of all columns, then one over their norms; columns without an adapter stay as
// they are.
void dora_ratio(const FusedRun& r) {
  const int64_t width = r.m.width(r.out(0)), bytes = width * static_cast<int64_t>(sizeof(float));
  float *const begin = r.m.numbers(r.out(0)), *ratio = begin, *inverse = begin + width / 2;
  std::vector<float>* known = r.m.ratios ? &(*r.m.ratios)[r.out(0)] : nullptr;
  if (known && !known->empty()) return r.device.write(begin, known->data(), bytes);
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const ModuleUse& use = r.use(i);
    const FusedModule& m = r.module(i);
    FORGE_CHECK(r.weights.converts(m) || m.stride == use.in, "dora on a weight with gaps between its rows");
    if (use.rank > 0) r.device.run(bind::dora_ratio(r, i, base(r, i).data, ratio, inverse));
    ratio += use.out, inverse += use.out;
  }
  if (!known) return;
  known->resize(static_cast<size_t>(width));
  r.device.read(known->data(), begin, bytes);
}

namespace {

// Calls visit(module, its first column).
template <class Visit>
void each_module(const FusedRun& r, Visit visit) {
  for (size_t i = 0, column = 0; i < r.op.modules.size(); column += static_cast<size_t>(r.use(i++).out))
    visit(i, static_cast<int64_t>(column));
}

}  // namespace

void dora(const FusedRun& r) {
  each_module(r, [&](size_t i, int64_t column) {
    const Part from = part(r, r.in(0), i), to = part(r, r.out(0), i);
    if (r.use(i).rank == 0) return r.device.run(bind::copy(r, r.tokens(), from, to));
    r.device.run(DoraForward{.type = r.type(),
                             .rows = r.tokens(),
                             .width = from.width,
                             .x = from.data,
                             .x_stride = from.stride,
                             .ratio = r.m.numbers(r.in(1)) + column,
                             .bias = r.module(i).bias,
                             .y = to.data,
                             .y_stride = to.stride});
  });
}

void dora_backward(const FusedRun& r) {
  const int64_t width = r.m.width(r.in(2)) / 2;
  each_module(r, [&](size_t i, int64_t column) {
    const Part d_y = part(r, r.in(0), i), x = part(r, r.in(1), i), d_x = whole(r, r.out(i));
    if (r.use(i).rank == 0) {
      if (d_x.data != d_y.data) r.device.run(bind::copy(r, r.tokens(), d_y, d_x));
      return;
    }
    r.device.run(DoraBackward{.type = r.type(),
                              .rows = r.tokens(),
                              .width = d_y.width,
                              .x = x.data,
                              .x_stride = x.stride,
                              .ratio = r.m.numbers(r.in(2)) + column,
                              .inverse_norm = r.m.numbers(r.in(2)) + width + column,
                              .d_y = d_y.data,
                              .d_y_stride = d_y.stride,
                              .d_x = d_x.data,
                              .d_x_stride = d_x.stride,
                              .d_magnitude = r.module(i).d_magnitude});
  });
}

void linear_input_gradient(const FusedRun& r) {
  if (r.op.attributes.folded) return r.device.run(bind::folded_input_gradient(r));
  const Part d_x = whole(r, r.out(0));
  const auto add = [&](const Part& d_y, const Weight& weight, bool accumulate) {
    input_gradient(r, r.tokens(), d_x, d_y, weight, accumulate);
  };
  if (const Weight all = base_together(r); all.data)
    return add(whole(r, r.in(0)), all, r.op.attributes.accumulate);
  for (size_t i = 0; i < r.op.modules.size(); ++i) {
    const bool accumulate = r.op.attributes.accumulate || i > 0;
    if (r.use(i).fp8)
      fp8_input_gradient(r, i);
    else
      add(part(r, r.in(0), i), base(r, i), accumulate);
  }
}

void linear_weight_gradient(const FusedRun& r) {
  for (size_t i = 0; i < r.op.modules.size(); ++i)
    if (float* bias = r.module(i).d_bias) {
      const Part d_y = part(r, r.in(0), i);
      r.device.run(SumColumns{r.type(), r.tokens(), d_y.width, d_y.data, d_y.stride, bias});
    }
  for (const Gemm& product : bind::linear_weight_gradient(r)) r.device.run(product);
}

void adapter_gradient(const FusedRun& r) {
  bind::each_adapter(r, [&](size_t i, size_t adapter) { r.device.run(bind::lora_backward(r, i, adapter)); });
}

void adapter_sums(const FusedRun& r) {
  if (const AdapterSums args = bind::adapter_sums(r); r.device.refusal(args).empty())
    return r.device.run(args);
  for (const Gemm& product : bind::adapter_sums_products(r)) r.device.run(product);
  if (r.op.out.size() > 1) r.device.run(bind::copy(r, r.tokens(), whole(r, r.out(0)), whole(r, r.out(1))));
}

void adapter_sums_gradient(const FusedRun& r) {
  if (const AdapterSumsGradient args = bind::adapter_sums_gradient(r); r.device.refusal(args).empty())
    return r.device.run(args);
  for (const Gemm& product : bind::adapter_sums_gradient_products(r)) r.device.run(product);
}

void adapter_input_gradient(const FusedRun& r) {
  for (const Gemm& product : bind::adapter_input_gradient(r)) r.device.run(product);
}

namespace {

template <class Args>
bool runs(const FusedRun& r, const Args& args) {
  if (!r.device.refusal(args).empty()) return false;
  r.device.run(args);
  return true;
}

}  // namespace

bool gate_with_adapters(const FusedRun& r) {
  return r.op.kind == OpKind::glu_sums ? runs(r, bind::glu_sums(r)) : runs(r, bind::glu_adapters_backward(r));
}

void place_adapters(const FusedRun& r) {
  for (const CopyRows& copy : bind::placed_adapters(r)) r.device.run(copy);
}

}  // namespace forge::fused
