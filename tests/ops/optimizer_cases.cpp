#include <cmath>
#include <limits>

#include "kernels/optimizer/optimizer_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

constexpr double kLr = 3e-3, kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-8, kDecay = 0.1;

at::Tensor with(at::Tensor values, int64_t index, double value) {
  values[index] = value;
  return values;
}

Case norm_case(const std::string& name, const at::Tensor& grad, double unscale, double max_norm) {
  auto oracle = [=](const Tensors& in) {
    at::Tensor g = in.at("grad");
    double norm = g.square().sum().sqrt().item<double>() * unscale;
    double scale = unscale * (max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0);
    bool finite = at::isfinite(g).all().item<bool>();
    return Tensors{{"verdict", at::tensor({norm, scale, finite ? 1.0 : 0.0}, at::kDouble).unsqueeze(1)}};
  };
  return make_case<FlatNorm>(
      "optimizer", "norm " + name,
      {input("grad", Store::f32, grad), input("unscale", Store::f32, at::tensor({unscale}, at::kDouble)),
       output("verdict", Store::f32, {3, 1},
              {.roundings = 2, .sums = 2, .reason = "fp32 sums of 64 squares a lane, then double"})},
      oracle, [=](Pointers& p) {
        return FlatNorm{grad.size(0), p["grad"], p["unscale"], static_cast<float>(max_norm),
                        p["verdict"]};
      });
}

at::Tensor verdict(double scale, bool finite) {
  return at::tensor({1.0, scale, finite ? 1.0 : 0.0}, at::kDouble);
}

struct Setting {
  std::string name;
  int64_t count, step;
  bool finite;
  Store copy;
  bool ranges = false;
  double eps = kEps;
  double grad_scale = 1, state_scale = 1;  // 0: zeros
};

// Returns the ends of three ranges; the first may be empty.
at::Tensor range_ends(int64_t count) { return at::tensor({count / 3, count / 2, count}, at::kLong); }

// lr and weight decay of every element.
struct Rates {
  at::Tensor lr, decay;
};

Rates rates_of(const Setting& s, const Tensors& in) {
  Rates r{at::full({s.count}, kLr, at::kDouble), at::full({s.count}, kDecay, at::kDouble)};
  int64_t begin = 0;
  for (int64_t i = 0; s.ranges && i < 3; ++i) {
    int64_t end = in.at("range_end")[i].item<int64_t>();
    r.lr.narrow(0, begin, end - begin).mul_(in.at("range_rate")[i]);
    r.decay.narrow(0, begin, end - begin).copy_(in.at("range_decay")[i]);
    begin = end;
  }
  return r;
}

at::Tensor numbers_of(const Setting& s) {
  const UpdateNumbers now = update_numbers(kLr, kBeta1, kBeta2, s.step);
  return at::tensor({now.lr, now.rate, now.root}, at::kFloat).to(at::kDouble);
}

UpdateRanges ranges_of(const Setting& s, Pointers& p) {
  if (!s.ranges) return {};
  return {p["range_end"], p["range_rate"], p["range_decay"]};
}

std::vector<Operand> weights_and_grad(const Setting& s) {
  Tolerance few{
      .roundings = 3, .sums = 1, .reason = "five fp32 operations; the change is small beside the weight"};
  std::vector<Operand> operands{in_out("weight", Store::f32, normal({s.count}, 1), few),
                                input("grad", Store::f32, normal({s.count}, 2, s.grad_scale)),
                                input("verdict", Store::f32, verdict(0.25, s.finite)),
                                input("numbers", Store::f32, numbers_of(s)),
                                in_out("copy", s.copy, at::zeros({s.count}, at::kDouble),
                                       {.roundings = 1.01, .sums = 4, .reason = "the weight, rounded"})};
  if (s.ranges) {
    operands.push_back(input("range_end", Store::i64, range_ends(s.count)));
    operands.push_back(input("range_rate", Store::f32, at::tensor({1.0, 4.0, 0.5}, at::kDouble)));
    operands.push_back(input("range_decay", Store::f32, at::tensor({0.1, 0.0, 0.01}, at::kDouble)));
  }
  return operands;
}

const Tolerance kState{.roundings = 4, .sums = 0, .reason = "three fp32 operations"};

Case adamw_case(const Setting& s) {
  auto operands = weights_and_grad(s);
  operands.push_back(in_out("mean", Store::f32, normal({s.count}, 3, 0.1 * s.state_scale),
                            {.roundings = 4, .sums = 2, .reason = "three fp32 operations that may cancel"}));
  operands.push_back(in_out("square", Store::f32, normal({s.count}, 4, s.state_scale).square(), kState));
  auto oracle = [=](const Tensors& in) -> Tensors {
    if (!s.finite) return in;
    Rates r = rates_of(s, in);
    at::Tensor g = in.at("grad") * 0.25, m = in.at("mean") * kBeta1 + g * (1 - kBeta1),
               v = in.at("square") * kBeta2 + g * g * (1 - kBeta2);
    double c1 = 1 - std::pow(kBeta1, s.step), c2 = 1 - std::pow(kBeta2, s.step);
    at::Tensor p = in.at("weight") * (1 - r.lr * r.decay) - r.lr / c1 * m / ((v / c2).sqrt() + s.eps);
    return Tensors{{"weight", p}, {"mean", m}, {"square", v}, {"copy", p}};
  };
  return make_case<AdamWUpdate>("optimizer", "adamw " + s.name, operands, oracle, [=](Pointers& p) {
    return AdamWUpdate{s.count,         p["weight"], p["grad"],    p["mean"], p["square"],
                       element(s.copy), p["copy"],   p["verdict"], p["numbers"], kBeta1,
                       kBeta2,          s.eps,       kDecay,       ranges_of(s, p)};
  });
}

