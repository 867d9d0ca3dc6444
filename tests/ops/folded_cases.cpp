#include "kernels/lora/folded_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  std::string name;
  int64_t tokens, width;               // of x, if the case has it
  std::vector<FoldedMember> members;   // out, rank, scale
  bool kept = true;
  int64_t planned = 0, multiprocessors = 128;
};

int64_t total(const Setting& s, int64_t FoldedMember::* size) {
  int64_t sum = 0;
  for (const FoldedMember& m : s.members) sum += m.*size;
  return sum;
}

Operand counters() { return in_out("counters", Store::i32, at::zeros({kFoldedCounters}, at::kLong), {.roundings = 0, .sums = 0, .reason = "zeros again"}); }

std::string title(const char* direction, const Setting& s, const Layout& layout, Store type) {
  return std::string(direction) + " " + s.name + " " + layout.name + " " + name_of(type);
}

// Returns the scale of each rank, as a row.
at::Tensor scales(const Setting& s) {
  std::vector<at::Tensor> all{at::empty({0}, at::kDouble)};
  for (const FoldedMember& m : s.members) all.push_back(at::full({m.rank}, static_cast<double>(m.scale), at::kDouble));
  return at::cat(all);
}

Case sums_case(Store type, const Setting& s, const Layout& layout) {
  const int64_t ranks = total(s, &FoldedMember::rank);
  const Tolerance tolerance{.roundings = 1.01, .sums = 8 + static_cast<double>(s.width) / 16, .reason = "an fp32 sum over width, one rounding"};
  std::vector<Operand> operands{laid(input("x", type, normal({s.tokens, s.width}, 1)), layout),
                                laid(input("a", type, normal({ranks, s.width}, 2, 0.2)), layout),
                                laid(output("s", type, {s.tokens, ranks}, tolerance), layout), counters()};
  if (s.kept) operands.push_back(laid(output("kept", type, {s.tokens, ranks}, tolerance), layout));
  return make_case<AdapterSums>(
      "folded", title("sums", s, layout, type), operands,
      [=](const Tensors& in) {
        const at::Tensor sums = in.at("x").mm(in.at("a").t()) * scales(s), size = in.at("x").abs().mm(in.at("a").abs().t()) * scales(s);
        return Tensors{{"s", sums}, {"kept", sums}, {"s.size", size}, {"kept.size", size}, {"counters", in.at("counters")}};
      },
      [=](Pointers& p) {
        AdapterSums args{.type = element(type),
                         .tokens = s.tokens,
                         .planned = s.planned,
                         .multiprocessors = s.multiprocessors,
                         .width = s.width,
                         .members = static_cast<int64_t>(s.members.size())};
        std::copy(s.members.begin(), s.members.end(), args.member);
        args.x = p["x"], args.x_stride = p.stride("x"), args.a = p["a"], args.a_stride = p.stride("a");
        args.s = p["s"], args.s_stride = p.stride("s"), args.counters = p["counters"];
        if (s.kept) args.kept = p["kept"], args.kept_stride = p.stride("kept");
        return args;
      });
}

std::string numbered(size_t i) { return "d_b" + std::to_string(i); }

