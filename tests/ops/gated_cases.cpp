#include "kernels/lora/gated_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  std::string name;
  int64_t tokens, width, rank;  // of the adapter that reads y
  int64_t gate_rank, up_rank;
  int64_t planned = 0;
  bool kept = true;
  double size = 1;  // of d y
  int64_t multiprocessors = 128;
};

constexpr double kScales[] = {1.5, 2, 0.25};  // of the one that reads y, of gate's, of up's

at::Tensor activate(const at::Tensor& x, GateFunction function) { return function == GateFunction::silu ? at::silu(x) : at::gelu(x, "tanh"); }

// Returns the tolerance of swiglu's cases.
Tolerance elementwise(GateFunction function) {
  return {.roundings = 1.01, .sums = function == GateFunction::silu ? 12.0 : 24.0, .reason = "one rounding; exp to 2 units and a few products"};
}
// The factors were rounded before: if fp32 and float64 are on the two sides of a midpoint, a factor
// is a unit off.
Tolerance summed(double terms) {
  return {.roundings = 1.01, .sums = 40 + terms / 16, .reason = "an fp32 sum, one rounding; two of its terms rounded the other way", .between = 4};
}

at::Tensor in_type(const at::Tensor& x, Store type) { return x.to(type == Store::bf16 ? at::kBFloat16 : at::kHalf).to(at::kDouble); }

// Adds the product of a [m, k] and b [k, n], the sum of its terms' magnitudes, and the largest
// term.
void add_product(Tensors& out, const std::string& name, const at::Tensor& a, const at::Tensor& b, double scale, const at::Tensor& before = {}) {
  const at::Tensor terms = scale * (a.unsqueeze(2) * b.unsqueeze(0)).abs();
  out[name] = scale * a.mm(b), out[name + ".size"] = terms.sum(1);
  out[name + ".between"] = a.size(1) > 0 ? terms.amax(1) : at::zeros_like(out[name]);
  if (before.defined()) out[name] = out[name] + before, out[name + ".size"] = out[name + ".size"] + before.abs();
}

std::string title(const char* direction, const Setting& s, GateFunction function, const std::string& layout, Store type) {
  return std::string(direction) + " " + s.name + (function == GateFunction::silu ? " silu " : " gelu ") + layout + " " + name_of(type);
}

Operand counters() { return in_out("counters", Store::i32, at::zeros({kFoldedCounters}, at::kLong), {.roundings = 0, .sums = 0, .reason = "zeros again"}); }

Case sums_case(Store type, GateFunction function, const Setting& s, const Layout& layout) {
  const auto terms = static_cast<double>(s.width);
  std::vector<Operand> operands{laid(input("gate", type, normal({s.tokens, s.width}, 1, 3)), layout),
                                laid(input("up", type, normal({s.tokens, s.width}, 2)), layout),
                                laid(input("a", type, normal({s.rank, s.width}, 3, 0.2)), layout),
                                laid(output("y", type, {s.tokens, s.width}, elementwise(function)), layout),
                                laid(output("s", type, {s.tokens, s.rank}, summed(terms)), layout), counters()};
  if (s.kept) operands.push_back(laid(output("kept", type, {s.tokens, s.rank}, summed(terms)), layout));
  return make_case<GatedSums>(
      "gated", title("sums", s, function, layout.name, type), operands,
      [=](const Tensors& in) {
        const at::Tensor y = activate(in.at("gate"), function) * in.at("up");
        Tensors out{{"y", y}, {"y.size", (in.at("gate") * in.at("up")).abs()}, {"counters", in.at("counters")}};
        for (const char* name : {"s", "kept"}) add_product(out, name, in_type(y, type), in.at("a").t(), kScales[0]);
        return out;
      },
      [=](Pointers& p) {
        GatedSums args{.type = element(type),
                       .function = function,
                       .tokens = s.tokens,
                       .planned = s.planned,
                       .multiprocessors = s.multiprocessors,
                       .width = s.width};
        args.gate = p["gate"], args.gate_stride = p.stride("gate"), args.up = p["up"], args.up_stride = p.stride("up");
        args.y = p["y"], args.y_stride = p.stride("y"), args.rank = s.rank, args.scale = static_cast<float>(kScales[0]);
        args.a = p["a"], args.a_stride = p.stride("a"), args.s = p["s"], args.s_stride = p.stride("s"), args.counters = p["counters"];
        if (s.kept) args.kept = p["kept"], args.kept_stride = p.stride("kept");
        return args;
      });
}

constexpr const char* kSides[] = {"gate", "up"};
std::string of_side(const char* name, int side) { return std::string(name) + "_" + kSides[side]; }