Case lion_case(const Setting& s) {
  auto operands = weights_and_grad(s);
  operands.push_back(in_out("mean", Store::f32, normal({s.count}, 3, 0.1 * s.state_scale),
                            {.roundings = 4, .sums = 2, .reason = "three fp32 operations that may cancel"}));
  auto oracle = [=](const Tensors& in) -> Tensors {
    if (!s.finite) return in;
    Rates r = rates_of(s, in);
    at::Tensor g = in.at("grad") * 0.25, m = in.at("mean");
    at::Tensor p = in.at("weight") * (1 - r.lr * r.decay) - r.lr * (m * kBeta1 + g * (1 - kBeta1)).sign();
    return Tensors{{"weight", p}, {"mean", m * kBeta2 + g * (1 - kBeta2)}, {"copy", p}};
  };
  return make_case<LionUpdate>("optimizer", "lion " + s.name, operands, oracle, [=](Pointers& p) {
    return LionUpdate{s.count,      p["weight"], p["grad"], p["mean"], element(s.copy), p["copy"],
                      p["verdict"], p["numbers"], kBeta1, kBeta2, kDecay, ranges_of(s, p)};
  });
}

at::Tensor map_tensor(bool with_sign) {
  at::Tensor map = at::empty({256}, at::kDouble);
  for (int64_t i = 0; i < 256; ++i) map[i] = static_cast<double>(state_map(with_sign)[i]);
  return map;
}

// Returns the nearest entries of the map for values in blocks, the lower one of a tie → codes,
// absmax
std::pair<at::Tensor, at::Tensor> encode(const at::Tensor& values, const at::Tensor& map) {
  int64_t count = values.size(0), blocks = (count + kStateBlock - 1) / kStateBlock;
  at::Tensor padded =
      at::constant_pad_nd(values, {0, blocks * kStateBlock - count}).view({blocks, kStateBlock});
  at::Tensor absmax = padded.abs().amax(1),
             unit = at::where(absmax.unsqueeze(1) > 0, padded / absmax.unsqueeze(1), 0.0);
  at::Tensor codes = (unit.unsqueeze(2) - map).abs().argmin(2);
  return {codes.flatten().narrow(0, 0, count), absmax};
}

// Compares the state after an update as values: a sum near the middle of two entries may get either
// code. Weights and absmax are compared as they are; codes are compared by a test against stored
// ones.
Case adamw_8bit_case(const Setting& s) {
  auto operands = weights_and_grad(s);
  at::Tensor signed_map = map_tensor(true), unsigned_map = map_tensor(false);
  auto [mean, mean_absmax] = encode(normal({s.count}, 3, 0.1 * s.state_scale), signed_map);
  auto [square, square_absmax] = encode(normal({s.count}, 4, s.state_scale).square(), unsigned_map);
  // A value whose distance from a midpoint is below rounding would make the case undecided; the
  // seeds give none.
  Tolerance exact{.roundings = 0, .sums = 0, .reason = "codes are whole numbers"};
  operands.push_back(in_out("mean", Store::u8, mean, exact));
  operands.push_back(in_out("square", Store::u8, square, exact));
  operands.push_back(in_out("mean_absmax", Store::f32, mean_absmax,
                            {.roundings = 4, .sums = 2, .reason = "three fp32 operations"}));
  operands.push_back(in_out("square_absmax", Store::f32, square_absmax, kState));
  operands.push_back(input("signed_map", Store::f32, signed_map));
  operands.push_back(input("unsigned_map", Store::f32, unsigned_map));
  auto oracle = [=](const Tensors& in) -> Tensors {
    if (!s.finite) return in;
    Rates r = rates_of(s, in);
    auto decode = [&](const char* codes, const char* absmax, const char* map) {
      return in.at(map).index_select(0, in.at(codes)) *
             in.at(absmax).repeat_interleave(kStateBlock).narrow(0, 0, s.count);
    };
    at::Tensor g = in.at("grad") * 0.25;
    at::Tensor m = decode("mean", "mean_absmax", "signed_map") * kBeta1 + g * (1 - kBeta1);
    at::Tensor v = decode("square", "square_absmax", "unsigned_map") * kBeta2 + g * g * (1 - kBeta2);
    double c1 = 1 - std::pow(kBeta1, s.step), c2 = 1 - std::pow(kBeta2, s.step);
    at::Tensor p = in.at("weight") * (1 - r.lr * r.decay) - r.lr / c1 * m / ((v / c2).sqrt() + s.eps);
    auto [mean_codes, mean_max] = encode(m, in.at("signed_map"));
    auto [square_codes, square_max] = encode(v, in.at("unsigned_map"));
    return Tensors{{"weight", p},
                   {"copy", p},
                   {"mean", mean_codes},
                   {"mean_absmax", mean_max},
                   {"square", square_codes},
                   {"square_absmax", square_max}};
  };
  return make_case<AdamW8bitUpdate>("optimizer", "adamw_8bit " + s.name, operands, oracle, [=](Pointers& p) {
    return AdamW8bitUpdate{s.count,
                           p["weight"],
                           p["grad"],
                           p["mean"],
                           p["square"],
                           p["mean_absmax"],
                           p["square_absmax"],
                           p["signed_map"],
                           p["unsigned_map"],
                           element(s.copy),
                           p["copy"],
                           p["verdict"],
                           p["numbers"],
                           kBeta1,
                           kBeta2,
                           s.eps,
                           kDecay,
                           ranges_of(s, p)};
  });
}

