#include "kernels/lora/lora_linear_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

constexpr double kScale = 1.7;

struct Setting {
  std::string name;
  int64_t tokens, width, rank;
  std::vector<int64_t> outs;

  int64_t members() const { return static_cast<int64_t>(outs.size()); }
  int64_t ranks() const { return members() * rank; }
  int64_t sum_outs() const {
    int64_t sum = 0;
    for (int64_t out : outs) sum += out;
    return sum;
  }
};

// [W, s·B; A, rubbish], as the header draws it.
at::Tensor packed(const Setting& s) {
  int64_t outs = s.sum_outs(), ranks = s.ranks();
  at::Tensor all = normal({outs + ranks, s.width + ranks}, 2, 0.2);
  at::Tensor b = all.narrow(0, 0, outs).narrow(1, s.width, ranks),
             kept = at::zeros({outs, ranks}, at::kDouble);
  for (int64_t i = 0, first = 0; i < s.members(); first += s.outs[static_cast<size_t>(i++)])
    kept.narrow(0, first, s.outs[static_cast<size_t>(i)]).narrow(1, i * s.rank, s.rank).fill_(kScale);
  b.mul_(kept);
  return all;
}

// The parts of what a kernel receives.
struct Parts {
  at::Tensor x, w, scaled_b, a;
};

Parts parts_of(const Setting& s, const Tensors& in) {
  at::Tensor all = in.at("packed");
  int64_t outs = s.sum_outs(), ranks = s.ranks();
  return {in.at("x").narrow(1, 0, s.width), all.narrow(0, 0, outs).narrow(1, 0, s.width),
          all.narrow(0, 0, outs).narrow(1, s.width, ranks), all.narrow(0, outs, ranks).narrow(1, 0, s.width)};
}

Tolerance tolerance(double roundings) {
  return {.roundings = roundings,
          .sums = 24,
          .reason =
              "fp32 sums; S or d S rounded to the type (in size); one rounding, two where a second product "
              "is added"};
}

// What S or d S, rounded to a 16-bit type, adds to the size of a sum of `terms`.
at::Tensor rounded(Store type, const at::Tensor& terms) {
  double unit = type == Store::bf16 ? 0x1p-8 : type == Store::f16 ? 0x1p-11 : 0;
  return terms * (unit * 0x1p24 / 24);
}

LoraLinear linear_of(Store type, const Setting& s, LoraSchedule schedule, Pointers& p) {
  LoraLinear l{element(type), schedule, s.tokens, s.width, s.rank, s.members()};
  for (size_t i = 0; i < s.outs.size(); ++i) l.out[i] = s.outs[i];
  l.scale = static_cast<float>(kScale), l.packed = p["packed"], l.packed_stride = p.stride("packed");
  l.x = p["x"], l.x_stride = p.stride("x"), l.y = p["y"], l.y_stride = p.stride("y");
  return l;
}

std::string name_of_case(const char* direction, Store type, const Setting& s, LoraSchedule schedule,
                         const Layout& layout) {
  return std::string("linear ") + direction +
         (schedule == LoraSchedule::separate ? " separate " : " concatenated ") + s.name + " " + layout.name +
         " " + name_of(type);
}

Case forward_case(Store type, const Setting& s, LoraSchedule schedule, const Layout& layout) {
  const int64_t outs = s.sum_outs(), ranks = s.ranks();
  auto oracle = [=](const Tensors& in) {
    Parts p = parts_of(s, in);
    at::Tensor S = p.x.mm(p.a.t()), reach = p.x.abs().mm(p.a.abs().t()),
               spare = in.at("y").narrow(1, outs, ranks);
    return Tensors{{"x", at::cat({p.x, S}, 1)},
                   {"x.size", at::cat({at::zeros_like(p.x), reach}, 1)},
                   {"y", at::cat({p.x.mm(p.w.t()) + S.mm(p.scaled_b.t()), spare}, 1)},
                   {"y.size", at::cat({p.x.abs().mm(p.w.abs().t()) + reach.mm(p.scaled_b.abs().t()) +
                                           rounded(type, S.abs().mm(p.scaled_b.abs().t())),
                                       spare.abs()},
                                      1)}};
  };
  return make_case<LoraLinearForward>(
      "lora", name_of_case("forward", type, s, schedule, layout),
      {laid(in_out("x", type, normal({s.tokens, s.width + ranks}, 1), tolerance(1.01)), layout),
       laid(input("packed", type, packed(s)), layout),
       laid(in_out("y", type, normal({s.tokens, outs + ranks}, 5), tolerance(2.01)), layout)},
      oracle, [=](Pointers& p) { return LoraLinearForward{linear_of(type, s, schedule, p)}; });
}

