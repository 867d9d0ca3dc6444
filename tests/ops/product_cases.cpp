#include "kernels/fp8/e4m3_rows.h"
#include "kernels/product/product_args.h"
#include "kernels/quantize/blocks.h"
#include "kernels/quantize/quantize.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/gguf_blocks.h"

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

// A product with w in blocks.
Case product_of_blocks_case(Store type, const GgufType& gguf, int64_t rows, int64_t in, int64_t out, bool wide) {
  const Store result = wide ? Store::f32 : type;
  auto oracle = [=](const Tensors& v) {
    const at::Tensor w = gguf_values(gguf, v.at("codes"), out, in);
    return Tensors{{"y", at::mm(v.at("x"), w.t()) + v.at("bias")}, {"y.size", at::mm(v.at("x").abs(), w.t().abs())}};
  };
  std::vector<Operand> operands{laid(input("x", type, normal({rows, in}, 1)), kLayouts[1]),
                                input("codes", Store::u8, gguf_bytes(gguf, out, in, 2)), input("bias", type, normal({out}, 3)),
                                laid(output("y", result, {rows, out}, {.roundings = 1, .sums = 8, .reason = "a sum of products in fp32"}), kLayouts[1])};
  return make_case<RowProduct>("product",
                               std::string(name_of(gguf.dtype)) + " " + std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out) + " " +
                                   name_of(type) + (wide ? " to fp32" : ""),
                               operands, oracle, [=](Pointers& p) {
                                 RowProduct a{element(type), element(result), rows, in, out};
                                 a.x = p["x"], a.x_stride = p.stride("x"), a.bias = p["bias"];
                                 a.blocks = {.type = Element::f32, .coding = gguf.coding, .rows = out, .columns = in, .codes = p["codes"]};
                                 a.y = p["y"], a.y_stride = p.stride("y");
                                 return a;
                               });
}

// Returns x as words_product.h represents it: each 32 values as whole numbers times a power of two.
at::Tensor in_words(const at::Tensor& x) {
  const at::Tensor by_32 = x.reshape({x.size(0), x.size(1) / 32, 32}), most = by_32.abs().amax(-1, true);
  const at::Tensor power = at::pow(2.0, at::log2(most.clamp_min(0x1p-100)).floor() - 14);
  return ((by_32 / power).round() * power).reshape(x.sizes());
}

// A product with w in blocks of sixteen rows side by side. In each 32 of x some are far smaller
// than the largest, and some 32 are zeros.
Case product_by_16_case(Store type, const GgufType& gguf, int64_t rows, int64_t in, int64_t out, bool biased, bool wide) {
  const Store result = wide ? Store::f32 : type;
  const at::Tensor bytes = gguf_bytes(gguf, out, in, 2), sizes = at::pow(4.0, uniform_values({rows, in}, 4, -5, 4).floor());
  const at::Tensor kept = uniform_values({rows, in / 32, 1}, 5, 0, 8).floor().clamp_max(1).expand({rows, in / 32, 32}).reshape({rows, in});
  auto oracle = [=](const Tensors& v) {
    const at::Tensor w = gguf_values(gguf, bytes, out, in), x = type == Store::f32 ? v.at("x") : in_words(v.at("x"));
    const at::Tensor y = at::mm(x, w.t());
    return Tensors{{"y", biased ? y + v.at("bias") : y}, {"y.size", at::mm(x.abs(), w.t().abs())}};
  };
  const BlockCoding coding = *coding_by_16(gguf.coding, out);
  std::vector<Operand> operands{laid(input("x", type, normal({rows, in}, 1) * sizes * kept), kLayouts[1]),
                                input("codes", Store::u8, laid_by_16(coding, bytes, out, in)),
                                laid(output("y", result, {rows, out}, {.roundings = 1, .sums = 8, .reason = "a sum of blocks in fp32"}), kLayouts[1])};
  if (biased) operands.push_back(input("bias", type, normal({out}, 3)));
  return make_case<RowProduct>("product",
                               std::string(name_of(gguf.dtype)) + " by 16 " + std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out) +
                                   (biased ? " bias " : " ") + name_of(type) + (wide ? " to fp32" : ""),
                               operands, oracle, [=](Pointers& p) {
                                 RowProduct a{element(type), element(result), rows, in, out};
                                 a.x = p["x"], a.x_stride = p.stride("x");
                                 if (biased) a.bias = p["bias"];
                                 a.blocks = {.type = Element::f32, .coding = coding, .rows = out, .columns = in, .codes = p["codes"]};
                                 a.y = p["y"], a.y_stride = p.stride("y");
                                 return a;
                               });
}