void add_all_rules(std::vector<Case>& cases, const Setting& s) {
  cases.push_back(adamw_case(s));
  cases.push_back(lion_case(s));
  cases.push_back(adamw_8bit_case(s));
}

// Adds cases with a gradient, a state or an epsilon of zero, and with an epsilon that outweighs the
// state.
void add_zeros(std::vector<Case>& cases) {
  const Setting first{"first step", 300, 1, true, Store::bf16, false, kEps, 1, 0},
      still{"no gradient", 300, 7, true, Store::bf16, false, kEps, 0, 1},
      nothing{"no gradient, no state", 300, 1, true, Store::bf16, false, kEps, 0, 0},
      no_eps{"no epsilon", 300, 7, true, Store::bf16, false, 0, 1, 1},
      large_eps{"large epsilon", 300, 7, true, Store::bf16, true, 0.5, 1, 1},
      small{"small gradients", 300, 7, true, Store::bf16, false, kEps, 1e-8, 1e-8};
  for (const Setting& s : {first, still, nothing, no_eps, large_eps, small}) add_all_rules(cases, s);
  cases.push_back(norm_case("zeros", at::zeros({300}, at::kDouble), 1, 1));
  cases.push_back(norm_case("as small as its epsilon", normal({300}, 11, 1e-7), 1, 1e-6));
  cases.push_back(norm_case("infinite", with(normal({100}, 8), 5, -HUGE_VAL), 1, 0));
}

void add_allowed_cases(std::vector<Case>& cases) {
  for (Store copy : kFloats) {
    const Setting s{std::string("aligned, copy ") + name_of(copy), 512, 3, true, copy};
    for (const Case& c : {adamw_case(s), lion_case(s), adamw_8bit_case(s)}) {
      add_alone(cases, c);
      cases.push_back(not_wanted(c, "copy"));
    }
  }
  add_alone(cases, norm_case("aligned", normal({512}, 12), 1, 0.5));
}

// More than one pass of the largest grid, in accesses of 16 bytes and of one element, with a tail.
void add_long_buffers(std::vector<Case>& cases) {
  for (int64_t count : {(int64_t{1} << 20) + 1028, (int64_t{1} << 18) + 77}) {
    const std::string name = std::to_string(count);
    const at::Tensor grad = normal({count}, 13);
    cases.push_back(norm_case(name, grad, 1, 0));
    const Setting s{name, count, 3, true, Store::bf16, count % 2 == 0};
    cases.push_back(adamw_case(s));
    cases.push_back(lion_case(s));
  }
}

}  // namespace

void add_optimizer_cases(std::vector<Case>& cases) {
  for (int64_t count : {0, 1, 17, 2049, 65536, 140000}) {
    cases.push_back(norm_case(std::to_string(count), normal({count}, 5), 1, 0));
    cases.push_back(norm_case(std::to_string(count) + " clipped", normal({count}, 6, 3), 0.5, 0.7));
  }
  cases.push_back(norm_case("not clipped", normal({100}, 7, 1e-3), 1, 1));
  cases.push_back(norm_case("nan", with(normal({100}, 8), 99, std::nan("")), 1, 1));
  cases.push_back(norm_case("large", normal({3000}, 8, 1e15), 1e-10, 1));
  for (Store copy : kFloats)
    for (int64_t count : {0, 1, 31, 256, 300, 5000})
      for (bool finite : {true, false}) {
        if (!finite && count != 31) continue;
        Setting setting{std::to_string(count) + (finite ? " copy " : " skipped, copy ") + name_of(copy),
                        count, count % 2 ? 1 : 40, finite, copy};
        for (bool ranges : {false, true}) {
          setting.ranges = ranges;
          if (ranges) setting.name += " in ranges";
          cases.push_back(adamw_case(setting));
          cases.push_back(lion_case(setting));
          cases.push_back(adamw_8bit_case(setting));
        }
      }
  add_zeros(cases);
  add_allowed_cases(cases);
  add_long_buffers(cases);
}

}  // namespace forge::kernel_test
