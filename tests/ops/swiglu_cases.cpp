#include <limits>

#include "kernels/swiglu/swiglu_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

at::Tensor activate(const at::Tensor& x, GateFunction function) {
  if (function == GateFunction::sigmoid) return at::sigmoid(x);
  if (function == GateFunction::product) return x;
  return function == GateFunction::silu ? at::silu(x) : at::gelu(x, "tanh");
}

// The size of what an activation is a part of: of x, or of 1.
at::Tensor reach(const at::Tensor& gate, GateFunction function) { return function == GateFunction::sigmoid ? at::ones_like(gate) : gate; }

// gelu's tanh is 1 − 2 / (e²ᵘ + 1): an absolute 1e-7 of the gate times up, whatever the value
// itself is.
Tolerance tolerance(GateFunction function) {
  return function != GateFunction::gelu_tanh
             ? Tolerance{.roundings = 1.01,
                         .sums = 12,
                         .reason = "one rounding; exp to 2 units and a few products",
                         .between = 1}  // f(gate), or d y · up
             : Tolerance{.roundings = 1.01,
                         .sums = 24,
                         .reason = "one rounding; tanh from exp to an absolute 1e-7",
                         .between = 1};
}

std::string title(const std::string& name, GateFunction function, Store type) {
  const char* const names[] = {" silu ", " gelu ", " sigmoid ", " product "};
  return name + names[static_cast<size_t>(function)] + name_of(type);
}

Case forward_case(Store type, GateFunction function, const std::string& name, const at::Tensor& gate,
                  const Layout& layout) {
  int64_t rows = gate.size(0), width = gate.size(1);
  auto oracle = [=](const Tensors& in) {
    at::Tensor y = activate(in.at("gate"), function) * in.at("up");
    // Below its smallest normal number a type has the rounding error of that number.
    const double normal_from = type == Store::f16 ? 0x1p-14 : 0x1p-126;
    at::Tensor activated = activate(in.at("gate"), function).abs().clamp_min(normal_from);
    return Tensors{{"y", y},
                   {"y.size", (reach(in.at("gate"), function) * in.at("up")).abs()},
                   {"y.between", activated * in.at("up").abs()}};
  };
  return make_case<SwigluForward>(
      "swiglu", title("forward " + name, function, type),
      {laid(input("gate", type, gate), layout), laid(input("up", type, normal({rows, width}, 4)), layout),
       laid(output("y", type, {rows, width}, tolerance(function)), layout)},
      oracle, [=](Pointers& p) {
        return SwigluForward{element(type),    function, rows,           width,  p["gate"],
                             p.stride("gate"), p["up"],  p.stride("up"), p["y"], p.stride("y")};
      });
}

Case backward_case(Store type, GateFunction function, const std::string& name, const at::Tensor& gate,
                   const Layout& layout, bool with_y) {
  int64_t rows = gate.size(0), width = gate.size(1);
  std::vector<Operand> operands{
      laid(input("d_y", type, normal({rows, width}, 6)), layout),
      laid(in_out("gate", type, gate, tolerance(function)), layout),
      laid(in_out("up", type, normal({rows, width}, 4), tolerance(function)), layout)};
  if (with_y) operands.push_back(laid(output("y", type, {rows, width}, tolerance(function)), layout));
  auto oracle = [=](const Tensors& in) {
    Forward forward = [=](const Tensors& v) {
      return Tensors{{"y", activate(v.at("gate"), function) * v.at("up")}};
    };
    Tensors values{{"gate", in.at("gate")}, {"up", in.at("up")}};
    Tensors out = gradients(forward, values, {"gate", "up"}, {{"y", in.at("d_y")}});
    out["y"] = forward(values).at("y");
    for (const char* name : {"gate", "up", "y"}) out[name + std::string(".between")] = out.at(name).abs();
    out["gate.size"] = (in.at("d_y") * in.at("up")).abs() * (1 + in.at("gate").abs().clamp_max(12));
    out["up.size"] = (in.at("d_y") * reach(in.at("gate"), function)).abs();
    out["y.size"] = (in.at("up") * reach(in.at("gate"), function)).abs();
    return out;
  };
  return make_case<SwigluBackward>(
      "swiglu", title("backward " + name + (with_y ? " y" : ""), function, type), operands, oracle,
      [=](Pointers& p) {
        SwigluBackward a{element(type), function,         rows,    width,         p["d_y"], p.stride("d_y"),
                         p["gate"],     p.stride("gate"), p["up"], p.stride("up")};
        if (with_y) a.y = p["y"], a.y_stride = p.stride("y");
        return a;
      });
}

