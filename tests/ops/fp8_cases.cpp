// Codes and scales bit for bit, against LibTorch's own E4M3; products against float64.
#include "kernels/fp8/fp8_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

constexpr Tolerance kExact{.roundings = 0, .sums = 0, .reason = "bit for bit"};

struct Shape {
  int64_t rows, columns;
  Layout layout = kDense;
};
std::string text_of(const Shape& s) { return std::to_string(s.rows) + "x" + std::to_string(s.columns) + " " + s.layout.name; }

// Returns the codes of values. NaN, which has two codes, gets the first.
at::Tensor codes_of(const at::Tensor& values) {
  at::Tensor codes = values.clamp(-448, 448).to(at::kFloat8_e4m3fn).view(at::kByte).to(at::kLong);
  return codes.masked_fill(values.isnan(), 0x7F);
}
at::Tensor values_of(const at::Tensor& codes) { return codes.to(at::kByte).view(at::kFloat8_e4m3fn).to(at::kDouble); }

Tensors quantized(const Tensors& in) {
  at::Tensor x = in.at("x").to(at::kFloat);
  if (in.count("factors")) x = x * in.at("factors").to(at::kFloat);
  if (x.size(1) == 0) return {{"codes", at::zeros_like(x, at::kLong)}, {"scales", at::ones({x.size(0)}, at::kDouble)}};
  const at::Tensor largest = x.abs().amax(1, /*keepdim=*/true), empty = largest < 0x1p-100;
  const at::Tensor factor = (448 / largest).masked_fill(empty, 0);
  return {{"codes", codes_of(x * factor)}, {"scales", (largest / 448).masked_fill(empty, 1).squeeze(1).to(at::kDouble)}};
}

Case quantize_case(Store type, const std::string& name, const at::Tensor& x, bool factors, const Shape& s) {
  std::vector<Operand> operands{laid(input("x", type, x), s.layout), laid(output("codes", Store::u8, {s.rows, s.columns}, kExact), s.layout),
                                output("scales", Store::f32, {s.rows}, kExact)};
  if (factors) operands.push_back(input("factors", Store::f32, normal({s.columns}, 31) * 1e-3));
  return make_case<QuantizeRows>("fp8", "quantize " + name + text_of(s) + (factors ? " with factors " : " ") + name_of(type), operands, quantized,
                                 [=](Pointers& p) {
                                   QuantizeRows a{.type = element(type), .rows = s.rows, .columns = s.columns};
                                   a.x = p["x"], a.x_stride = p.stride("x");
                                   if (factors) a.factors = p["factors"];
                                   a.codes = p["codes"], a.codes_stride = p.stride("codes"), a.scales = p["scales"];
                                   return a;
                                 });
}

// Returns rows of different magnitudes, from rows that become zeros up to the type's range. The
// first row is zeros, the second has a single number.
at::Tensor magnitudes(Store type, int64_t rows, int64_t columns) {
  at::Tensor x = normal({rows, columns}, 32);
  const double lowest = type == Store::f16 ? -6 : -40, steps = type == Store::f16 ? 9 : 75;
  for (int64_t i = 0; i < std::min<int64_t>(rows, 200); ++i) x[i].mul_(std::pow(10.0, lowest + std::fmod(7.0 * static_cast<double>(i), steps)));
  if (rows > 0) x[0].zero_();
  if (rows > 1 && columns > 1) x[1].slice(0, 1).zero_();
  return x;
}

// Returns every code's value and the midpoints between neighbours, in a row whose scale is 1.
at::Tensor all_codes() {
  at::Tensor values = values_of(at::arange(0, 127, at::kLong));
  at::Tensor middles = (values.slice(0, 1) + values.slice(0, 0, 126)) / 2;
  at::Tensor row = at::cat({values, middles, middles * (1 + 0x1p-20), middles * (1 - 0x1p-20)});
  return at::stack({row, -row}).contiguous();
}

at::Tensor not_finite() {
  at::Tensor x = normal({4, 64}, 33);
  x[0][5] = std::numeric_limits<double>::infinity();
  x[1][63] = -std::numeric_limits<double>::infinity();
  x[2][0] = std::numeric_limits<double>::quiet_NaN();
  return x;
}

struct Product {
  int64_t m, n, k;
  Layout layout = kDense;
  bool bias = false, add = false;
};

at::Tensor random_codes(int64_t rows, int64_t columns, uint64_t seed) {  // all but NaN
  return uniform_values({rows, columns}, seed, 0, 127).to(at::kLong) + 128 * uniform_values({rows, columns}, seed + 1, 0, 2).to(at::kLong);
}

