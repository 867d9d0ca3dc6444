#include <array>
#include <cmath>
#include <limits>

#include "kernels/rms_norm/rms_norm_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

constexpr double kEps = 1e-5;

struct Setting {
  std::string name;
  at::Tensor x;
  bool residual;
  double offset;
  Layout layout;
  int64_t heads = 1;  // of a row of x
  bool own = false;   // each head has its own weights

  // Returns the shape of the weights, which all rows of [rows, heads, width] are multiplied with.
  std::vector<int64_t> weights() const { return {own ? heads : 1, x.size(1) / heads}; }
};

// Returns h and y of the header, in float64. h is rounded to the type before it is normalised: the
// oracle receives that h.
at::Tensor normalise(const at::Tensor& h, const at::Tensor& weight, double offset) {
  at::Tensor inverse = (h.square().mean(-1, true) + kEps).rsqrt();
  return h * inverse * (weight + offset);
}

at::Tensor as_type(const at::Tensor& x, Store type) {
  return type == Store::f32
             ? x.to(at::kFloat).to(at::kDouble)
             : x.to(at::kFloat).to(type == Store::bf16 ? at::kBFloat16 : at::kHalf).to(at::kDouble);
}

// A row's sum of squares has `width` positive terms in 16 to 32 partial sums; its relative error is
// far below 8 units.
const Tolerance kOnce{.roundings = 1.01,
                      .sums = 8,
                      .reason = "one rounding; an fp32 sum over the row, a root and two products",
                      .between = 1};  // h r, before the weight multiplies it
// Longer rows have so many terms in each of the four partial sums of plain C++.
double units_of_sum(int64_t width) { return width > 4096 ? std::sqrt(static_cast<double>(width) / 4) : 8; }

// The residual's rounding may fall to the other side when a tie is broken by fp32's own rounding.
const Tolerance kAdded{.roundings = 1, .sums = 0, .reason = "one addition, rounded once"};

Case forward_case(const Streamed& types, const Setting& s) {
  const auto [type, stream] = types;
  const int64_t rows = s.x.size(0), all = s.x.size(1), heads = s.heads, width = all / heads;
  Tolerance once = kOnce;
  once.sums = units_of_sum(width);
  std::vector<Operand> operands{
      laid(input("x", s.residual ? type : stream, s.x), s.layout), input("weight", type, uniform_values(s.weights(), 5, 0.5, 1.5)),
      laid(output("y", type, {rows, all}, once), s.layout),
      output("inverse", Store::f32, {heads * rows},
             {.roundings = 4, .sums = units_of_sum(width), .reason = "fp32 sum and root"})};
  if (s.residual) {
    operands.push_back(laid(input("residual", stream, normal({rows, all}, 9)), s.layout));
    operands.push_back(laid(output("h", stream, {rows, all}, kAdded), s.layout));
  }
  double offset = s.offset;
  const Store stored = stream;
  auto oracle = [=](const Tensors& in) {
    at::Tensor h = in.at("x");
    if (in.count("residual")) h = as_type(h + in.at("residual"), stored);
    const at::Tensor each = h.reshape({rows, heads, width});
    at::Tensor y = normalise(each, in.at("weight"), offset).reshape({rows, all});
    return Tensors{{"h", h},
                   {"y", y},
                   {"y.between", y.abs()},
                   {"inverse", (each.square().mean(-1) + kEps).rsqrt().t().reshape({heads * rows})}};
  };
  const bool residual = s.residual, own = s.own;
  return make_case<RmsNormForward>("rms_norm", "forward " + s.name + " " + name_of(types), operands, oracle,
                                   [=](Pointers& p) {
                                     RmsNormForward a{element(types.type), rows, width, p["x"], p.stride("x")};
                                     if (!types.one()) a.stream_type = element(types.stream);
                                     a.heads = heads, a.head_weights = own;
                                     if (residual) {
                                       a.residual = p["residual"], a.residual_stride = p.stride("residual");
                                       a.h = p["h"], a.h_stride = p.stride("h");
                                     }
                                     a.weight = p["weight"], a.weight_offset = static_cast<float>(offset),
                                     a.eps = static_cast<float>(kEps);
                                     a.y = p["y"], a.y_stride = p.stride("y"), a.inverse = p["inverse"];
                                     return a;
                                   });
}

