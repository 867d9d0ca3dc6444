#include "kernels/latent/latent_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

const Tolerance kCopied{.roundings = 0, .sums = 0, .reason = "a copy"};
const Tolerance kSummed{.roundings = 1.01, .sums = 130, .reason = "a sum over the heads"};

struct Sizes {
  int64_t rows, heads, head_dim, rope_dim, value_dim;
  int64_t still() const { return head_dim - rope_dim; }
  int64_t width() const { return heads * head_dim; }
  std::string title(const char* what, const Layout& layout, Store type) const {
    return std::string(what) + " " + std::to_string(rows) + "x" + std::to_string(heads) + " of " +
           std::to_string(head_dim) + "," + std::to_string(rope_dim) + "," + std::to_string(value_dim) + " " +
           layout.name + " " + name_of(type);
  }
};

// Assembles the heads like core/model/forward.cpp. [rows, 3 · width]
at::Tensor put_together(const Tensors& in, const Sizes& s) {
  const auto q = in.at("q").view({s.rows, s.heads, s.head_dim}).split_with_sizes({s.still(), s.rope_dim}, 2);
  const auto kv = in.at("kv")
                      .view({s.rows, s.heads, s.still() + s.value_dim})
                      .split_with_sizes({s.still(), s.value_dim}, 2);
  const at::Tensor key = in.at("key").unsqueeze(1).expand({s.rows, s.heads, s.rope_dim});
  const at::Tensor k = at::cat({key, kv[0]}, 2),
                   v = at::constant_pad_nd(kv[1], {0, s.head_dim - s.value_dim});
  return at::cat({at::cat({q[1], q[0]}, 2).reshape({s.rows, s.width()}), k.reshape({s.rows, s.width()}),
                  v.reshape({s.rows, s.width()})},
                 1);
}

LatentHeads args_of(Store type, const Sizes& s, bool back, Pointers& p) {
  return {element(type),  s.rows,   s.heads,         s.head_dim,    s.rope_dim,
          s.value_dim,    back,     p["q"],          p.stride("q"), p["kv"],
          p.stride("kv"), p["key"], p.stride("key"), p["all"],      p.stride("all")};
}

Case heads_case(Store type, const Sizes& s, const Layout& layout, const Layout& of_key) {
  return make_case<LatentHeads>(
      "latent", s.title("heads", layout, type),
      {laid(input("q", type, normal({s.rows, s.width()}, 1)), layout),
       laid(input("kv", type, normal({s.rows, s.heads * (s.still() + s.value_dim)}, 2)), layout),
       laid(input("key", type, normal({s.rows, s.rope_dim}, 3)), of_key),
       laid(output("all", type, {s.rows, 3 * s.width()}, kCopied), layout)},
      [=](const Tensors& in) {
        return Tensors{{"all", put_together(in, s)}};
      },
      [=](Pointers& p) { return args_of(type, s, false, p); });
}
Case heads_case(Store type, const Sizes& s, const Layout& layout) { return heads_case(type, s, layout, layout); }

Case back_case(Store type, const Sizes& s, const Layout& layout) {
  const int64_t kv = s.heads * (s.still() + s.value_dim);
  return make_case<LatentHeads>(
      "latent", s.title("heads back", layout, type),
      {laid(output("q", type, {s.rows, s.width()}, kCopied), layout),
       laid(output("kv", type, {s.rows, kv}, kCopied), layout),
       laid(output("key", type, {s.rows, s.rope_dim}, kSummed), layout),
       laid(input("all", type, normal({s.rows, 3 * s.width()}, 4)), layout)},
      [=](const Tensors& in) {
        const auto zeros = [&](int64_t width) { return at::zeros({s.rows, width}, at::kDouble); };
        const Forward forward = [=](const Tensors& v) { return Tensors{{"all", put_together(v, s)}}; };
        Tensors out =
            gradients(forward, {{"q", zeros(s.width())}, {"kv", zeros(kv)}, {"key", zeros(s.rope_dim)}},
                      {"q", "kv", "key"}, {{"all", in.at("all")}});
        const at::Tensor keys =
            in.at("all").narrow(1, s.width(), s.width()).view({s.rows, s.heads, s.head_dim});
        out["key.size"] = keys.narrow(2, 0, s.rope_dim).abs().sum(1);
        return out;
      },
      [=](Pointers& p) { return args_of(type, s, true, p); });
}

Case trim_case(Store type, const Sizes& s, const Layout& layout, bool back) {
  const int64_t trimmed = s.heads * s.value_dim;
  const Operand x = back ? output("x", type, {s.rows, s.width()}, kCopied)
                         : input("x", type, normal({s.rows, s.width()}, 1)),
                y = back ? input("y", type, normal({s.rows, trimmed}, 2))
                         : output("y", type, {s.rows, trimmed}, kCopied);
  return make_case<TrimHeads>(
      "latent", s.title(back ? "trim back" : "trim", layout, type), {laid(x, layout), laid(y, layout)},
      [=](const Tensors& in) {
        if (!back)
          return Tensors{{"y", in.at("x")
                                   .view({s.rows, s.heads, s.head_dim})
                                   .narrow(2, 0, s.value_dim)
                                   .reshape({s.rows, trimmed})}};
        const at::Tensor y = in.at("y").view({s.rows, s.heads, s.value_dim});
        return Tensors{
            {"x", at::constant_pad_nd(y, {0, s.head_dim - s.value_dim}).reshape({s.rows, s.width()})}};
      },
      [=](Pointers& p) {
        return TrimHeads{bytes_of(element(type)), s.rows, s.heads,      s.head_dim, s.value_dim, back, p["x"],
                         p.stride("x"),           p["y"], p.stride("y")};
      });
}

