#include "kernels/rows/rows_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

std::string title(const std::string& what, int64_t rows, int64_t width, const Layout& layout, Store type) {
  return what + " " + std::to_string(rows) + "x" + std::to_string(width) + " " + layout.name + " " + name_of(type);
}

const Tolerance kCopied{.roundings = 0, .sums = 0, .reason = "a copy"};
// Adds fp16 rows to fp32 rows, like the residual stream's.
Case add_narrow_case(int64_t rows, int64_t width, const Layout& layout, bool apart) {
  const Tolerance once{.roundings = 1.01, .sums = 1, .reason = "one sum"};
  std::vector<Operand> operands{laid(input("x", Store::f16, normal({rows, width}, 1)), layout)};
  const at::Tensor before = normal({rows, width}, 2, 0x1p18);
  if (apart) operands.push_back(laid(input("to", Store::f32, before), layout));
  operands.push_back(laid(apart ? output("y", Store::f32, {rows, width}, once) : in_out("y", Store::f32, before, once), layout));
  return make_case<AddRows>(
      "rows", title(apart ? "add fp16, apart" : "add fp16", rows, width, layout, Store::f32), operands,
      [=](const Tensors& in) { return Tensors{{"y", in.at("x") + in.at(apart ? "to" : "y")}}; },
      [=](Pointers& p) {
        AddRows a{Element::f32, rows, width, p["x"], p.stride("x"), p["y"], p.stride("y"), Element::f16};
        if (apart) a.to = p["to"], a.to_stride = p.stride("to");
        return a;
      });
}

Case add_apart_case(Store type, int64_t rows, int64_t width, const Layout& layout) {
  return make_case<AddRows>(
      "rows", title("add, apart", rows, width, layout, type),
      {laid(input("x", type, normal({rows, width}, 1)), layout), laid(input("to", type, normal({rows, width}, 2)), layout),
       laid(output("y", type, {rows, width}, {.roundings = 1.01, .sums = 1, .reason = "one sum"}), layout)},
      [](const Tensors& in) { return Tensors{{"y", in.at("x") + in.at("to")}}; },
      [=](Pointers& p) {
        AddRows a{element(type), rows, width, p["x"], p.stride("x"), p["y"], p.stride("y")};
        a.to = p["to"], a.to_stride = p.stride("to");
        return a;
      });
}

Case cast_case(Store from, Store to, int64_t rows, int64_t width, const Layout& layout, bool accumulate) {
  const Tolerance once{.roundings = 1.01, .sums = 1, .reason = "one rounding, and one sum"};
  return make_case<ScaleRows>(
      "rows", title(accumulate ? "cast and add" : "cast", rows, width, layout, to),
      {laid(input("x", from, normal({rows, width}, 1)), layout),
       laid(accumulate ? in_out("y", to, normal({rows, width}, 2), once) : output("y", to, {rows, width}, once), layout)},
      [=](const Tensors& in) {
        return Tensors{{"y", accumulate ? in.at("x") + in.at("y") : in.at("x")},
                       {"y.size", in.at("x").abs() + (accumulate ? in.at("y").abs() : at::zeros_like(in.at("x")))}};
      },
      [=](Pointers& p) {
        return ScaleRows{element(to), rows, width, p["x"], p.stride("x"), p["y"], p.stride("y"), 1, accumulate, element(from)};
      });
}

enum class Indexed { neither, from, to };

// Returns some rows of 2 · rows + 1, none twice, not in order.
at::Tensor some_rows(int64_t rows) { return (at::arange(rows, at::kLong) * 2).flip(0); }

Case copy_case(Store type, int64_t rows, int64_t width, const Layout& layout, Indexed indexed) {
  const int64_t more = 2 * rows + 1;
  const bool from = indexed == Indexed::from, to = indexed == Indexed::to;
  const at::Tensor index = some_rows(rows);
  std::vector<Operand> operands{laid(input("x", type, normal({from ? more : rows, width}, 1)), layout)};
  // Rows that `to` does not name stay as they are.
  operands.push_back(to ? laid(in_out("y", type, normal({more, width}, 2), kCopied), layout)
                        : laid(output("y", type, {rows, width}, kCopied), layout));
  if (indexed != Indexed::neither) operands.push_back(input("index", Store::i64, index));
  const char* name = from ? "gather" : to ? "scatter" : "copy";
  return make_case<CopyRows>(
      "rows", title(name, rows, width, layout, type), operands,
      [=](const Tensors& in) {
        if (from) return Tensors{{"y", in.at("x").index_select(0, in.at("index"))}};
        if (to) return Tensors{{"y", in.at("y").index_copy(0, in.at("index"), in.at("x"))}};
        return Tensors{{"y", in.at("x")}};
      },
      [=](Pointers& p) {
        CopyRows a{bytes_of(element(type)), rows, width, p["x"], p.stride("x")};
        if (from) a.from = p["index"];
        a.y = p["y"], a.y_stride = p.stride("y");
        if (to) a.to = p["index"];
        return a;
      });
}