// d h cancels: its error is relative to the two terms that are subtracted.
Case backward_case(const Streamed& types, const Setting& s, bool accumulate, bool weight_grad, bool with_y = false) {
  const auto [type, stream] = types;
  const int64_t rows = s.x.size(0), all = s.x.size(1), heads = s.heads, width = all / heads;
  at::Tensor h = s.x,
             inverse = (as_type(h, stream).view({rows, heads, width}).square().mean(-1) + kEps).rsqrt().t().reshape({heads * rows});
  Tolerance exact{.roundings = 1.01,
                  .sums = 2 * units_of_sum(width),
                  .reason = "one rounding; two fp32 terms with sums over the row",
                  .between = 2};  // g; the gradient before it is added
  at::Tensor incoming = normal({rows, all}, 12);
  std::vector<Operand> operands{
      laid(input("d_y", type, normal({rows, all}, 11)), s.layout), laid(input("h", stream, h), s.layout),
      input("weight", type, uniform_values(s.weights(), 5, 0.5, 1.5)), input("inverse", Store::f32, inverse),
      laid(accumulate ? in_out("d_h", stream, incoming, exact) : output("d_h", stream, {rows, all}, exact),
           s.layout)};
  if (weight_grad)
    operands.push_back(in_out("d_weight", Store::f32, normal(s.weights(), 13),
                              {.roundings = 1,
                               .sums = 16,
                               .reason = "an fp32 sum over the rows in parts of 32",
                               .between = 3}));  // h r, its products with d y, their sum
  if (with_y) operands.push_back(laid(output("y", type, {rows, all}, kOnce), s.layout));
  const double offset = s.offset;
  const bool own = s.own;
  auto oracle = [=](const Tensors& in) {
    const auto each = [=](const at::Tensor& x) { return x.reshape({rows, heads, width}); };
    Tensors leaves{{"h", in.at("h")}, {"weight", in.at("weight")}};
    Forward forward = [=](const Tensors& v) {
      return Tensors{{"y", normalise(each(v.at("h")), v.at("weight"), offset).reshape({rows, all})}};
    };
    Tensors grads = gradients(forward, leaves, {"h", "weight"}, {{"y", in.at("d_y")}});
    const at::Tensor h = each(in.at("h")), d_y = each(in.at("d_y")), g = d_y * (in.at("weight") + offset),
                     r = in.at("inverse").view({heads, rows}).t().unsqueeze(2);
    at::Tensor before = accumulate ? in.at("d_h") : at::zeros_like(in.at("h"));
    Tensors out{{"d_h", grads.at("h") + before}};
    out["y"] = (h * r * (in.at("weight") + offset)).reshape({rows, all});
    out["y.between"] = out["y"].abs();
    at::Tensor second = (h * r * (g * h * r).abs().mean(-1, true)).abs();
    out["d_h.size"] = (r * (g.abs() + second)).reshape({rows, all}) + before.abs();
    if (weight_grad) {
      out["d_weight"] = in.at("d_weight") + grads.at("weight");
      out["d_weight.size"] = in.at("d_weight").abs() + (own ? (d_y * h * r).abs().sum(0) : (d_y * h * r).abs().sum(at::IntArrayRef{0, 1}).unsqueeze(0));
    }
    return out;
  };
  return make_case<RmsNormBackward>(
      "rms_norm",
      "backward " + s.name + (accumulate ? " accumulate" : "") + (with_y ? " y" : "") + (weight_grad ? " weight " : " ") +
          name_of(types),
      operands, oracle, [=](Pointers& p) {
        RmsNormBackward a{element(types.type), rows, width, p["d_y"], p.stride("d_y"), p["h"], p.stride("h")};
        a.heads = heads, a.head_weights = own;
        a.weight = p["weight"], a.weight_offset = static_cast<float>(offset), a.inverse = p["inverse"];
        a.d_h = p["d_h"], a.d_h_stride = p.stride("d_h"), a.accumulate = accumulate;
        if (weight_grad) a.d_weight = p["d_weight"];
        if (with_y) a.y = p["y"], a.y_stride = p.stride("y");
        if (!types.one()) a.stream_type = element(types.stream);
        return a;
      });
}

