#include "kernels/product/product_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

Case product_case(Store type, bool wide, int64_t rows, int64_t in, int64_t out, bool biased,
                  const Layout& layout, bool across = false) {
  const Store result = wide ? Store::f32 : type;
  auto oracle = [=](const Tensors& v) {
    const at::Tensor w = across ? v.at("w") : v.at("w").t();
    at::Tensor y = at::mm(v.at("x"), w), size = at::mm(v.at("x").abs(), w.abs());
    if (biased) y = y + v.at("bias");
    return Tensors{{"y", y}, {"y.size", size}};
  };
  std::vector<Operand> operands{
      laid(input("x", type, normal({rows, in}, 1)), layout),
      input("w", type, across ? normal({in, out}, 2) : normal({out, in}, 2)),
      laid(output("y", result, {rows, out},
                  {.roundings = 1, .sums = 8, .reason = "a sum of products in fp32"}),
           layout)};
  if (biased) operands.push_back(input("bias", type, normal({out}, 3)));
  return make_case<RowProduct>("product",
                               std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out) +
                                   (across ? " across" : "") + (biased ? " bias " : " ") + layout.name + " " +
                                   name_of(type) + (wide ? " to fp32" : ""),
                               operands, oracle, [=](Pointers& p) {
                                 RowProduct a{element(type), element(result), rows, in, out};
                                 a.x = p["x"], a.x_stride = p.stride("x");
                                 a.w = p["w"];
                                 if (biased) a.bias = p["bias"];
                                 a.across = across;
                                 a.y = p["y"], a.y_stride = p.stride("y");
                                 return a;
                               });
}

}  // namespace

void add_product_cases(std::vector<Case>& cases) {
  const int64_t shapes[][3] = {{1, 1, 1},   {1, 64, 40},     {3, 33, 7},    {5, 100, 21}, {0, 16, 8},
                               {19, 48, 5}, {70, 1030, 130}, {2, 9000, 11}, {3, 8, 0}};
  for (Store type : kFloats)
    for (auto [rows, in, out] : shapes)
      for (const Layout& layout : kLayouts) {
        for (const bool across : {false, true})
          cases.push_back(product_case(type, false, rows, in, out, rows % 2 == 1, layout, across));
        if (type != Store::f32) cases.push_back(product_case(type, true, rows, in, out, false, layout));
      }
}

}  // namespace forge::kernel_test