// A product with w in blocks by book, like a quantised base.
Case product_of_books_case(Store type, QuantizeOptions options, int64_t rows, int64_t in, int64_t out) {
  const QuantizedWeight weight = quantize(normal({out, in}, 4).to(at::kFloat), options);
  auto oracle = [=](const Tensors& v) {
    const at::Tensor w = dequantize_composed(weight, at::kFloat).to(at::kDouble);
    return Tensors{{"y", at::mm(v.at("x"), w.t())}, {"y.size", at::mm(v.at("x").abs(), w.t().abs())}};
  };
  const auto tensor = [](const char* name, const at::Tensor& value) {
    const bool bytes = value.scalar_type() == at::kByte;
    return input(name, bytes ? Store::u8 : Store::f32, value.to(bytes ? at::kLong : at::kDouble));
  };
  const auto book = [](const auto& values) { return at::tensor(at::ArrayRef<float>(values.data(), values.size())); };
  std::vector<Operand> operands{input("x", type, normal({rows, in}, 1)), tensor("codes", weight.codes), tensor("absmax", weight.absmax),
                                tensor("map", book(dynamic_book())), tensor("nf4", book(nf4_book())), tensor("e4m3", book(e4m3_book()).nan_to_num()),
                                output("y", type, {rows, out}, {.roundings = 1, .sums = 8, .reason = "a sum of products in fp32"})};
  if (weight.nested()) operands.push_back(tensor("scale", weight.absmax_scale));
  const std::string format = options.format == QuantizedFormat::int8 ? "int8" : options.format == QuantizedFormat::fp8 ? "fp8" : "nf4";
  const char* of_codes = format == "int8" ? "map" : format == "fp8" ? "e4m3" : "nf4";
  return make_case<RowProduct>("product", format + " " + (options.nested ? "nested " : "") + std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out) + " " + name_of(type),
                               operands, oracle, [=](Pointers& p) {
                                 RowProduct a{element(type), element(type), rows, in, out};
                                 a.x = p["x"], a.x_stride = in, a.y = p["y"], a.y_stride = out;
                                 a.blocks = blocks_of(weight), a.blocks.type = Element::f32;
                                 a.blocks.codes = p["codes"], a.blocks.book = p[of_codes], a.blocks.absmax_book = p["map"];
                                 if (weight.nested())
                                   a.blocks.absmax_codes = p["absmax"], a.blocks.absmax_scale = p["scale"];
                                 else
                                   a.blocks.absmax = p["absmax"];
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
  for (Store type : kFloats)
    for (const int64_t rows : {1, 6})
      for (const QuantizeOptions options : {QuantizeOptions{QuantizedFormat::nf4, false}, {QuantizedFormat::nf4, true}, {QuantizedFormat::int8, false}, {QuantizedFormat::fp8, false}})
        cases.push_back(product_of_books_case(type, options, rows, 192, 150));  // more blocks than a nested scale covers
  for (Store type : kFloats)
    for (const GgufType& gguf : gguf_types())
      for (const int64_t rows : {1, 2, 3, 4, 7})
        for (const int64_t in : {32, 768})
          if (in % block_elements(gguf.dtype) == 0) cases.push_back(product_of_blocks_case(type, gguf, rows, in, rows == 7 ? 21 : 5, rows % 2 == 0));
  // Tiles of eight, four, two rows and one; more rows of x than are words at a time; more columns
  // than a task has.
  const int64_t by_16[][3] = {{1, 32, 16}, {2, 96, 48}, {4, 64, 16}, {7, 768, 160}, {8, 96, 32}, {15, 2048, 64}, {43, 8192, 16}, {0, 32, 16}, {3, 64, 0}};
  for (Store type : kFloats)
    for (const GgufType& gguf : gguf_types())
      for (const auto& [rows, in, out] : by_16)
        if (coding_by_16(gguf.coding, out)) cases.push_back(product_by_16_case(type, gguf, rows, in, out, rows % 2 == 1, rows % 4 == 0));
}

}  // namespace forge::kernel_test