at::Tensor with_bad_row(double bad) {
  at::Tensor x = normal({3, 20}, 21);
  x[1][7] = bad;
  return x;
}

// These cases share memory between operands that may overlap, leave out operands that may be null,
// and keep each operand apart from the others.
void add_allowed_cases(const Streamed& type, std::vector<Case>& cases) {
  const at::Tensor x = normal({6, 64}, 2);
  const Case alone = forward_case(type, {"6x64", x, false, 1, kDense}),
             added = forward_case(type, {"6x64 residual", x, true, 1, kDense}),
             gradient = backward_case(type, {"6x64", x, false, 1, kDense}, false, false),
             accumulated = backward_case(type, {"6x64", x, false, 1, kDense}, true, true),
             again = backward_case(type, {"6x64", x, false, 1, kDense}, true, true, true);
  for (const Case& c : {alone, added, gradient, accumulated, again}) add_alone(cases, c);
  cases.push_back(over(again, "y", "d_y"));
  // More rows than the weight's gradient takes at once.
  cases.push_back(backward_case(type, {"70x48", normal({70, 48}, 2), false, 1, kDense}, false, true));
  // More rows than one stretch of a GPU's sums, and the last one shorter.
  cases.push_back(backward_case(type, {"145x2x9", normal({145, 18}, 2), false, 1, kDense, 2}, false, true));
  const at::Tensor ragged = normal({4, 61}, 2);
  cases.push_back(forward_case(type, {"4x61", ragged, true, 0, kRagged}));
  cases.push_back(backward_case(type, {"4x61", ragged, false, 0, kRagged}, true, true));
  // Norms of q and k: every head by itself.
  for (auto [rows, heads, width] : {std::array<int64_t, 3>{5, 3, 16}, {9, 2, 7}, {1, 4, 64}, {1, 130, 4}})
    for (const Layout& layout : kLayouts) {
      const Setting each{std::to_string(rows) + "x" + std::to_string(heads) + "x" + std::to_string(width) + " " + layout.name,
                         normal({rows, heads * width}, 2), false, 0, layout, heads};
      cases.push_back(forward_case(type, each));
      cases.push_back(backward_case(type, each, rows == 9, width != 64, true));
      if (rows == 5 && type.one()) cases.push_back(over(forward_case(type, each), "y", "x"));
    }
  // Parts of a state space's result: every part by its own weights.
  for (auto [rows, heads, width] : {std::array<int64_t, 3>{5, 3, 16}, {40, 2, 7}, {1, 130, 4}}) {
    const Setting own{std::to_string(rows) + "x" + std::to_string(heads) + "x" + std::to_string(width) + " own weights",
                      normal({rows, heads * width}, 2), false, 0, kDense, heads, true};
    cases.push_back(forward_case(type, own));
    cases.back().only = "cpu/";
    cases.push_back(backward_case(type, own, rows == 5, true, true));
    cases.back().only = "cpu/";
  }
  cases.push_back(not_wanted(alone, "inverse"));
  cases.push_back(not_wanted(added, "inverse"));
  if (!type.one()) {
    cases.push_back(over(added, "h", "residual"));
    // A stream past fp16's range.
    const Setting large{"past fp16", x * 0x1p18, false, 1, kDense};
    cases.push_back(forward_case(type, large));
    cases.push_back(backward_case(type, large, true, true, true));
    return;
  }
  cases.push_back(over(alone, "y", "x"));
  for (const char* under : {"x", "residual"}) {
    cases.push_back(over(added, "h", under));
    cases.push_back(over(added, "y", under));
  }
  cases.push_back(over(over(added, "h", "x"), "y", "residual"));
  cases.push_back(over(over(added, "h", "residual"), "y", "x"));
  cases.push_back(over(gradient, "d_h", "d_y"));
}

