#include <array>

#include "kernels/dora/dora_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

std::string title(const std::string& direction, int64_t rows, int64_t width, const Layout& layout,
                  Store type) {
  return direction + " " + std::to_string(rows) + "x" + std::to_string(width) + " " + layout.name + " " +
         name_of(type);
}

Case forward_case(Store type, int64_t rows, int64_t width, const Layout& layout, bool biased) {
  const Tolerance tolerance{
      .roundings = 1.01, .sums = 2, .reason = "one product and one sum in fp32, one rounding"};
  std::vector<Operand> operands{laid(input("x", type, normal({rows, width}, 1)), layout),
                                input("ratio", Store::f32, normal({width}, 2)),
                                laid(output("y", type, {rows, width}, tolerance), layout)};
  if (biased) operands.push_back(input("bias", type, normal({width}, 3)));
  return make_case<DoraForward>(
      "dora", title(biased ? "forward with bias" : "forward", rows, width, layout, type), operands,
      [=](const Tensors& in) {
        at::Tensor scaled = in.at("x") * in.at("ratio");
        return Tensors{{"y", biased ? scaled + in.at("bias") : scaled},
                       {"y.size", biased ? scaled.abs() + in.at("bias").abs() : scaled.abs()}};
      },
      [=](Pointers& p) {
        DoraForward a{element(type), rows, width, p["x"], p.stride("x"), p["ratio"]};
        if (biased) a.bias = p["bias"];
        a.y = p["y"], a.y_stride = p.stride("y");
        return a;
      });
}

Case backward_case(Store type, int64_t rows, int64_t width, const Layout& layout) {
  std::vector<Operand> operands{
      laid(input("x", type, normal({rows, width}, 1)), layout),
      input("ratio", Store::f32, normal({width}, 2)),
      input("inverse_norm", Store::f32, normal({width}, 4).abs()),
      laid(input("d_y", type, normal({rows, width}, 5)), layout),
      laid(output("d_x", type, {rows, width}, {.roundings = 1.01, .sums = 1, .reason = "one product"}),
           layout),
      in_out("d_magnitude", Store::f32, normal({width}, 6),
             {.roundings = 1,
              .sums = 4 + static_cast<double>(rows),
              .reason = "an fp32 sum over the rows, one after the other"})};
  auto oracle = [](const Tensors& in) {
    const at::Tensor norm = 1 / in.at("inverse_norm");
    Forward forward = [&](const Tensors& v) {
      return Tensors{{"y", v.at("x") * (v.at("magnitude") / norm)}};
    };
    Tensors grad = gradients(forward, {{"x", in.at("x")}, {"magnitude", in.at("ratio") * norm}},
                             {"x", "magnitude"}, {{"y", in.at("d_y")}});
    const at::Tensor size =
        (in.at("d_y") * in.at("x")).abs().sum(0) * in.at("inverse_norm") + in.at("d_magnitude").abs();
    return Tensors{{"d_x", grad.at("x")},
                   {"d_magnitude", in.at("d_magnitude") + grad.at("magnitude")},
                   {"d_magnitude.size", size}};
  };
  return make_case<DoraBackward>(
      "dora", title("backward", rows, width, layout, type), operands, oracle, [=](Pointers& p) {
        return DoraBackward{
            element(type),     rows,     width,           p["x"],   p.stride("x"),   p["ratio"],
            p["inverse_norm"], p["d_y"], p.stride("d_y"), p["d_x"], p.stride("d_x"), p["d_magnitude"]};
      });
}

Case ratio_case(Store type, int64_t out, int64_t in, int64_t rank) {
  constexpr float kScale = 0.75f;
  const Tolerance tolerance{
      .roundings = 2, .sums = 8 + static_cast<double>(in + rank) / 16, .reason = "an fp32 sum of squares, a root and a quotient"};
  return make_case<DoraRatio>(
      "dora",
      "ratio " + std::to_string(out) + "x" + std::to_string(in) + " rank " + std::to_string(rank) + " " + name_of(type),
      {input("weight", type, normal({out, in}, 1)), input("a", type, normal({rank, in}, 2)),
       input("b", type, normal({out, rank}, 3)), input("magnitude", type, normal({out}, 4)),
       output("ratio", Store::f32, {out}, tolerance), output("inverse_norm", Store::f32, {out}, tolerance)},
      [=](const Tensors& v) {
        const at::Tensor norm = (v.at("weight") + static_cast<double>(kScale) * v.at("b").mm(v.at("a"))).square().sum(1).sqrt();
        return Tensors{{"ratio", v.at("magnitude") / norm}, {"inverse_norm", 1 / norm}};
      },
      [=](Pointers& p) {
        return DoraRatio{element(type), out,    in,     rank,           kScale,     p["weight"],
                         p["a"],        p["b"], p["magnitude"], p["ratio"], p["inverse_norm"]};
      });
}

}  // namespace

void add_dora_cases(std::vector<Case>& cases) {
  const int64_t shapes[][2] = {{1, 1}, {3, 7}, {2, 16}, {40, 33}, {9, 130}, {1, 1536}, {0, 5}};
  for (Store type : kFloats)
    for (auto [rows, width] : shapes)
      for (const Layout& layout : kLayouts) {
        for (bool biased : {false, true}) cases.push_back(forward_case(type, rows, width, layout, biased));
        cases.push_back(backward_case(type, rows, width, layout));
      }
  for (Store type : kFloats) {
    const Case forward = forward_case(type, 6, 48, kDense, true),
               backward = backward_case(type, 6, 48, kDense);
    add_alone(cases, forward);
    add_alone(cases, backward);
    cases.push_back(over(forward, "y", "x"));
    cases.push_back(over(backward, "d_x", "d_y"));
    cases.push_back(forward_case(type, 4, 61, kRagged, true));
  }
  for (Store type : kFloats)
    for (auto [out, in, rank] : {std::array<int64_t, 3>{1, 1, 1}, {5, 33, 3}, {70, 40, 8}, {3, 600, 16}})
      cases.push_back(ratio_case(type, out, in, rank));
  // More columns than a few blocks hold, and more rows than a grid is high.
  cases.push_back(backward_case(Store::f32, 9, 4200, kDense));
  cases.push_back(forward_case(Store::f32, kPastGrid, 1, kDense, true));
}

}  // namespace forge::kernel_test