// Makes both gradients in places of their own.
Case apart_case(Store type, GateFunction function, int64_t rows, int64_t width, const Layout& layout) {
  Case c = backward_case(type, function, std::to_string(rows) + "x" + std::to_string(width) + " apart " + layout.name, normal({rows, width}, 3, 3), layout, true);
  for (Operand& operand : c.operands)
    if (operand.name == "up" || operand.name == "gate") operand.role = Role::in;
  for (const char* name : {"d_gate", "d_up"}) c.operands.push_back(laid(output(name, type, {rows, width}, tolerance(function)), layout));
  const auto oracle = c.oracle;
  c.oracle = [oracle](const Tensors& in) {
    Tensors out = oracle(in);
    for (const std::string name : {"gate", "up"})
      for (const char* part : {"", ".size", ".between"}) out["d_" + name + part] = out.at(name + part), out.erase(name + part);
    return out;
  };
  const std::function<SwigluBackward(Pointers&)> arguments = [=](Pointers& p) {
    SwigluBackward a{element(type), function,         rows,    width,         p["d_y"], p.stride("d_y"),
                     p["gate"],     p.stride("gate"), p["up"], p.stride("up"), p["y"],  p.stride("y"),
                     p["d_gate"],   p.stride("d_gate"), p["d_up"], p.stride("d_up")};
    return a;
  };
  return make_case<SwigluBackward>(c.op, c.name, c.operands, c.oracle, arguments);
}

// These cases share memory between operands that may overlap, and keep each operand apart from the
// others.
void add_allowed_cases(Store type, GateFunction function, std::vector<Case>& cases) {
  const at::Tensor gate = normal({4, 48}, 3, 3);
  const Case forward = forward_case(type, function, "4x48", gate, kDense),
             backward = backward_case(type, function, "4x48", gate, kDense, true);
  add_alone(cases, forward);
  add_alone(cases, backward);
  add_alone(cases, apart_case(type, function, 4, 48, kDense));
  const at::Tensor ragged = normal({4, 61}, 3, 3);
  cases.push_back(forward_case(type, function, "4x61", ragged, kRagged));
  cases.push_back(backward_case(type, function, "4x61", ragged, kRagged, true));
  cases.push_back(over(forward, "y", "gate"));
  cases.push_back(over(forward, "y", "up"));
  cases.push_back(over(backward, "y", "d_y"));
}

// Results have 24 MiB and more: a CPU stores such a result past its caches.
void add_past_the_caches(Store type, GateFunction function, std::vector<Case>& cases) {
  const int64_t rows = (int64_t{24} << 20) / (1024 * bytes_of(element(type)));
  const auto large = [&](int64_t count, int64_t width, int64_t row_gap, const char* name) {
    const at::Tensor gate = normal({64, width}, 8, 3).repeat({count / 64 + 1, 1}).narrow(0, 0, count);
    Case c = forward_case(type, function, std::to_string(count) + "x" + std::to_string(width) + name, gate, kDense);
    c.only = "cpu/";
    for (Operand& operand : c.operands) operand.row_gap = row_gap;
    return c;
  };
  cases.push_back(large(rows, 1024, 0, ""));
  if (type != Store::f32) return;
  // Operands end at the end of a page, so that their size decides their first address.
  cases.push_back(large(rows + 1, 1024, 5, ", rows off a line of the cache"));
  cases.push_back(large(rows + 64, 1021, 3, ", begun off a line of the cache"));
}