// Rows are longer than a GPU's block holds in registers, in accesses of 16 bytes and of one
// element.
void add_long_rows(const Streamed& type, std::vector<Case>& cases) {
  for (auto [width, layout] : {std::pair{int64_t{33000}, kDense}, {5000, kLayouts[2]}, {4100, kLayouts[1]}}) {
    const at::Tensor x = normal({2, width}, 15);
    const std::string name = "2x" + std::to_string(width) + " " + layout.name;
    const Case added = forward_case(type, {name + " residual", x, true, 0, layout});
    cases.push_back(forward_case(type, {name, x, false, 0, layout}));
    cases.push_back(added);
    cases.push_back(over(added, "h", type.one() ? "x" : "residual"));
    cases.push_back(backward_case(type, {name, x, false, 0, layout}, true, true, true));
    cases.push_back(over(cases.back(), "y", "d_y"));
    cases.push_back(backward_case(type, {name, x, false, 0, layout}, false, false));
  }
}

// Results have 24 MiB and more: a CPU stores such a result past its caches.
void add_past_the_caches(const Streamed& type, std::vector<Case>& cases) {
  const int64_t width = 1024, rows = (int64_t{24} << 20) / (width * bytes_of(element(type.type)));
  const at::Tensor x = normal({64, width}, 16).repeat({rows / 64, 1});
  Case c = forward_case(type, {std::to_string(rows) + "x1024", x, false, 0, kDense});
  c.only = "cpu/";
  cases.push_back(c);
}

}  // namespace

void add_rms_norm_cases(std::vector<Case>& cases) {
  const int64_t shapes[][2] = {{1, 1},   {3, 7},    {5, 16}, {2, 33},  {17, 64},
                               {1, 576}, {70, 100}, {0, 12}, {4, 1023}};
  for (const Streamed& type : kStreamed) {
    for (auto [rows, width] : shapes)
      for (const Layout& layout : kLayouts) {
        std::string name = std::to_string(rows) + "x" + std::to_string(width) + " " + layout.name;
        at::Tensor x = normal({rows, width}, 2);
        bool gemma = width % 2 == 0;
        cases.push_back(forward_case(type, {name, x, false, 0.0, layout}));
        cases.push_back(forward_case(type, {name + " residual", x, true, gemma ? 1.0 : 0.0, layout}));
        cases.push_back(
            backward_case(type, {name, x, false, gemma ? 1.0 : 0.0, layout}, rows % 2 == 0, width % 3 != 1));
      }
    cases.push_back(forward_case(type, {"extreme", extreme({12, 48}, 8), false, 0, kDense}));
    cases.push_back(backward_case(type, {"extreme", extreme({12, 48}, 8), false, 0, kDense}, true, false));
    cases.push_back(
        forward_case(type, {"nan", with_bad_row(std::numeric_limits<double>::quiet_NaN()), true, 0, kDense}));
    cases.push_back(forward_case(type, {"infinite", with_bad_row(HUGE_VAL), false, 0, kDense}));
    // A tenth of eps: without it the row would be far larger.
    cases.push_back(forward_case(type, {"as small as eps", normal({3, 40}, 14, 1e-3), false, 0, kDense}));
    cases.push_back(forward_case(type, {"zeros", at::zeros({2, 24}, at::kDouble), true, 0, kDense}));
    add_allowed_cases(type, cases);
    add_long_rows(type, cases);
    add_past_the_caches(type, cases);
  }
}

}  // namespace forge::kernel_test
