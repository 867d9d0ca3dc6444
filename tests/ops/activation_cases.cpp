#include <limits>

#include "kernels/activation/activation_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

constexpr float kLimit = 1.5f;  // of clamp: a number of every type, so that some inputs are it

at::Tensor activate(const at::Tensor& x, Activation function) {
  if (function == Activation::relu2) return x.clamp_min(0).square();
  if (function == Activation::clamp) return x.clamp(-kLimit, kLimit);
  return at::gelu(x, function == Activation::gelu ? "none" : "tanh");
}

// Φ and tanh have an absolute error of 1e-7, whatever the value itself is.
const Tolerance kOnce{.roundings = 1.01, .sums = 24, .reason = "one rounding; Φ or tanh to an absolute 1e-7", .between = 1};

std::string title(const std::string& name, Activation function, Store type) {
  constexpr const char* kNames[] = {" gelu ", " gelu by tanh ", " relu2 ", " clamp "};
  return name + kNames[static_cast<size_t>(function)] + name_of(type);
}

Case forward_case(Store type, Activation function, const std::string& name, const at::Tensor& x, const Layout& layout) {
  const int64_t rows = x.size(0), width = x.size(1);
  auto oracle = [=](const Tensors& in) {
    const at::Tensor y = activate(in.at("x"), function), size = in.at("x").abs();
    return Tensors{{"y", y}, {"y.size", function == Activation::relu2 ? size.square() : function == Activation::clamp ? y.abs() : size}};
  };
  return make_case<ActivationForward>(
      "activation", title("forward " + name, function, type),
      {laid(input("x", type, x), layout), laid(output("y", type, {rows, width}, kOnce), layout)}, oracle,
      [=](Pointers& p) {
        return ActivationForward{element(type), function,      rows,   width,         p["x"],
                                 p.stride("x"), p["y"], p.stride("y"), kLimit};
      });
}

Case backward_case(Store type, Activation function, const std::string& name, const at::Tensor& x, const Layout& layout) {
  const int64_t rows = x.size(0), width = x.size(1);
  auto oracle = [=](const Tensors& in) {
    // Differences find no slope at a bound.
    if (function == Activation::clamp) {
      const at::Tensor d_x = in.at("d_y") * in.at("x").abs().le(kLimit);
      return Tensors{{"d_x", d_x}, {"d_x.size", d_x.abs()}};
    }
    Forward forward = [=](const Tensors& v) { return Tensors{{"y", activate(v.at("x"), function)}}; };
    Tensors grads = gradients(forward, {{"x", in.at("x")}}, {"x"}, {{"y", in.at("d_y")}});
    const at::Tensor size = in.at("x").abs(), slope = function == Activation::relu2 ? 2 * size : 1 + size.clamp_max(12);
    return Tensors{{"d_x", grads.at("x")}, {"d_x.size", in.at("d_y").abs() * slope}};
  };
  return make_case<ActivationBackward>(
      "activation", title("backward " + name, function, type),
      {laid(input("d_y", type, normal({rows, width}, 6)), layout), laid(input("x", type, x), layout),
       laid(output("d_x", type, {rows, width}, kOnce), layout)},
      oracle, [=](Pointers& p) {
        return ActivationBackward{element(type), function,      rows,     width,           p["d_y"], p.stride("d_y"),
                                  p["x"],        p.stride("x"), p["d_x"], p.stride("d_x"), kLimit};
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
    for (Activation function : {Activation::gelu, Activation::gelu_tanh, Activation::relu2, Activation::clamp}) {
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
  const at::Tensor bounds = at::tensor({-2.0, -1.5, -1.25, 0.0, 1.25, 1.5, 1.75}, at::kDouble).view({1, 7});
  for (Store type : kFloats)
    for (Activation function : {Activation::relu2, Activation::clamp}) {
      cases.push_back(forward_case(type, function, "bounds", bounds, kDense));
      cases.push_back(backward_case(type, function, "bounds", bounds, kDense));
    }
}

}  // namespace forge::kernel_test
