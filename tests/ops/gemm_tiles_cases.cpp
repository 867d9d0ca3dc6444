#include "core/lib/base/format.h"
#include "kernels/product/gemm_tiles.h"


#include <array>
#include <memory>

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

// Operands are of `type`, the result is of `result`: the same type or fp32. `apart`: the addend is
// not the result.
Case gemm_case(const Shape& s, const Way& way, bool add, float alpha, const Layout& layout, Store type = Store::f32, Store result = Store::f32, bool apart = false) {
  auto oracle = [=](const Tensors& in) {
    const auto operand = [&](const char* name, bool transposed) {
      return transposed ? in.at(name).t() : in.at(name);
    };
    const at::Tensor a = operand("a", way.a_transposed), b = operand("b", way.b_transposed);
    at::Tensor out = alpha * at::mm(a, b), size = std::abs(alpha) * at::mm(a.abs(), b.abs());
    if (const char* added = apart ? "c" : "out"; add) out = out + in.at(added), size = size + in.at(added).abs();
    return Tensors{{"out", out}, {"out.size", size}};
  };
  const Tolerance tolerance{.roundings = result == Store::f32 ? 1 : 1.01, .sums = 8, .reason = "a sum of products in fp32, rounded once"};
  std::vector<Operand> operands{
      laid(input("a", type, stored(normal({s.m, s.k}, 1), way.a_transposed)), layout),
      laid(input("b", type, stored(normal({s.k, s.n}, 2), way.b_transposed)), layout),
      laid(add && !apart ? in_out("out", result, normal({s.m, s.n}, 3), tolerance)
                         : output("out", result, {s.m, s.n}, tolerance),
           layout)};
  if (apart) operands.push_back(laid(input("c", result, normal({s.m, s.n}, 3)), layout));
  const std::string name = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
                           way.name + (apart ? " added apart" : add ? " added" : "") + (alpha == 1 ? " " : " scaled ") + layout.name + " " + name_of(type) + " to " + name_of(result);
  return make_case<Gemm>("gemm tiles", name, operands, oracle, [=](Pointers& p) {
    return Gemm{.type = element(type),
                .m = s.m,
                .n = s.n,
                .k = s.k,
                .a = {p["a"], p.stride("a"), way.a_transposed},
                .b = {p["b"], p.stride("b"), way.b_transposed},
                .out_type = element(result),
                .out = p["out"],
                .out_stride = p.stride("out"),
                .alpha = alpha,
                .add = add,
                .c = apart ? static_cast<const void*>(p["c"]) : nullptr,
                .c_stride = apart ? p.stride("c") : 0};
  });
}

