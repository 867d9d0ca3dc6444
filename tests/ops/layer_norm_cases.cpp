#include <cmath>
#include <limits>

#include "kernels/layer_norm/layer_norm_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

constexpr double kEps = 1e-5;

struct Setting {
  std::string name;
  at::Tensor x;
  bool bias;
  Layout layout;
  bool weight = true;
  double offset = 0;  // of the weight
};

// Returns what the normed row is multiplied with.
at::Tensor factors(const Tensors& in, int64_t width, double offset) {
  return in.count("weight") ? in.at("weight") + offset : at::ones({width}, at::kDouble);
}

at::Tensor normed(const at::Tensor& x) {
  const at::Tensor apart = x - x.mean(-1, true);
  return apart * (apart.square().mean(-1, true) + kEps).rsqrt();
}
at::Tensor normalise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return normed(x) * weight + bias;
}

at::Tensor as_type(const at::Tensor& x, Store type) {
  return type == Store::f32
             ? x.to(at::kFloat).to(at::kDouble)
             : x.to(at::kFloat).to(type == Store::bf16 ? at::kBFloat16 : at::kHalf).to(at::kDouble);
}

// x − μ cancels: its error is relative to x, and that of μ to the mean of |x|.
at::Tensor size_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor apart = x - x.mean(-1, true), inverse = (apart.square().mean(-1, true) + kEps).rsqrt();
  return (x.abs() + x.abs().mean(-1, true) + apart.abs()) * inverse * weight.abs() + bias.abs();
}

// Longer rows have so many terms in each of the four partial sums of plain C++.
double units_of_sum(int64_t width) { return width > 4096 ? std::sqrt(static_cast<double>(width) / 4) : 8; }

Case forward_case(const Streamed& types, const Setting& s) {
  const Store type = types.type;
  const int64_t rows = s.x.size(0), width = s.x.size(1);
  const Tolerance once{.roundings = 1.01,
                       .sums = units_of_sum(width),
                       .reason = "one rounding; two fp32 sums over the row, a root and three products",
                       .between = 1};
  std::vector<Operand> operands{
      laid(input("x", types.stream, s.x), s.layout), laid(output("y", type, {rows, width}, once), s.layout),
      output("statistics", Store::f32, {rows, 2},
             {.roundings = 4, .sums = units_of_sum(width), .reason = "fp32 sums and a root"})};
  if (s.weight) operands.push_back(input("weight", type, uniform_values({width}, 5, 0.5, 1.5)));
  if (s.bias) operands.push_back(input("bias", type, normal({width}, 7)));
  const double offset = s.offset;
  auto oracle = [=](const Tensors& in) {
    const at::Tensor &x = in.at("x"), weight = factors(in, width, offset);
    const at::Tensor mean = x.mean(-1), bias = in.count("bias") ? in.at("bias") : at::zeros({width}, at::kDouble);
    const at::Tensor inverse = ((x - mean.unsqueeze(-1)).square().mean(-1) + kEps).rsqrt();
    Tensors out{{"y", normalise(x, weight, bias)},
                {"y.size", size_of(x, weight, bias)},
                {"statistics", at::stack({mean, inverse}, 1)}};
    out["y.between"] = out.at("y.size");
    out["statistics.size"] = at::stack({x.abs().mean(-1), inverse}, 1);
    return out;
  };
  const bool bias = s.bias, weight = s.weight;
  return make_case<LayerNormForward>("layer_norm", "forward " + s.name + " " + name_of(types), operands, oracle,
                                     [=](Pointers& p) {
                                       LayerNormForward a{element(type), rows, width, p["x"], p.stride("x")};
                                       if (weight) a.weight = p["weight"];
                                       a.weight_offset = static_cast<float>(offset), a.eps = static_cast<float>(kEps);
                                       if (bias) a.bias = p["bias"];
                                       a.y = p["y"], a.y_stride = p.stride("y"), a.statistics = p["statistics"];
                                       if (!types.one()) a.x_type = element(types.stream);
                                       return a;
                                     });
}

