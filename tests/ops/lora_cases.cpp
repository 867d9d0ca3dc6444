#include "core/lib/base/random.h"
#include "kernels/dropout/dropout.h"
#include "kernels/lora/lora_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  std::string name;
  int64_t tokens, width, rank;
  std::vector<int64_t> outs;
  double dropout = 0;
  bool d_x = true;
  bool narrow = false;  // S is held in the type
};

constexpr double kScale = 1.7;
constexpr uint64_t kSeed = 77;
constexpr int64_t kStep = 5;

at::Tensor examples(int64_t tokens) { return at::arange(tokens, at::kLong).floor_divide(4); }
at::Tensor positions(int64_t tokens) { return at::arange(tokens, at::kLong).remainder(4); }

// The mask of kernels/dropout, which the reference uses.
at::Tensor mask_of(const Setting& s) {
  RowKeys rows{.seed = kSeed, .step = kStep};
  for (int64_t t = 0; t < s.tokens; ++t) {
    rows.example.push_back(t / 4);
    rows.position.push_back(static_cast<int32_t>(t % 4));
  }
  return counter_dropout(at::ones({s.tokens, s.width}, at::kDouble), s.dropout, stream_of("group"), rows);
}

std::string numbered(const char* name, size_t i) { return name + std::to_string(i); }

// y_i = scale drop(x) A_iᵀ B_iᵀ, and S
Tensors products(const Tensors& v, const Setting& s) {
  at::Tensor all = (v.at("x") * mask_of(s)).mm(v.at("a").t());
  Tensors out{{"s", all}};
  for (size_t i = 0; i < s.outs.size(); ++i)
    out[numbered("y", i)] =
        kScale * all.narrow(1, static_cast<int64_t>(i) * s.rank, s.rank).mm(v.at(numbered("b", i)).t());
  return out;
}

// Returns the sums of magnitudes of the numbers that are rounded when S, d S and products are held
// in the type.
Tensors between(const Tensors& v, const Setting& s) {
  at::Tensor mask = mask_of(s), x = v.at("x").abs() * mask, a = v.at("a").abs(),
             S = (v.at("x") * mask).mm(v.at("a").t()).abs();
  if (s.dropout > 0) S = S + x.mm(a.t());  // drop(x) is rounded too
  Tensors out{{"d_x", at::zeros_like(x)}};
  std::vector<at::Tensor> d_a;
  for (size_t i = 0; i < s.outs.size(); ++i) {
    auto rows = [&](const at::Tensor& all, int64_t dim) {
      return all.narrow(dim, static_cast<int64_t>(i) * s.rank, s.rank);
    };
    const at::Tensor &b = v.at(numbered("b", i)), &y = v.at(numbered("y", i));
    at::Tensor product = kScale * rows(S, 1).mm(b.abs().t());
    out[numbered("y", i)] = 2 * product;
    // Four numbers are rounded: a gradient's product, its product with the scale, the gradient
    // computed from it, and the sum that it is added to.
    at::Tensor d_s = 2 * kScale * y.mm(b).abs();
    out["d_x"] =
        out.at("d_x") + (2 * d_s.mm(rows(a, 0)) + 2 * y.mm(b).mm(rows(v.at("a"), 0)).abs() * kScale) * mask;
    d_a.push_back((d_s + d_s * (s.dropout > 0)).t().mm(x));
    out[numbered("d_b", i)] = 2 * kScale * y.abs().t().mm(rows(S, 1));
  }
  out["d_a"] = 1.5 * at::cat(d_a);
  return out;
}

std::vector<Operand> shared(Store type, const Setting& s, const Layout& layout) {
  int64_t members = static_cast<int64_t>(s.outs.size());
  std::vector<Operand> operands{laid(input("x", type, normal({s.tokens, s.width}, 1)), layout),
                                input("a", type, normal({members * s.rank, s.width}, 2, 0.2)),
                                input("example", Store::i64, examples(s.tokens)),
                                input("position", Store::i32, positions(s.tokens)),
                                input("step", Store::i64, at::tensor({kStep}))};
  for (size_t i = 0; i < s.outs.size(); ++i)
    operands.push_back(input(numbered("b", i), type, normal({s.outs[i], s.rank}, 3 + i, 0.3)));
  return operands;
}

LoraGroup group_of(Store type, const Setting& s, Pointers& p) {
  LoraGroup g{element(type),
              s.tokens,
              s.width,
              s.rank,
              static_cast<int64_t>(s.outs.size()),
              static_cast<float>(kScale)};
  g.x = p["x"], g.x_stride = p.stride("x"), g.a = p["a"], g.s = p["s"];
  if (s.narrow) g.s_type = g.type;
  if (s.dropout > 0) g.dropout = {s.dropout, kSeed, stream_of("group"), p["step"], p["example"], p["position"]};
  for (size_t i = 0; i < s.outs.size(); ++i) {
    std::string y = numbered("y", i);
    g.member[i] = {s.outs[i], p[numbered("b", i)], p[y], p.stride(y)};
  }
  return g;
}