Case backward_case(Store type, const Setting& s, LoraSchedule schedule, const Layout& layout) {
  const int64_t outs = s.sum_outs(), ranks = s.ranks();
  auto oracle = [=](const Tensors& in) {
    Parts p = parts_of(s, in);
    at::Tensor d_y = in.at("y").narrow(1, 0, outs), S = in.at("x").narrow(1, s.width, ranks);
    // d x, d A by autograd of y = x Wᵀ + (x Aᵀ) (s·B)ᵀ; d B takes the S that the forward stored.
    Forward forward = [&](const Tensors& v) {
      return Tensors{{"y", v.at("x").mm(p.w.t()) + v.at("x").mm(v.at("a").t()).mm(p.scaled_b.t())}};
    };
    Tensors grads = gradients(forward, {{"x", p.x}, {"a", p.a}}, {"x", "a"}, {{"y", d_y}});
    at::Tensor d_s = d_y.mm(p.scaled_b), d_s_reach = d_y.abs().mm(p.scaled_b.abs());
    Tensors out{{"y", at::cat({d_y, d_s}, 1)},
                {"y.size", at::cat({at::zeros_like(d_y), d_s_reach}, 1)},
                {"d_x", grads.at("x")},
                {"d_x.size",
                 d_y.abs().mm(p.w.abs()) + d_s_reach.mm(p.a.abs()) + rounded(type, d_s.abs().mm(p.a.abs()))},
                {"d_a", in.at("d_a") + grads.at("a")},
                {"d_a.size", in.at("d_a").abs() + d_s_reach.t().mm(p.x.abs()) +
                                 rounded(type, d_s.abs().t().mm(p.x.abs()))}};
    std::vector<at::Tensor> d_b, size;
    for (int64_t i = 0, first = 0; i < s.members(); first += s.outs[static_cast<size_t>(i++)]) {
      at::Tensor own = d_y.narrow(1, first, s.outs[static_cast<size_t>(i)]),
                 own_s = S.narrow(1, i * s.rank, s.rank);
      d_b.push_back(kScale * own.t().mm(own_s)), size.push_back(kScale * own.abs().t().mm(own_s.abs()));
    }
    out["d_b"] = in.at("d_b") + at::cat(d_b), out["d_b.size"] = in.at("d_b").abs() + at::cat(size);
    return out;
  };
  return make_case<LoraLinearBackward>(
      "lora", name_of_case("backward", type, s, schedule, layout),
      {laid(input("x", type, normal({s.tokens, s.width + ranks}, 1)), layout),
       laid(input("packed", type, packed(s)), layout),
       laid(in_out("y", type, normal({s.tokens, outs + ranks}, 5), tolerance(1.01)), layout),
       laid(output("d_x", type, {s.tokens, s.width}, tolerance(2.01)), layout),
       in_out("d_a", Store::f32, normal({ranks, s.width}, 8), tolerance(1)),
       in_out("d_b", Store::f32, normal({outs, s.rank}, 9), tolerance(1))},
      oracle, [=](Pointers& p) {
        return LoraLinearBackward{linear_of(type, s, schedule, p), p["d_x"], p.stride("d_x"), p["d_a"],
                                  p["d_b"]};
      });
}

}  // namespace

void add_lora_linear_cases(std::vector<Case>& cases) {
  const Setting settings[] = {{"1x1", 1, 1, 1, {1}},
                              {"qkv", 33, 48, 8, {48, 16, 16}},
                              {"gate and up", 9, 33, 4, {50, 50}},
                              {"no tokens", 0, 8, 2, {4}}};
  for (Store type : kFloats)
    for (const Setting& setting : settings)
      for (LoraSchedule schedule : {LoraSchedule::separate, LoraSchedule::concatenated})
        for (const Layout& layout : kLayouts) {
          cases.push_back(forward_case(type, setting, schedule, layout));
          cases.push_back(backward_case(type, setting, schedule, layout));
        }
  for (Store type : kFloats)
    for (LoraSchedule schedule : {LoraSchedule::separate, LoraSchedule::concatenated}) {
      const Case backward = backward_case(type, {"alone", 5, 16, 4, {12, 8}}, schedule, kDense);
      add_alone(cases, backward);
      cases.push_back(not_wanted(backward, "d_x"));
    }
}

}  // namespace forge::kernel_test