// `first` may be 0: the groups then have two parts.
Case split_case(Store type, int64_t rows, int64_t groups, int64_t first, int64_t second, const Layout& layout, bool back) {
  const int64_t width = 2 * groups * (first + second);
  const Operand x = back ? output("x", type, {rows, width}, kCopied) : input("x", type, normal({rows, width}, 1)),
                y = back ? input("y", type, normal({rows, width}, 2)) : output("y", type, {rows, width}, kCopied);
  const std::string sizes = std::to_string(rows) + "x" + std::to_string(groups) + " of " + std::to_string(first) + "," + std::to_string(second);
  return make_case<SplitGroups>(
      "latent", std::string(back ? "split back " : "split ") + sizes + " " + layout.name + " " + name_of(type), {laid(x, layout), laid(y, layout)},
      [=](const Tensors& in) {
        const std::vector<int64_t> widths{first, first, second, second};
        std::vector<at::Tensor> parts;
        int64_t column = 0;
        for (int64_t part : widths) {
          const int64_t wide = groups * part;
          if (back) parts.push_back(in.at("y").narrow(1, column, wide).reshape({rows, groups, part}));
          column += wide;
        }
        if (back) return Tensors{{"x", at::cat(parts, 2).reshape({rows, width})}};
        for (const at::Tensor& part : in.at("x").reshape({rows, groups, width / groups}).split_with_sizes(widths, 2))
          parts.push_back(part.reshape({rows, -1}));
        return Tensors{{"y", at::cat(parts, 1)}};
      },
      [=](Pointers& p) {
        return SplitGroups{bytes_of(element(type)), rows, groups, first, second, back, p["x"], p.stride("x"), p["y"], p.stride("y")};
      });
}

}  // namespace

void add_latent_cases(std::vector<Case>& cases) {
  const Sizes sizes[] = {{1, 1, 3, 2, 1},     {5, 3, 16, 6, 8},  {7, 2, 24, 8, 24},
                         {20, 4, 48, 16, 32}, {3, 40, 10, 4, 7}, {0, 2, 8, 4, 4}};
  for (Store type : kFloats) {
    for (const Sizes& s : sizes)
      for (const Layout& layout : kLayouts) {
        cases.push_back(heads_case(type, s, layout));
        cases.push_back(back_case(type, s, layout));
        for (const bool back : {false, true}) cases.push_back(trim_case(type, s, layout, back));
      }
    for (const bool back : {false, true}) {
      for (const Layout& layout : kLayouts) {
        cases.push_back(split_case(type, 5, 3, 4, 6, layout, back));
        cases.push_back(split_case(type, 7, 4, 0, 1, layout, back));
        cases.push_back(split_case(type, 20, 2, 0, 16, layout, back));
      }
      add_alone(cases, split_case(type, 3, 2, 16, 32, kDense, back));
    }
    // Heads or their values that are no whole vectors, in rows that are.
    for (const Sizes& s : {Sizes{3, 4, 6, 4, 4}, {3, 4, 8, 4, 6}, {3, 2, 12, 8, 8}, {3, 4, 16, 8, 12}}) {
      cases.push_back(heads_case(type, s, kDense));
      cases.push_back(back_case(type, s, kDense));
      for (const bool back : {false, true}) cases.push_back(trim_case(type, s, kDense, back));
    }
    // The key has a gap after it.
    cases.push_back(heads_case(type, {3, 4, 16, 14, 8}, kDense, {"", 2, 0}));
    add_alone(cases, heads_case(type, {5, 2, 48, 16, 32}, kDense));
    add_alone(cases, back_case(type, {5, 2, 48, 16, 32}, kDense));
    add_alone(cases, trim_case(type, {5, 2, 48, 16, 32}, kDense, false));
    add_alone(cases, trim_case(type, {5, 2, 48, 16, 32}, kDense, true));
  }
  // More blocks of columns than a byte counts.
  const Sizes wide{1, 1, 17001, 2, 1};
  cases.push_back(heads_case(Store::f32, wide, kDense));
  cases.push_back(back_case(Store::f32, wide, kDense));
  cases.push_back(trim_case(Store::f32, {1, 1, kPastBlocks, 1, kPastBlocks - 1}, kDense, false));
  cases.push_back(trim_case(Store::f32, {kPastGrid, 1, 2, 1, 1}, kDense, false));
  cases.push_back(heads_case(Store::f32, {kPastGrid, 1, 3, 2, 1}, kDense));
  cases.push_back(back_case(Store::f32, {kPastGrid, 1, 3, 2, 1}, kDense));
}

}  // namespace forge::kernel_test