Case bias_case(Store type, int64_t rows, int64_t width, const Layout& layout) {
  return make_case<CopyRows>(
      "rows", title("one row to all", rows, width, layout, type),
      {input("x", type, normal({width}, 1)), laid(output("y", type, {rows, width}, kCopied), layout)},
      [=](const Tensors& in) { return Tensors{{"y", in.at("x").expand({rows, width}).clone()}}; },
      [=](Pointers& p) {
        return CopyRows{bytes_of(element(type)), rows, width, p["x"], 0, nullptr, p["y"], p.stride("y")};
      });
}

Case add_case(Store type, int64_t rows, int64_t width, const Layout& layout) {
  return make_case<AddRows>(
      "rows", title("add", rows, width, layout, type),
      {laid(input("x", type, normal({rows, width}, 1)), layout),
       laid(in_out("y", type, normal({rows, width}, 2), {.roundings = 1.01, .sums = 1, .reason = "one sum"}), layout)},
      [](const Tensors& in) { return Tensors{{"y", in.at("x") + in.at("y")}}; },
      [=](Pointers& p) {
        return AddRows{element(type), rows, width, p["x"], p.stride("x"), p["y"], p.stride("y")};
      });
}

Case scale_case(Store type, int64_t rows, int64_t width, const Layout& layout, bool accumulate) {
  constexpr float kFactor = 0.3f;
  const Tolerance once{.roundings = 1.01, .sums = 2, .reason = "one product, and one sum"};
  return make_case<ScaleRows>(
      "rows", title(accumulate ? "scale and add" : "scale", rows, width, layout, type),
      {laid(input("x", type, normal({rows, width}, 1)), layout),
       laid(accumulate ? in_out("y", type, normal({rows, width}, 2), once) : output("y", type, {rows, width}, once), layout)},
      [=](const Tensors& in) {
        const at::Tensor scaled = in.at("x") * static_cast<double>(kFactor);
        return Tensors{{"y", accumulate ? scaled + in.at("y") : scaled},
                       {"y.size", scaled.abs() + (accumulate ? in.at("y").abs() : at::zeros_like(scaled))}};
      },
      [=](Pointers& p) {
        return ScaleRows{element(type), rows, width, p["x"], p.stride("x"), p["y"], p.stride("y"), kFactor, accumulate};
      });
}

// Regroups heads to [rows, groups, shared + 2, head_dim] or back.
Case regroup_case(Store type, int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim, const Layout& layout,
                  bool to_groups) {
  const int64_t shared = heads / kv_heads, width = (heads + 2 * kv_heads) * head_dim;
  return make_case<RegroupHeads>(
      "rows", title(to_groups ? "heads to groups" : "heads apart", rows, width, layout, type),
      {laid(input("x", type, normal({rows, width}, 1)), layout), laid(output("y", type, {rows, width}, kCopied), layout)},
      [=](const Tensors& in) {
        const at::Tensor& x = in.at("x");
        const auto part = [&](int64_t first, int64_t count) {
          return x.narrow(1, first * head_dim, count * head_dim).view({rows, kv_heads, count / kv_heads, head_dim});
        };
        if (to_groups)
          return Tensors{{"y", at::cat({part(0, heads), part(heads, kv_heads), part(heads + kv_heads, kv_heads)}, 2)
                                   .reshape({rows, width})}};
        const at::Tensor groups = x.view({rows, kv_heads, shared + 2, head_dim});
        return Tensors{{"y", at::cat({groups.narrow(2, 0, shared).flatten(1), groups.narrow(2, shared, 1).flatten(1),
                                      groups.narrow(2, shared + 1, 1).flatten(1)},
                                     1)}};
      },
      [=](Pointers& p) {
        return RegroupHeads{bytes_of(element(type)), rows,   heads,         kv_heads, head_dim,
                            to_groups,               p["x"], p.stride("x"), p["y"],   p.stride("y")};
      });
}

Case sum_case(Store type, int64_t rows, int64_t width, const Layout& layout) {
  return make_case<SumColumns>(
      "rows", title("sum", rows, width, layout, type),
      {laid(input("x", type, normal({rows, width}, 1)), layout),
       in_out("sum", Store::f32, normal({width}, 2),
              {.roundings = 1, .sums = 8 + static_cast<double>(rows) / 8, .reason = "an fp32 sum over the rows, eight at once"})},
      [](const Tensors& in) {
        return Tensors{{"sum", in.at("sum") + in.at("x").sum(0)}, {"sum.size", in.at("sum").abs() + in.at("x").abs().sum(0)}};
      },
      [=](Pointers& p) { return SumColumns{element(type), rows, width, p["x"], p.stride("x"), p["sum"]}; });
}

Case convert_case(Store from, Store to, int64_t count, const Layout& layout) {
  return make_case<ConvertElements>(
      "rows", title(std::string("convert ") + name_of(from) + " to", 1, count, layout, to),
      {laid(input("x", from, normal({1, count}, 1)), layout),
       laid(output("y", to, {1, count}, {.roundings = 1.01, .sums = 0, .reason = "one rounding"}), layout)},
      [](const Tensors& in) { return Tensors{{"y", in.at("x")}}; },
      [=](Pointers& p) { return ConvertElements{element(from), element(to), count, p["x"], p["y"]}; });
}

}  // namespace