// ---- pairs ----

at::Tensor clamped(const at::Tensor& pairs, double limit, double alpha) {
  const at::Tensor both = pairs.unflatten(1, {-1, 2});
  const at::Tensor gate = both.select(2, 0).clamp_max(limit), up = both.select(2, 1).clamp(-limit, limit);
  return (up + 1) * gate * at::sigmoid(alpha * gate);
}

constexpr double kLimit = 1.75,
                 kAlpha = 1.702;  // numbers of every type, with values on both sides
const Tolerance kPairs{.roundings = 1.01, .sums = 24, .reason = "one rounding; a sigmoid and a few products"};

// Returns pairs of which none is so near a limit that a finite difference would cross it.
at::Tensor pairs_of(int64_t rows, int64_t width) {
  const at::Tensor pairs = normal({rows, 2 * width}, 1, 2);
  return at::where((pairs.abs() - kLimit).abs() < 0.05, pairs * 1.25, pairs);
}

std::string pairs_title(const char* what, int64_t rows, int64_t width, const Layout& layout, Store type) {
  return std::string(what) + " " + std::to_string(rows) + "x" + std::to_string(width) + " " + layout.name +
         " " + name_of(type);
}

Case pairs_case(Store type, int64_t rows, int64_t width, const Layout& layout) {
  return make_case<ClampedGluForward>(
      "swiglu", pairs_title("pairs forward", rows, width, layout, type),
      {laid(input("pairs", type, pairs_of(rows, width)), layout),
       laid(output("y", type, {rows, width}, kPairs), layout)},
      [](const Tensors& in) {
        const at::Tensor y = clamped(in.at("pairs"), kLimit, kAlpha);
        return Tensors{{"y", y}, {"y.size", at::full_like(y, kLimit * (kLimit + 1))}};
      },
      [=](Pointers& p) {
        return ClampedGluForward{element(type),
                                 rows,
                                 width,
                                 static_cast<float>(kLimit),
                                 static_cast<float>(kAlpha),
                                 p["pairs"],
                                 p.stride("pairs"),
                                 p["y"],
                                 p.stride("y")};
      });
}

Case pairs_backward_case(Store type, int64_t rows, int64_t width, const Layout& layout, bool with_y) {
  std::vector<Operand> operands{laid(input("d_y", type, normal({rows, width}, 3)), layout),
                                laid(in_out("pairs", type, pairs_of(rows, width), kPairs), layout)};
  if (with_y) operands.push_back(laid(output("y", type, {rows, width}, kPairs), layout));
  return make_case<ClampedGluBackward>(
      "swiglu", pairs_title(with_y ? "pairs backward y" : "pairs backward", rows, width, layout, type),
      operands,
      [=](const Tensors& in) {
        const Forward forward = [](const Tensors& v) {
          return Tensors{{"y", clamped(v.at("pairs"), kLimit, kAlpha)}};
        };
        Tensors out = gradients(forward, {{"pairs", in.at("pairs")}}, {"pairs"}, {{"y", in.at("d_y")}});
        out["y"] = forward(in).at("y");
        out["pairs.size"] = in.at("d_y").abs().repeat_interleave(2, 1) * (kLimit * (kLimit + 1));
        out["y.size"] = at::full_like(out["y"], kLimit * (kLimit + 1));
        return out;
      },
      [=](Pointers& p) {
        ClampedGluBackward a{element(type),
                             rows,
                             width,
                             static_cast<float>(kLimit),
                             static_cast<float>(kAlpha),
                             p["d_y"],
                             p.stride("d_y"),
                             p["pairs"],
                             p.stride("pairs")};
        if (with_y) a.y = p["y"], a.y_stride = p.stride("y");
        return a;
      });
}