// Adds a tail to the first columns and one to the last, after a gap.
Case tails_case(const Shape& s, int64_t first, int64_t last, int64_t k, bool add, const Layout& layout, Store type, Store result) {
  auto oracle = [=](const Tensors& in) {
    at::Tensor out = at::mm(in.at("a"), in.at("b").t()), size = at::mm(in.at("a").abs(), in.at("b").abs().t());
    if (add) out = out + in.at("out"), size = size + in.at("out").abs();
    const auto more = [&](at::Tensor of, bool absolute) {
      const auto operand = [&](const char* name) { return absolute ? in.at(name).abs() : in.at(name); };
      of.narrow(1, 0, first).add_(at::mm(operand("s1"), operand("b1").t()), absolute ? 0.7 : -0.7);
      of.narrow(1, s.n - last, last).add_(at::mm(operand("s2"), operand("b2").t()));
    };
    more(out, false), more(size, true);
    return Tensors{{"out", out}, {"out.size", size}};
  };
  const Tolerance tolerance{.roundings = result == Store::f32 ? 1 : 1.01, .sums = 8, .reason = "a sum of products in fp32, rounded once"};
  const auto normals = [&](const char* name, Store store, int64_t rows, int64_t columns, int seed) {
    return laid(input(name, store, normal({rows, columns}, seed)), layout);
  };
  std::vector<Operand> operands{normals("a", type, s.m, s.k, 1), normals("b", type, s.n, s.k, 2), normals("s1", Store::f32, s.m, k, 4), normals("b1", type, first, k, 5),
                                normals("s2", Store::f32, s.m, 3, 6), normals("b2", type, last, 3, 7),
                                laid(add ? in_out("out", result, normal({s.m, s.n}, 3), tolerance) : output("out", result, {s.m, s.n}, tolerance), layout)};
  const std::string name = fmt::format("{}x{}x{} tails of {} and {} columns, depth {}{} {} {} to {}", s.m, s.n, s.k, first, last, k, add ? " added" : "", layout.name, name_of(type), name_of(result));
  // The tails live as long as the pointers they are made of.
  return make_case<Gemm>("gemm tiles", name, operands, oracle, [=, tails = std::make_shared<std::array<GemmTail, 2>>()](Pointers& p) {
    *tails = {{{0, first, k, -0.7f, static_cast<const float*>(p["s1"]), p.stride("s1"), p["b1"], p.stride("b1")},
               {s.n - last, last, 3, 1, static_cast<const float*>(p["s2"]), p.stride("s2"), p["b2"], p.stride("b2")}}};
    return Gemm{.type = element(type), .m = s.m, .n = s.n, .k = s.k, .a = {p["a"], p.stride("a")}, .b = {p["b"], p.stride("b"), true}, .out_type = element(result),
                .out = p["out"], .out_stride = p.stride("out"), .add = add, .tails = tails->data(), .tail_count = 2};
  });
}

}  // namespace

// A block has up to 480 rows and 256 columns, in panels of 64 and 96 of the depth; a tile 6 rows (4
// without FMA) and vectors of 4, 8 or 16; squares of 4 and 16 are transposed at once.
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
  for (Store type : {Store::bf16, Store::f16})
    for (Store result : {type, Store::f32})
      for (const Way& way : kWays) {
        for (const Shape& s : {Shape{1, 1, 1}, {13, 70, 129}, {481, 65, 130}, {7, 200, 300}})
          for (const Layout& layout : kLayouts) cases.push_back(gemm_case(s, way, layout.row_gap > 0, 1, layout, type, result));
        cases.push_back(gemm_case({19, 64, 150}, way, true, -0.7f, kDense, type, result));
      }
  for (Store type : {Store::f32, Store::bf16})
    for (const Layout& layout : kLayouts) {
      cases.push_back(tails_case({13, 70, 129}, 16, 22, 5, false, layout, type, type));
      cases.push_back(tails_case({481, 400, 30}, 320, 80, 16, true, layout, type, type));
      cases.push_back(tails_case({7, 96, 10}, 80, 16, 200, false, layout, type, Store::f32));
    }
  add_alone(cases, gemm_case({31, 72, 140}, kWays[1], true, 1, kDense));
  for (Store type : {Store::f32, Store::bf16, Store::f16}) {
    const auto apart = [&](const Shape& s, const Way& way, float alpha, const Layout& layout) { return gemm_case(s, way, true, alpha, layout, type, type, true); };
    for (const Way& way : kWays)
      for (const Layout& layout : kLayouts) cases.push_back(apart({13, 70, 129}, way, 1, layout));
    cases.push_back(apart({1, 1, 1}, kWays[1], 1, kDense));
    cases.push_back(apart({96, 64, 200}, kWays[1], -0.7f, kDense));
    cases.push_back(apart({5, 7, 0}, kWays[1], 1, kDense));
    add_alone(cases, apart({32, 72, 144}, kWays[1], 1, kDense));
  }
  for (const Shape& s : {Shape{0, 5, 5}, {5, 0, 5}, {5, 7, 0}})
    for (bool add : {false, true}) {
      cases.push_back(gemm_case(s, kWays[0], add, 1, kDense));
      cases.push_back(gemm_case(s, kWays[0], add, 1, kDense, Store::bf16, Store::bf16));
    }
}

}  // namespace forge::kernel_test
