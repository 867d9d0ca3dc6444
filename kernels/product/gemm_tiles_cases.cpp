#include "kernels/product/gemm_tiles.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Shape {
  int64_t m, n, k;
};
struct Way {
  const char* name;
  bool a_transposed, b_transposed;
};
constexpr Way kWays[] = {
    {"", false, false}, {" wᵀ", false, true}, {" xᵀ", true, false}, {" xᵀ wᵀ", true, true}};

at::Tensor stored(const at::Tensor& x, bool transposed) { return transposed ? x.t().contiguous() : x; }

Case gemm_case(const Shape& s, const Way& way, bool add, float alpha, const Layout& layout) {
  auto oracle = [=](const Tensors& in) {
    const auto operand = [&](const char* name, bool transposed) {
      return transposed ? in.at(name).t() : in.at(name);
    };
    const at::Tensor a = operand("a", way.a_transposed), b = operand("b", way.b_transposed);
    at::Tensor out = alpha * at::mm(a, b), size = std::abs(alpha) * at::mm(a.abs(), b.abs());
    if (add) out = out + in.at("out"), size = size + in.at("out").abs();
    return Tensors{{"out", out}, {"out.size", size}};
  };
  const Tolerance tolerance{.roundings = 1, .sums = 8, .reason = "a sum of products in fp32"};
  std::vector<Operand> operands{
      laid(input("a", Store::f32, stored(normal({s.m, s.k}, 1), way.a_transposed)), layout),
      laid(input("b", Store::f32, stored(normal({s.k, s.n}, 2), way.b_transposed)), layout),
      laid(add ? in_out("out", Store::f32, normal({s.m, s.n}, 3), tolerance)
               : output("out", Store::f32, {s.m, s.n}, tolerance),
           layout)};
  const std::string name = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
                           way.name + (add ? " added" : "") + (alpha == 1 ? " " : " scaled ") + layout.name;
  return make_case<Gemm>("gemm tiles", name, operands, oracle, [=](Pointers& p) {
    return Gemm{.m = s.m,
                .n = s.n,
                .k = s.k,
                .a = {p["a"], p.stride("a"), way.a_transposed},
                .b = {p["b"], p.stride("b"), way.b_transposed},
                .out = p["out"],
                .out_stride = p.stride("out"),
                .alpha = alpha,
                .add = add};
  });
}

}  // namespace

// A block has 480 rows, 64 columns and 128 of the depth; a tile 6 rows (4 without FMA) and vectors of 4, 8 or 16; squares of 4 and 16
// are transposed at once.
void add_gemm_tiles_cases(std::vector<Case>& cases) {
  const Shape shapes[] = {{1, 1, 1},    {6, 64, 128},   {5, 3, 7},      {13, 70, 129},
                          {40, 80, 16}, {481, 65, 130}, {967, 16, 260}, {7, 200, 300}};
  for (const Shape& s : shapes)
    for (const Way& way : kWays)
      for (const Layout& layout : kLayouts) {
        cases.push_back(gemm_case(s, way, false, 1, layout));
        cases.push_back(gemm_case(s, way, true, 1, layout));
      }
  for (const Way& way : kWays) {
    cases.push_back(gemm_case({19, 33, 150}, way, true, -0.7f, kDense));
    cases.push_back(gemm_case({19, 64, 150}, way, false, 2.5f, kDense));
  }
  add_alone(cases, gemm_case({31, 72, 140}, kWays[1], true, 1, kDense));
  for (const Shape& s : {Shape{0, 5, 5}, {5, 0, 5}, {5, 7, 0}})
    for (bool add : {false, true}) cases.push_back(gemm_case(s, kWays[0], add, 1, kDense));
}

}  // namespace forge::kernel_test