// d x cancels: its error is relative to the terms that are subtracted.
Case backward_case(const Streamed& types, const Setting& s, bool accumulate, bool trained) {
  const Store type = types.type;
  const int64_t rows = s.x.size(0), width = s.x.size(1);
  const at::Tensor stored = as_type(s.x, types.stream), mean = stored.mean(-1);
  const at::Tensor inverse = ((stored - mean.unsqueeze(-1)).square().mean(-1) + kEps).rsqrt();
  const Tolerance exact{.roundings = 1.01,
                        .sums = 3 * units_of_sum(width),
                        .reason = "one rounding; three fp32 terms with sums over the row",
                        .between = 2};
  const Tolerance column{.roundings = 1,
                         .sums = 16,
                         .reason = "an fp32 sum over the rows in parts of 32",
                         .between = 3};
  std::vector<Operand> operands{
      laid(input("d_y", type, normal({rows, width}, 11)), s.layout), laid(input("x", types.stream, s.x), s.layout),
      input("statistics", Store::f32, at::stack({mean, inverse}, 1)),
      laid(accumulate ? in_out("d_x", types.stream, normal({rows, width}, 12), exact) : output("d_x", types.stream, {rows, width}, exact),
           s.layout)};
  if (s.weight) operands.push_back(input("weight", type, uniform_values({width}, 5, 0.5, 1.5)));
  if (trained) operands.push_back(in_out("d_weight", Store::f32, normal({width}, 13), column));
  if (trained) operands.push_back(in_out("d_bias", Store::f32, normal({width}, 14), column));
  const double offset = s.offset;
  auto oracle = [=](const Tensors& in) {
    const at::Tensor weight = factors(in, width, offset);
    Tensors leaves{{"x", in.at("x")}, {"weight", weight}, {"bias", at::zeros({width}, at::kDouble)}};
    Forward forward = [=](const Tensors& v) {
      return Tensors{{"y", normalise(v.at("x"), v.at("weight"), v.at("bias"))}};
    };
    Tensors grads = gradients(forward, leaves, {"x", "weight", "bias"}, {{"y", in.at("d_y")}});
    const at::Tensor g = in.at("d_y") * weight, r = in.at("statistics").narrow(1, 1, 1),
                     n = (in.at("x").abs() + in.at("statistics").narrow(1, 0, 1).abs()) * r;
    const at::Tensor before = accumulate ? in.at("d_x") : at::zeros_like(g);
    Tensors out{{"d_x", grads.at("x") + before}};
    out["d_x.size"] = r * (g.abs() + g.abs().mean(-1, true) + n * (g.abs() * n).mean(-1, true)) + before.abs();
    if (in.count("d_weight")) {
      out["d_weight"] = in.at("d_weight") + grads.at("weight");
      out["d_weight.size"] = in.at("d_weight").abs() + (in.at("d_y").abs() * n).sum(0);
    }
    if (in.count("d_bias")) {
      out["d_bias"] = in.at("d_bias") + grads.at("bias");
      out["d_bias.size"] = in.at("d_bias").abs() + in.at("d_y").abs().sum(0);
    }
    return out;
  };
  const bool weight = s.weight;
  return make_case<LayerNormBackward>(
      "layer_norm",
      "backward " + s.name + (accumulate ? " accumulate" : "") + (trained ? " trained " : " ") + name_of(types),
      operands, oracle, [=](Pointers& p) {
        LayerNormBackward a{element(type), rows, width, p["d_y"], p.stride("d_y"), p["x"], p.stride("x")};
        if (weight) a.weight = p["weight"];
        a.weight_offset = static_cast<float>(offset), a.statistics = p["statistics"];
        a.d_x = p["d_x"], a.d_x_stride = p.stride("d_x"), a.accumulate = accumulate;
        if (trained) a.d_weight = p["d_weight"], a.d_bias = p["d_bias"];
        if (!types.one()) a.x_type = element(types.stream);
        return a;
      });
}