void add_pairs_cases(std::vector<Case>& cases) {
  const int64_t shapes[][2] = {{1, 1}, {3, 7}, {9, 64}, {5, 161}, {0, 5}};
  for (Store type : kFloats) {
    for (auto [rows, width] : shapes)
      for (const Layout& layout : kLayouts) {
        cases.push_back(pairs_case(type, rows, width, layout));
        for (const bool with_y : {false, true})
          cases.push_back(pairs_backward_case(type, rows, width, layout, with_y));
      }
    add_alone(cases, pairs_case(type, 5, 48, kDense));
    add_alone(cases, pairs_backward_case(type, 5, 48, kDense, true));
    cases.push_back(over(pairs_backward_case(type, 5, 48, kDense, true), "y", "d_y"));
    for (Case ragged : {pairs_case(type, 4, 61, kRagged), pairs_backward_case(type, 4, 61, kRagged, true)}) {
      for (Operand& operand : ragged.operands)
        if (operand.name == "pairs") operand.row_gap *= 2;
      cases.push_back(ragged);
    }
  }
  cases.push_back(pairs_case(Store::f32, kPastGrid, 1, kDense));
  cases.push_back(pairs_backward_case(Store::f32, kPastGrid, 1, kDense, true));
  cases.push_back(pairs_case(Store::f32, 1, kPastBlocks, kDense));
  cases.push_back(pairs_backward_case(Store::f32, 1, kPastBlocks, kDense, true));
}

}  // namespace

void add_swiglu_cases(std::vector<Case>& cases) {
  add_pairs_cases(cases);
  const int64_t shapes[][2] = {{1, 1}, {3, 7}, {2, 16}, {5, 33}, {9, 130}, {1, 1536}, {0, 5}};
  for (Store type : kFloats)
    for (GateFunction function : {GateFunction::silu, GateFunction::gelu_tanh, GateFunction::sigmoid, GateFunction::product}) {
      for (auto [rows, width] : shapes)
        for (const Layout& layout : kLayouts) {
          std::string name = std::to_string(rows) + "x" + std::to_string(width) + " " + layout.name;
          at::Tensor gate = normal({rows, width}, 3, 3);
          cases.push_back(forward_case(type, function, name, gate, layout));
          cases.push_back(backward_case(type, function, name, gate, layout, width % 2 == 1));
        }
      // The gates sweep from values where f is 0 to values where it is x, and past the range of
      // exp.
      at::Tensor sweep = at::linspace(-120, 120, 482, at::kDouble).view({2, 241});
      cases.push_back(forward_case(type, function, "sweep", sweep, kDense));
      cases.push_back(backward_case(type, function, "sweep", sweep, kDense, true));
      cases.push_back(forward_case(type, function, "extreme", extreme({6, 20}, 5).clamp(-100, 100), kDense));
      at::Tensor bad = normal({2, 20}, 7);
      bad[1][3] = std::numeric_limits<double>::quiet_NaN();
      bad[0][2] = HUGE_VAL;
      cases.push_back(forward_case(type, function, "not finite", bad, kDense));
      add_allowed_cases(type, function, cases);
      for (const Layout& layout : kLayouts) cases.push_back(apart_case(type, function, 5, 33, layout));
      if (function == GateFunction::silu) add_past_the_caches(type, function, cases);
    }
  // More columns than a few blocks hold.
  const at::Tensor wide = normal({1, kPastBlocks}, 3);
  cases.push_back(forward_case(Store::f32, GateFunction::silu, "wide", wide, kDense));
  cases.push_back(backward_case(Store::f32, GateFunction::silu, "wide", wide, kDense, true));
  // More rows than a grid is high.
  const at::Tensor high = normal({kPastGrid, 1}, 3);
  cases.push_back(forward_case(Store::f32, GateFunction::silu, "high", high, kDense));
  cases.push_back(backward_case(Store::f32, GateFunction::silu, "high", high, kDense, true));
}

}  // namespace forge::kernel_test