Case forward_case(Store type, const Setting& s, const Layout& layout) {
  std::vector<Operand> operands = shared(type, s, layout);
  int64_t ranks = static_cast<int64_t>(s.outs.size()) * s.rank;
  operands.push_back(
      output("s", s.narrow ? type : Store::f32, {s.tokens, ranks},
             {.roundings = 1.01, .sums = 8, .reason = "an fp32 sum over width", .between = 1}));
  for (size_t i = 0; i < s.outs.size(); ++i)
    operands.push_back(laid(in_out(numbered("y", i), type, normal({s.tokens, s.outs[i]}, 6 + i),
                                   {.roundings = 1.01,
                                    .sums = 12,
                                    .reason = "one rounding; fp32 sums over width and rank",
                                    .between = 1}),
                            layout));
  auto oracle = [=](const Tensors& in) {
    Tensors out = products(in, s), sizes = in;
    for (auto& [name, value] : sizes) value = value.abs();
    Tensors reach = products(sizes, s), rounded = between(in, s);
    out["s.size"] = reach.at("s");
    out["s.between"] = s.dropout > 0 ? reach.at("s") : at::zeros_like(reach.at("s"));  // drop(x)
    for (size_t i = 0; i < s.outs.size(); ++i) {
      std::string y = numbered("y", i);
      out[y] = out.at(y) + in.at(y);
      out[y + ".size"] = reach.at(y) + in.at(y).abs();
      out[y + ".between"] = rounded.at(y);
    }
    return out;
  };
  return make_case<LoraForward>("lora", "forward " + s.name + " " + layout.name + " " + name_of(type),
                                operands, oracle,
                                [=](Pointers& p) { return LoraForward{group_of(type, s, p)}; });
}

Case backward_case(Store type, const Setting& s, const Layout& layout) {
  std::vector<Operand> operands = shared(type, s, layout);
  int64_t ranks = static_cast<int64_t>(s.outs.size()) * s.rank;
  Tolerance sum{.roundings = 1.01,
                .sums = 16,
                .reason = "one rounding; fp32 sums over outputs or tokens, and S in fp32",
                .between = 1};
  Tensors stored;
  for (const Operand& operand : operands) {
    auto to = type == Store::bf16 ? at::kBFloat16 : type == Store::f16 ? at::kHalf : at::kFloat;
    stored[operand.name] =
        operand.value.scalar_type() == at::kLong ? operand.value : operand.value.to(to).to(at::kDouble);
  }
  operands.push_back(input("s", s.narrow ? type : Store::f32, products(stored, s).at("s")));
  operands.push_back(in_out("d_a", Store::f32, normal({ranks, s.width}, 8), sum));
  if (s.d_x) operands.push_back(laid(in_out("d_x", type, normal({s.tokens, s.width}, 9), sum), layout));
  for (size_t i = 0; i < s.outs.size(); ++i) {
    operands.push_back(laid(input(numbered("y", i), type, normal({s.tokens, s.outs[i]}, 20 + i)), layout));
    operands.push_back(in_out(numbered("d_b", i), Store::f32, normal({s.outs[i], s.rank}, 30 + i), sum));
  }
  auto oracle = [=](const Tensors& in) {
    Tensors values{{"x", in.at("x")}, {"a", in.at("a")}}, cotangents, sizes, size_cotangents;
    std::vector<std::string> names{"x", "a"};
    for (size_t i = 0; i < s.outs.size(); ++i) {
      names.push_back(numbered("b", i));
      values[names.back()] = in.at(names.back());
      cotangents[numbered("y", i)] = in.at(numbered("y", i));
      size_cotangents[numbered("y", i)] = in.at(numbered("y", i)).abs();
    }
    for (const auto& [name, value] : values) sizes[name] = value.abs();
    Forward forward = [&](const Tensors& v) { return products(v, s); };
    // The gradient of the magnitudes is the sum of the terms' sizes.
    Tensors grads = gradients(forward, values, names, cotangents),
            reach = gradients(forward, sizes, names, size_cotangents), rounded = between(in, s), out;
    for (const std::string& name : names) {
      std::string d = "d_" + name;
      if (name == "x" && !s.d_x) continue;
      out[d] = in.at(d) + grads.at(name);
      out[d + ".size"] = in.at(d).abs() + reach.at(name);
      out[d + ".between"] = rounded.at(d);
    }
    return out;
  };
  return make_case<LoraBackward>("lora", "backward " + s.name + " " + layout.name + " " + name_of(type),
                                 operands, oracle, [=](Pointers& p) {
                                   LoraBackward a{group_of(type, s, p), p["d_a"]};
                                   if (s.d_x) a.d_x = p["d_x"], a.d_x_stride = p.stride("d_x");
                                   for (size_t i = 0; i < s.outs.size(); ++i)
                                     a.group.member[i].d_b = p[numbered("d_b", i)];
                                   return a;
                                 });
}

}  // namespace

void add_lora_cases(std::vector<Case>& cases) {
  const Setting settings[] = {{"1x1", 1, 1, 1, {1}},
                              {"qkv", 70, 64, 16, {64, 32, 32}},
                              {"gate and up", 9, 33, 4, {50, 50}},
                              {"dropout", 65, 140, 8, {24, 150}, 0.3},
                              {"dropout, no d_x", 7, 20, 3, {5}, 0.5, false},
                              {"several chunks", 600, 12, 2, {9}},
                              {"no tokens", 0, 8, 2, {4}}};
  for (Store type : kFloats)
    for (const Setting& setting : settings)
      for (const Layout& layout : kLayouts) {
        if (setting.tokens > 100 && layout.row_gap == 0 && layout.offset != 0) continue;
        cases.push_back(forward_case(type, setting, layout));
        cases.push_back(backward_case(type, setting, layout));
      }
  for (Store type : {Store::bf16, Store::f16})
    for (const Layout& layout : kLayouts) {
      const Setting narrow{"narrow S", 33, 40, 8, {24, 16}, 0, true, true};
      cases.push_back(forward_case(type, narrow, layout));
      cases.push_back(backward_case(type, narrow, layout));
      cases[cases.size() - 2].only = cases.back().only = "emulated/";
    }
  for (Store type : kFloats) {
    const Setting small{"alone", 9, 32, 8, {16, 24}, 0.2};
    add_alone(cases, forward_case(type, small, kDense));
    add_alone(cases, backward_case(type, small, kDense));
  }
}

}  // namespace forge::kernel_test
