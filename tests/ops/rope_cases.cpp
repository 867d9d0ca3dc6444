#include <limits>

#include "kernels/rope/rope_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  int64_t tokens, heads, kv_heads, head_dim, rotary_dim;
};

// Rotates x [tokens, heads, head_dim] by tables [tokens, rotary / 2].
at::Tensor turned(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, RopeLayout layout) {
  int64_t half = cosine.size(1), dim = x.size(2);
  at::Tensor c = cosine.unsqueeze(1), s = sine.unsqueeze(1), rest = x.narrow(2, 2 * half, dim - 2 * half);
  if (layout == RopeLayout::half_split) {
    at::Tensor a = x.narrow(2, 0, half), b = x.narrow(2, half, half);
    return at::cat({a * c - b * s, b * c + a * s, rest}, 2);
  }
  at::Tensor pairs = x.narrow(2, 0, 2 * half).reshape({x.size(0), x.size(1), half, 2});
  at::Tensor a = pairs.select(3, 0), b = pairs.select(3, 1);
  at::Tensor both = at::stack({a * c - b * s, b * c + a * s}, 3);
  return at::cat({both.reshape({x.size(0), x.size(1), 2 * half}), rest}, 2);
}

Case rope_case(Store type, RopeLayout layout, bool backward, const Setting& s, const Layout& lay,
               bool positions, at::Tensor qkv = {}) {
  int64_t turning = (s.heads + s.kv_heads) * s.head_dim, width = turning + s.kv_heads * s.head_dim,
          half = s.rotary_dim / 2;
  constexpr int64_t kTable = 9;
  int64_t table = positions ? kTable : s.tokens;
  at::Tensor angles = uniform_values({table, half}, 3, -7, 7);
  if (!qkv.defined()) qkv = normal({s.tokens, width}, 2);
  Tolerance once{.roundings = 1.01,
                 .sums = 3,
                 .reason = "one rounding; two fp32 products and their sum",
                 .between = 2};  // cosine and sine; the products
  std::vector<Operand> operands{laid(in_out("qkv", type, qkv, once), lay),
                                input("cosine", Store::f32, angles.cos()),
                                input("sine", Store::f32, angles.sin())};
  if (positions)
    operands.push_back(
        input("positions", Store::i32, at::arange(s.tokens, at::kLong).mul(4).remainder(kTable)));
  auto oracle = [=](const Tensors& in) {
    at::Tensor row = positions ? in.at("positions") : at::arange(s.tokens, at::kLong);
    at::Tensor c = in.at("cosine").index_select(0, row), sn = in.at("sine").index_select(0, row);
    at::Tensor x = in.at("qkv").narrow(1, 0, turning).reshape({s.tokens, s.heads + s.kv_heads, s.head_dim});
    Forward forward = [&](const Tensors& v) { return Tensors{{"y", turned(v.at("x"), c, sn, layout)}}; };
    at::Tensor y = backward ? gradients(forward, {{"x", at::ones_like(x)}}, {"x"}, {{"y", x}}).at("x")
                            : forward({{"x", x}}).at("y");
    // The terms' size is |a c| + |b s|: rotated by −|s| in the first of a pair and by |s| in the
    // second.
    at::Tensor terms =
        at::max(turned(x.abs(), c.abs(), sn.abs(), layout), turned(x.abs(), c.abs(), -sn.abs(), layout));
    at::Tensor rest = in.at("qkv").narrow(1, turning, width - turning);
    return Tensors{{"qkv", at::cat({y.reshape({s.tokens, turning}), rest}, 1)},
                   {"qkv.between", at::cat({terms.reshape({s.tokens, turning}), at::zeros_like(rest)}, 1)}};
  };
  std::string name = std::string(backward ? "backward " : "forward ") + std::to_string(s.tokens) + "x" +
                     std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + "x" +
                     std::to_string(s.head_dim) + " rotary " + std::to_string(s.rotary_dim) + " " +
                     (layout == RopeLayout::half_split ? "half-split " : "interleaved ") + lay.name +
                     (positions ? " positions " : " ") + name_of(type);
  return make_case<Rope>("rope", name, operands, oracle, [=](Pointers& p) {
    Rope a{element(type), layout,       backward, s.tokens,        s.heads,     s.kv_heads,
           s.head_dim,    s.rotary_dim, p["qkv"], p.stride("qkv"), p["cosine"], p["sine"]};
    if (positions) a.positions = p["positions"];
    return a;
  });
}

}  // namespace

void add_rope_cases(std::vector<Case>& cases) {
  const Setting settings[] = {{1, 1, 1, 2, 2},
                              {5, 3, 1, 64, 64},
                              {7, 4, 2, 20, 20},
                              {3, 2, 2, 80, 32},
                              {12, 9, 3, 64, 64},
                              {0, 2, 1, 8, 8},
                              {2, 4, 1, 128, 128},
                              {3, 1, 1, 34, 14},
                              // Rows begin at 16 bytes, their halves or heads do not.
                              {2, 2, 1, 40, 20},
                              {3, 2, 1, 20, 16}};
  for (Store type : kFloats)
    for (RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved})
      for (bool backward : {false, true}) {
        for (const Setting& setting : settings)
          for (const Layout& lay : kLayouts)
            cases.push_back(rope_case(type, layout, backward, setting, lay, setting.tokens % 2 == 1));
        at::Tensor bad = normal({3, 64}, 4);
        bad[1][5] = std::numeric_limits<double>::quiet_NaN();
        bad[2][9] = HUGE_VAL;
        bad[0].mul_(1000);
        cases.push_back(rope_case(type, layout, backward, {3, 2, 1, 16, 16}, kDense, true, bad));
        add_alone(cases, rope_case(type, layout, backward, {3, 2, 1, 32, 32}, kDense, true));
      }
}

}  // namespace forge::kernel_test
