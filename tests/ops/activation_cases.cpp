#include <limits>

#include "kernels/activation/activation_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

at::Tensor activate(const at::Tensor& x, Activation function) {
  return at::gelu(x, function == Activation::gelu ? "none" : "tanh");
}

// Φ and tanh have an absolute error of 1e-7, whatever the value itself is.
const Tolerance kOnce{.roundings = 1.01, .sums = 24, .reason = "one rounding; Φ or tanh to an absolute 1e-7", .between = 1};

std::string title(const std::string& name, Activation function, Store type) {
  return name + (function == Activation::gelu ? " gelu " : " gelu by tanh ") + name_of(type);
}

Case forward_case(Store type, Activation function, const std::string& name, const at::Tensor& x, const Layout& layout) {
  const int64_t rows = x.size(0), width = x.size(1);
  auto oracle = [=](const Tensors& in) {
    return Tensors{{"y", activate(in.at("x"), function)}, {"y.size", in.at("x").abs()}};
  };
  return make_case<ActivationForward>(
      "activation", title("forward " + name, function, type),
      {laid(input("x", type, x), layout), laid(output("y", type, {rows, width}, kOnce), layout)}, oracle,
      [=](Pointers& p) {
        return ActivationForward{element(type), function, rows, width, p["x"], p.stride("x"), p["y"], p.stride("y")};
      });
}

Case backward_case(Store type, Activation function, const std::string& name, const at::Tensor& x, const Layout& layout) {
  const int64_t rows = x.size(0), width = x.size(1);
  auto oracle = [=](const Tensors& in) {
    Forward forward = [=](const Tensors& v) { return Tensors{{"y", activate(v.at("x"), function)}}; };
    Tensors grads = gradients(forward, {{"x", in.at("x")}}, {"x"}, {{"y", in.at("d_y")}});
    return Tensors{{"d_x", grads.at("x")}, {"d_x.size", in.at("d_y").abs() * (1 + in.at("x").abs().clamp_max(12))}};
  };
  return make_case<ActivationBackward>(
      "activation", title("backward " + name, function, type),
      {laid(input("d_y", type, normal({rows, width}, 6)), layout), laid(input("x", type, x), layout),
       laid(output("d_x", type, {rows, width}, kOnce), layout)},
      oracle, [=](Pointers& p) {
        return ActivationBackward{element(type),    function, rows,          width,   p["d_y"],
                                  p.stride("d_y"), p["x"],   p.stride("x"), p["d_x"], p.stride("d_x")};
      });
}

void add_allowed_cases(Store type, Activation function, std::vector<Case>& cases) {
  const at::Tensor x = normal({4, 48}, 3, 3), ragged = normal({4, 61}, 3, 3);
  const Case forward = forward_case(type, function, "4x48", x, kDense),
             backward = backward_case(type, function, "4x48", x, kDense);
  add_alone(cases, forward);
  add_alone(cases, backward);
  cases.push_back(forward_case(type, function, "4x61", ragged, kRagged));
  cases.push_back(backward_case(type, function, "4x61", ragged, kRagged));
  cases.push_back(over(forward, "y", "x"));
  cases.push_back(over(backward, "d_x", "x"));
  cases.push_back(over(backward, "d_x", "d_y"));
}

}  // namespace

void add_activation_cases(std::vector<Case>& cases) {
  // There are more rows than a grid is high.
  cases.push_back(forward_case(Store::f32, Activation::gelu_tanh, "65600x1", normal({65600, 1}, 9), kDense));
  cases.push_back(backward_case(Store::f32, Activation::gelu_tanh, "65600x1", normal({65600, 1}, 9), kDense));
  const int64_t shapes[][2] = {{1, 1}, {3, 7}, {2, 16}, {5, 33}, {9, 130}, {1, 1536}, {0, 5}};
  for (Store type : kFloats)
    for (Activation function : {Activation::gelu, Activation::gelu_tanh}) {
      for (auto [rows, width] : shapes)
        for (const Layout& layout : kLayouts) {
          const std::string name = std::to_string(rows) + "x" + std::to_string(width) + " " + layout.name;
          const at::Tensor x = normal({rows, width}, 3, 3);
          cases.push_back(forward_case(type, function, name, x, layout));
          cases.push_back(backward_case(type, function, name, x, layout));
        }
      // The sweep reaches from values where f is 0 to values where it is x.
      const at::Tensor sweep = at::linspace(-120, 120, 482, at::kDouble).view({2, 241});
      cases.push_back(forward_case(type, function, "sweep", sweep, kDense));
      cases.push_back(backward_case(type, function, "sweep", sweep, kDense));
      at::Tensor bad = normal({2, 20}, 7);
      bad[1][3] = std::numeric_limits<double>::quiet_NaN();
      cases.push_back(forward_case(type, function, "not a number", bad, kDense));
      at::Tensor infinite = normal({2, 20}, 7);
      infinite[0][2] = HUGE_VAL;
      cases.push_back(forward_case(type, function, "infinite", infinite, kDense));
      cases.push_back(cases.back());  // LibTorch's gelu of infinity is not a number
      cases[cases.size() - 2].only = "cpu/", cases.back().only = "emulated/";
      add_allowed_cases(type, function, cases);
    }
}

}  // namespace forge::kernel_test