void add_rows_cases(std::vector<Case>& cases) {
  const int64_t shapes[][2] = {{1, 1}, {3, 7}, {9, 64}, {20, 33}, {2, 1030}, {0, 5}};
  const Indexed kinds[] = {Indexed::neither, Indexed::from, Indexed::to};
  for (Store type : kFloats)
    for (auto [rows, width] : shapes)
      for (const Layout& layout : kLayouts) {
        for (Indexed indexed : kinds) cases.push_back(copy_case(type, rows, width, layout, indexed));
        cases.push_back(bias_case(type, rows, width, layout));
        cases.push_back(add_case(type, rows, width, layout));
        cases.push_back(sum_case(type, rows, width, layout));
      }
  for (Store type : kFloats) {
    for (Indexed indexed : kinds) add_alone(cases, copy_case(type, 5, 48, kDense, indexed));
    add_alone(cases, add_case(type, 5, 48, kDense));
    add_alone(cases, sum_case(type, 5, 48, kDense));
    cases.push_back(copy_case(type, 4, 61, kRagged, Indexed::from));
    cases.push_back(add_case(type, 4, 61, kRagged));
    for (Store to : kFloats)
      for (int64_t count : {0, 1, 7, 300}) cases.push_back(convert_case(type, to, count, kLayouts[count % 2 * 2]));
  }
  for (Store type : kFloats)
    for (const Layout& layout : kLayouts)
      for (const bool flag : {false, true}) {
        cases.push_back(scale_case(type, 5, 33, layout, flag));
        cases.push_back(regroup_case(type, 7, 4, 4, 3, layout, flag));
        cases.push_back(regroup_case(type, 3, 6, 2, 8, layout, flag));
      }
  for (Store type : kFloats) {
    cases.push_back(over(scale_case(type, 5, 48, kDense, false), "y", "x"));
    add_alone(cases, scale_case(type, 5, 48, kDense, true));
    cases.push_back(regroup_case(type, 4, 3, 1, 5, kRagged, false));
    for (const bool flag : {false, true}) {
      add_alone(cases, regroup_case(type, 3, 6, 2, 8, kDense, flag));
      cases.push_back(regroup_case(type, 5, 4, 2, 3, kDense, flag));  // rows that are whole vectors, of heads that are none
    }
    cases.push_back(regroup_case(type, 0, 4, 2, 8, kDense, false));
    cases.push_back(scale_case(type, 0, 5, kDense, false));
  }
  const int64_t narrow_shapes[][2] = {{1, 1}, {3, 7}, {9, 64}, {20, 33}, {2, 1030}, {0, 5}};
  for (auto [rows, width] : narrow_shapes)
    for (const Layout& layout : kLayouts) {
      for (const bool apart : {false, true}) cases.push_back(add_narrow_case(rows, width, layout, apart));
      cases.push_back(add_apart_case(Store::f32, rows, width, layout));
      cases.push_back(cast_case(Store::f32, Store::f16, rows, width, layout, false));
      for (const bool accumulate : {false, true}) cases.push_back(cast_case(Store::f16, Store::f32, rows, width, layout, accumulate));
    }
  for (const bool apart : {false, true}) {
    add_alone(cases, add_narrow_case(5, 48, kDense, apart));
    add_alone(cases, cast_case(apart ? Store::f32 : Store::f16, apart ? Store::f16 : Store::f32, 5, 48, kDense, !apart));
    cases.push_back(add_narrow_case(4, 61, kRagged, apart));
  }
  add_alone(cases, add_apart_case(Store::f16, 5, 48, kDense));
  cases.push_back(over(add_narrow_case(5, 48, kDense, true), "y", "to"));
  // More rows than a grid is high; more elements than the largest grid has threads.
  cases.push_back(copy_case(Store::f32, kPastGrid, 1, kDense, Indexed::from));
  cases.push_back(add_case(Store::f32, kPastGrid, 1, kDense));
  cases.push_back(scale_case(Store::f32, kPastGrid, 1, kDense, false));
  cases.push_back(regroup_case(Store::f32, kPastGrid, 1, 1, 1, kDense, false));
  // More columns than a byte counts blocks.
  cases.push_back(copy_case(Store::f32, 1, kPastBlocks, kDense, Indexed::neither));
  cases.push_back(add_case(Store::f32, 1, kPastBlocks, kDense));
  cases.push_back(scale_case(Store::f32, 1, kPastBlocks, kDense, false));
  cases.push_back(regroup_case(Store::f32, 1, 1, 1, kPastBlocks, kDense, false));
  cases.push_back(sum_case(Store::f32, 2, 130 * 32, kDense));
  cases.push_back(sum_case(Store::f32, 500, 70, kDense));
  cases.push_back(sum_case(Store::f32, 3, 0, kDense));
  cases.push_back(convert_case(Store::f32, Store::bf16, 4096 * 256 + 5, kDense));
}

}  // namespace forge::kernel_test