at::Tensor with_bad_row(double bad) {
  at::Tensor x = normal({3, 20}, 21);
  x[1][7] = bad;
  return x;
}

void add_allowed_cases(const Streamed& type, std::vector<Case>& cases) {
  const Setting plain{"6x64", normal({6, 64}, 2), true, kDense}, ragged{"4x61", normal({4, 61}, 2), true, kRagged};
  const Case forward = forward_case(type, plain), gradient = backward_case(type, plain, false, false),
             accumulated = backward_case(type, plain, true, true);
  for (const Case& c : {forward, gradient, accumulated}) add_alone(cases, c);
  cases.push_back(forward_case(type, ragged));
  cases.push_back(backward_case(type, ragged, true, true));
  cases.push_back(not_wanted(forward, "statistics"));
  cases.push_back(not_wanted(accumulated, "d_weight"));
  cases.push_back(not_wanted(accumulated, "d_bias"));
  if (!type.one()) {
    const Setting large{"past fp16", normal({6, 64}, 2, 0x1p18), true, kDense};
    cases.push_back(forward_case(type, large));
    cases.push_back(backward_case(type, large, true, true));
    return;
  }
  cases.push_back(over(forward, "y", "x"));
  cases.push_back(over(gradient, "d_x", "d_y"));
}

}  // namespace

void add_layer_norm_cases(std::vector<Case>& cases) {
  const int64_t shapes[][2] = {{1, 3},   {3, 7},    {5, 16}, {2, 33},  {17, 64},
                               {1, 576}, {70, 100}, {0, 12}, {4, 1023}};
  for (const Streamed& type : kStreamed) {
    for (auto [rows, width] : shapes)
      for (const Layout& layout : kLayouts) {
        const Setting s{std::to_string(rows) + "x" + std::to_string(width) + " " + layout.name, normal({rows, width}, 2),
                        width % 2 == 0, layout};
        cases.push_back(forward_case(type, s));
        cases.push_back(backward_case(type, s, rows % 2 == 0, width % 3 != 1));
      }
    // More rows than one stretch of a GPU's sums, and the last one shorter.
    cases.push_back(backward_case(type, {"290x9", normal({290, 9}, 16), true, kDense}, false, true));
    // A mean of a hundred deviations, whose square would hide them.
    const Setting far{"far from zero", normal({5, 48}, 8) + 100, true, kDense};
    cases.push_back(forward_case(type, far));
    cases.push_back(
        forward_case(type, {"nan", with_bad_row(std::numeric_limits<double>::quiet_NaN()), true, kDense}));
    cases.push_back(forward_case(type, {"infinite", with_bad_row(HUGE_VAL), false, kDense}));
    // A tenth of eps: without it the row would be far larger.
    cases.push_back(forward_case(type, {"as small as eps", normal({3, 40}, 14, 1e-3), false, kDense}));
    cases.push_back(forward_case(type, {"zeros", at::zeros({2, 24}, at::kDouble), true, kDense}));
    cases.push_back(forward_case(type, {"2x33000", normal({2, 33000}, 15), true, kDense}));
    cases.push_back(backward_case(type, {"2x33000", normal({2, 33000}, 15), true, kDense}, true, true));
    for (const int64_t width : {48, 61}) {
      const Setting plus_one{"weight and one " + std::to_string(width), normal({5, width}, 2), true, kDense, true, 1},
          bare{"bare " + std::to_string(width), normal({5, width}, 2), false, kDense, false};
      for (const Setting& s : {plus_one, bare}) {
        cases.push_back(forward_case(type, s));
        cases.push_back(backward_case(type, s, true, s.weight));
      }
    }
    add_allowed_cases(type, cases);
  }
}

}  // namespace forge::kernel_test