Case gradient_case(Store type, const Setting& s, const Layout& layout) {
  const int64_t ranks = total(s, &FoldedMember::rank), outs = total(s, &FoldedMember::out);
  const Tolerance narrow{.roundings = 1.01, .sums = 8 + static_cast<double>(outs) / 16, .reason = "an fp32 sum over outputs, one rounding"};
  const Tolerance wide{.roundings = 1.01, .sums = 12 + static_cast<double>(s.tokens) / 16, .reason = "an fp32 sum over tokens"};
  std::vector<Operand> operands{laid(input("d_y", type, normal({s.tokens, outs}, 1)), layout),
                                laid(input("b", type, normal({outs, ranks}, 2, 0.3)), layout),
                                laid(input("s", type, normal({s.tokens, ranks}, 3)), layout),
                                laid(output("d_s", type, {s.tokens, ranks}, narrow), layout), counters()};
  for (size_t i = 0; i < s.members.size(); ++i)
    if (s.members[i].rank > 0)
      operands.push_back(in_out(numbered(i), Store::f32, normal({s.members[i].out, s.members[i].rank}, 10 + i), wide));
  // Calls visit(member, d y, b, s) with each member's own columns.
  const auto each = [=](const Tensors& in, auto visit) {
    int64_t column = 0, rank = 0;
    for (size_t i = 0; i < s.members.size(); ++i) {
      const FoldedMember& m = s.members[i];
      if (m.rank > 0)
        visit(i, in.at("d_y").narrow(1, column, m.out), in.at("b").narrow(0, column, m.out).narrow(1, rank, m.rank), in.at("s").narrow(1, rank, m.rank));
      column += m.out, rank += m.rank;
    }
  };
  return make_case<AdapterSumsGradient>(
      "folded", title("gradient", s, layout, type), operands,
      [=](const Tensors& in) {
        Tensors out{{"counters", in.at("counters")}};
        std::vector<at::Tensor> d_s, size;
        each(in, [&](size_t i, const at::Tensor& d_y, const at::Tensor& b, const at::Tensor& sums) {
          d_s.push_back(s.members[i].scale * d_y.mm(b)), size.push_back(s.members[i].scale * d_y.abs().mm(b.abs()));
          out[numbered(i)] = in.at(numbered(i)) + d_y.t().mm(sums);
          out[numbered(i) + ".size"] = in.at(numbered(i)).abs() + d_y.abs().t().mm(sums.abs());
        });
        out["d_s"] = at::cat(d_s, 1), out["d_s.size"] = at::cat(size, 1);
        return out;
      },
      [=](Pointers& p) {
        AdapterSumsGradient args{.type = element(type),
                                 .tokens = s.tokens,
                                 .planned = s.planned,
                                 .multiprocessors = s.multiprocessors,
                                 .members = static_cast<int64_t>(s.members.size())};
        for (size_t i = 0; i < s.members.size(); ++i) {
          args.member[i] = s.members[i];
          if (s.members[i].rank > 0) args.member[i].d_b = p[numbered(i)];
        }
        args.d_y = p["d_y"], args.d_y_stride = p.stride("d_y"), args.b = p["b"], args.b_stride = p.stride("b");
        args.s = p["s"], args.s_stride = p.stride("s"), args.d_s = p["d_s"], args.d_s_stride = p.stride("d_s");
        args.counters = p["counters"];
        return args;
      });
}

}  // namespace

void add_folded_cases(std::vector<Case>& cases) {
  const Setting settings[] = {{"1 token, rank 1", 1, 1, {{1, 1, 0.5f}}},
                              {"q, k, v", 18, 70, {{64, 4, 2}, {16, 4, 2}, {16, 4, 2}}},
                              {"of several scales", 70, 130, {{24, 16, 2}, {40, 9, 0.25f}, {8, 9, 0.25f}}},
                              {"a module without one", 5, 33, {{7, 0}, {40, 5, 1.5f}, {9, 0}, {300, 2, 1.5f}}},
                              {"no tokens", 0, 64, {{64, 8, 2}}}};
  for (Store type : {Store::bf16, Store::f16})
    for (const Setting& s : settings)
      for (const Layout& layout : kLayouts) cases.push_back(sums_case(type, s, layout)), cases.push_back(gradient_case(type, s, layout));
  for (Store type : {Store::bf16, Store::f16}) {
    const Setting aligned{"aligned", 67, 136, {{48, 8, 2}, {160, 24, 0.5f}}};
    add_alone(cases, sums_case(type, aligned, kDense));
    add_alone(cases, gradient_case(type, aligned, kDense));
    cases.push_back(sums_case(type, {"width that ends in a vector", 3, 133, {{1, 17, 2}}}, kRagged));
    // Members that begin within a vector, in rows that are whole ones.
    cases.push_back(gradient_case(type, {"the only one within a vector", 19, 64, {{4, 0}, {28, 5, 0.5f}}}, kDense));
    cases.push_back(gradient_case(type, {"the last within a vector", 19, 64, {{16, 4, 2}, {4, 5, 0.5f}, {12, 3, 1}}}, kDense));
    const Setting chunks{"several chunks of ranks", 66, 140, {{150, 150, 0.5f}}, false};
    cases.push_back(sums_case(type, chunks, kDense));
    cases.push_back(gradient_case(type, chunks, kDense));
    // These settings are laid out for so many tokens that a block has several tiles of columns and
    // of tokens.
    const Setting several{"several tiles", 150, 300, {{270, 3, 2}, {140, 20, 0.5f}}, true, 70'000};
    cases.push_back(sums_case(type, several, kDense));
    cases.push_back(gradient_case(type, several, kDense));
    // One block, and as many as there are tiles.
    for (const int64_t multiprocessors : {1, 1000}) {
      const Setting card{"a GPU of " + std::to_string(multiprocessors), 150, 300, {{270, 3, 2}, {140, 20, 0.5f}}, true, 0, multiprocessors};
      cases.push_back(sums_case(type, card, kDense));
      cases.push_back(gradient_case(type, card, kDense));
    }
  }
}

}  // namespace forge::kernel_test