Case gradients_case(Store type, GateFunction function, const Setting& s, const Layout& layout) {
  const int64_t ranks[] = {s.gate_rank, s.up_rank};
  std::vector<Operand> operands{laid(input("d_y", type, normal({s.tokens, s.width}, 4, s.size)), layout),
                                laid(in_out("gate", type, normal({s.tokens, s.width}, 1, 3), elementwise(function)), layout),
                                laid(in_out("up", type, normal({s.tokens, s.width}, 2), elementwise(function)), layout), counters()};
  const auto tokens = static_cast<double>(s.tokens), width = static_cast<double>(s.width);
  if (s.rank > 0) {
    operands.push_back(laid(input("d_s", type, normal({s.tokens, s.rank}, 5)), layout));
    operands.push_back(in_out("d_a", Store::f32, normal({s.rank, s.width}, 6), summed(tokens)));
  }
  for (int i = 0; i < 2; ++i) {
    if (ranks[i] == 0) continue;
    operands.push_back(laid(input(of_side("b", i), type, normal({s.width, ranks[i]}, 7 + i, 0.3)), layout));
    operands.push_back(laid(input(of_side("s", i), type, normal({s.tokens, ranks[i]}, 9 + i)), layout));
    operands.push_back(laid(output(of_side("d_s", i), type, {s.tokens, ranks[i]}, summed(width)), layout));
    operands.push_back(in_out(of_side("d_b", i), Store::f32, normal({s.width, ranks[i]}, 11 + i), summed(tokens)));
  }
  return make_case<GatedGradients>(
      "gated", title("gradients", s, function, layout.name, type), operands,
      [=](const Tensors& in) {
        const Forward forward = [=](const Tensors& v) { return Tensors{{"y", activate(v.at("gate"), function) * v.at("up")}}; };
        const Tensors values{{"gate", in.at("gate")}, {"up", in.at("up")}};
        Tensors out = gradients(forward, values, {"gate", "up"}, {{"y", in.at("d_y")}});
        out["gate.size"] = (in.at("d_y") * in.at("up")).abs() * (1 + in.at("gate").abs().clamp_max(12));
        out["up.size"] = (in.at("d_y") * in.at("gate")).abs(), out["counters"] = in.at("counters");
        if (s.rank > 0) add_product(out, "d_a", in.at("d_s").t(), in_type(forward(values).at("y"), type), 1, in.at("d_a"));
        for (int i = 0; i < 2; ++i) {
          if (ranks[i] == 0) continue;
          const at::Tensor d_x = in_type(out.at(kSides[i]), type);
          add_product(out, of_side("d_s", i), d_x, in.at(of_side("b", i)), kScales[1 + i]);
          add_product(out, of_side("d_b", i), d_x.t(), in.at(of_side("s", i)), 1, in.at(of_side("d_b", i)));
        }
        return out;
      },
      [=](Pointers& p) {
        GatedGradients args{.type = element(type),
                            .function = function,
                            .tokens = s.tokens,
                            .planned = s.planned,
                            .multiprocessors = s.multiprocessors,
                            .width = s.width};
        args.d_y = p["d_y"], args.d_y_stride = p.stride("d_y"), args.gate = p["gate"], args.gate_stride = p.stride("gate");
        args.up = p["up"], args.up_stride = p.stride("up"), args.rank = s.rank, args.counters = p["counters"];
        if (s.rank > 0) args.d_s = p["d_s"], args.d_s_stride = p.stride("d_s"), args.d_a = p["d_a"];
        for (int i = 0; i < 2; ++i) {
          GatedSide& side = args.side[i];
          side.rank = ranks[i], side.scale = static_cast<float>(kScales[1 + i]);
          if (ranks[i] == 0) continue;
          side.b = p[of_side("b", i)], side.b_stride = p.stride(of_side("b", i));
          side.s = p[of_side("s", i)], side.s_stride = p.stride(of_side("s", i));
          side.d_s = p[of_side("d_s", i)], side.d_s_stride = p.stride(of_side("d_s", i)), side.d_b = p[of_side("d_b", i)];
        }
        return args;
      });
}

}  // namespace

void add_gated_cases(std::vector<Case>& cases) {
  const Setting settings[] = {{"1 token, rank 1", 1, 1, 1, 1, 1},
                              {"tails", 18, 70, 4, 4, 3},
                              {"no tokens", 0, 64, 8, 8, 8}};
  for (Store type : {Store::bf16, Store::f16}) {
    for (const Setting& s : settings)
      for (const Layout& layout : kLayouts)
        for (const GateFunction function : {GateFunction::silu, GateFunction::gelu_tanh})
          cases.push_back(sums_case(type, function, s, layout)), cases.push_back(gradients_case(type, function, s, layout));
    const auto both = [&](const Setting& s, const Layout& layout) {
      cases.push_back(sums_case(type, GateFunction::silu, s, layout));
      cases.push_back(gradients_case(type, GateFunction::silu, s, layout));
    };
    const Setting aligned{"aligned", 33, 136, 16, 9, 16};
    add_alone(cases, sums_case(type, GateFunction::silu, aligned, kDense));
    add_alone(cases, gradients_case(type, GateFunction::silu, aligned, kDense));
    both({"a width that ends in a vector", 3, 61, 5, 5, 5}, kRagged);
    both({"ranks past 16", 20, 272, 24, 32, 17}, kDense);
    both({"ranks of one past 16, not kept", 17, 300, 3, 18, 16, 0, false}, kDense);
    // Two blocks along the columns; one or many along the tokens.
    both({"many blocks", 70, 520, 5, 16, 8}, kDense);
    both({"several tiles", 70, 520, 5, 16, 8, 70'000}, kDense);
    for (const int64_t multiprocessors : {1, 1000})
      both({"a GPU of " + std::to_string(multiprocessors), 70, 520, 5, 16, 8, 0, true, 1, multiprocessors}, kDense);
    if (type == Store::bf16)  // past the range of fp16
      cases.push_back(gradients_case(type, GateFunction::silu, {"large gradients", 18, 72, 4, 4, 3, 0, true, 1e6}, kDense));
    cases.push_back(sums_case(type, GateFunction::gelu_tanh, {"ranks past 32", 66, 140, 50, 0, 0}, kDense));
    for (const Setting& some : {Setting{"without one that reads y", 19, 72, 0, 6, 3}, {"of gate alone", 19, 72, 7, 4, 0}, {"of up alone", 19, 72, 0, 0, 4},
                                {"of neither", 19, 72, 7, 0, 0}})
      cases.push_back(gradients_case(type, GateFunction::gelu_tanh, some, kDense));
  }
}

}  // namespace forge::kernel_test