Case product_case(Store type, const Product& s) {
  std::vector<Operand> operands{laid(input("a", Store::u8, random_codes(s.m, s.k, 41)), {s.layout.name, s.layout.row_gap == 0 ? 0 : 16, 0}),
                                input("b", Store::u8, random_codes(s.n, s.k, 43)), input("a_scales", Store::f32, uniform_values({s.m}, 45, 0.5, 1) * 1e-3),
                                input("b_scales", Store::f32, uniform_values({s.n}, 46, 0.5, 1) * 1e-3)};
  const Tolerance tolerance{.roundings = s.add ? 2.0 : 1.0, .sums = 8, .reason = "rounded once, and once more where it is added; sums in fp32"};
  if (s.bias) operands.push_back(input("bias", type, normal({s.n}, 47)));
  if (s.add)
    operands.push_back(laid(in_out("out", type, normal({s.m, s.n}, 48), tolerance), s.layout));
  else
    operands.push_back(laid(output("out", type, {s.m, s.n}, tolerance), s.layout));
  auto oracle = [=](const Tensors& in) {
    const at::Tensor a = values_of(in.at("a")) * in.at("a_scales").unsqueeze(1), b = values_of(in.at("b")) * in.at("b_scales").unsqueeze(1);
    at::Tensor y = a.mm(b.t()), size = a.abs().mm(b.abs().t());
    if (s.bias) y = y + in.at("bias"), size = size + in.at("bias").abs();
    if (!s.add) return Tensors{{"out", y}, {"out.size", size}};
    // The product is rounded before it is added: a unit of it remains where the sum cancels.
    const double units = type == Store::bf16 ? 0x1p15 : type == Store::f16 ? 0x1p12 : 1;
    return Tensors{{"out", in.at("out") + y}, {"out.size", size + in.at("out").abs() + y.abs() * units / 8}};
  };
  const std::string name = "product " + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + " " + s.layout.name +
                           (s.bias ? " with a bias" : s.add ? " added" : "") + " " + name_of(type);
  return make_case<ScaledProduct>("fp8", name, operands, oracle, [=](Pointers& p) {
    ScaledProduct args{.type = element(type), .m = s.m, .n = s.n, .k = s.k};
    args.a = p["a"], args.a_stride = p.stride("a"), args.a_scales = p["a_scales"], args.b = p["b"], args.b_scales = p["b_scales"];
    if (s.bias) args.bias = p["bias"];
    args.out = p["out"], args.out_stride = p.stride("out"), args.add = s.add;
    return args;
  });
}

Case transpose_case(int64_t rows, int64_t columns) {
  return make_case<TransposeBytes>(
      "fp8", "transpose " + std::to_string(rows) + "x" + std::to_string(columns),
      {input("x", Store::u8, uniform_values({rows, columns}, 51, 0, 256).to(at::kLong)), output("y", Store::u8, {columns, rows}, kExact)},
      [](const Tensors& in) { return Tensors{{"y", in.at("x").t().contiguous()}}; },
      [=](Pointers& p) {
        TransposeBytes a{.rows = rows, .columns = columns};
        a.x = p["x"], a.y = p["y"];
        return a;
      });
}

}  // namespace

void add_fp8_cases(std::vector<Case>& cases) {
  const Layout aligned{"with spare columns", 16, 0};
  const Shape shapes[] = {{1, 1}, {3, 7}, {5, 64}, {40, 96, kLayouts[1]}, {7, 96, kLayouts[2]}, {9, 96, aligned}, {5, 61, kRagged}, {4, 4104}, {4, 4099}, {80, 32}};
  for (const Store type : kFloats) {
    for (const Shape& s : shapes)
      for (const bool factors : {false, true}) cases.push_back(quantize_case(type, "", magnitudes(type, s.rows, s.columns), factors, s));
    for (const Shape& s : {Shape{0, 64}, Shape{3, 0}}) cases.push_back(quantize_case(type, "", at::zeros({s.rows, s.columns}, at::kDouble), false, s));
    cases.push_back(quantize_case(type, "not finite ", not_finite(), false, {4, 64}));
    add_alone(cases, quantize_case(type, "", magnitudes(type, 5, 64), true, {5, 64}));
  }
  const at::Tensor every = all_codes();
  cases.push_back(quantize_case(Store::f32, "every code ", every, false, {every.size(0), every.size(1)}));
  cases.push_back(quantize_case(Store::bf16, "", magnitudes(Store::bf16, 3, kPastBlocks), true, {3, kPastBlocks}));
  cases.push_back(quantize_case(Store::bf16, "", magnitudes(Store::bf16, kPastGrid, 2), false, {kPastGrid, 2}));

  for (const Store type : {Store::f32, Store::bf16})
    for (const Product& s : {Product{1, 16, 16}, Product{3, 32, 48}, Product{17, 48, 64, aligned}, Product{5, 528, 32}, Product{4, 1040, 16, aligned},
                             Product{9, 32, 32, kLayouts[1]}, Product{33, 16, 32, kLayouts[2]}, Product{0, 16, 16}})
      for (const bool more : {false, true}) {
        Product with = s;
        with.bias = more;
        cases.push_back(product_case(type, with));
        with.bias = false, with.add = more;
        if (more) cases.push_back(product_case(type, with));
      }
  cases.push_back(product_case(Store::bf16, {5, 7, 3}));  // sizes that a GPU refuses
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {3, 70}, {64, 64}, {65, 64}, {64, 68}, {128, 200}, {33, 129}, {4, 4}, {130, 132}, {0, 5}, {5, 0}, {260, 12}})
    cases.push_back(transpose_case(rows, columns));
  add_alone(cases, transpose_case(64, 68));
  cases.push_back(transpose_case(2, 16500));  // more squares than a byte counts
  cases.push_back(transpose_case(16500, 2));
}

}  // namespace forge::kernel_test
