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
      {input("grad", Store::f32, grad),
       output("verdict", Store::f32, {3, 1},
              {.roundings = 2, .sums = 2, .reason = "fp32 sums of 64 squares a lane, then double"})},
      oracle, [=](Pointers& p) {
        return FlatNorm{grad.size(0), p["grad"], static_cast<float>(unscale), static_cast<float>(max_norm),
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
};

std::vector<Operand> weights_and_grad(const Setting& s) {
  Tolerance few{
      .roundings = 3, .sums = 1, .reason = "five fp32 operations; the change is small beside the weight"};
  return {in_out("weight", Store::f32, normal({s.count}, 1), few),
          input("grad", Store::f32, normal({s.count}, 2)),
          input("verdict", Store::f32, verdict(0.25, s.finite)),
          in_out("copy", s.copy, at::zeros({s.count}, at::kDouble),
                 {.roundings = 1.01, .sums = 4, .reason = "the weight, rounded"})};
}

const Tolerance kState{.roundings = 4, .sums = 0, .reason = "three fp32 operations"};

Case adamw_case(const Setting& s) {
  auto operands = weights_and_grad(s);
  operands.push_back(in_out("mean", Store::f32, normal({s.count}, 3, 0.1),
                            {.roundings = 4, .sums = 2, .reason = "three fp32 operations that may cancel"}));
  operands.push_back(in_out("square", Store::f32, normal({s.count}, 4).square(), kState));
  auto oracle = [=](const Tensors& in) -> Tensors {
    if (!s.finite) return in;
    at::Tensor g = in.at("grad") * 0.25, m = in.at("mean") * kBeta1 + g * (1 - kBeta1),
               v = in.at("square") * kBeta2 + g * g * (1 - kBeta2);
    double c1 = 1 - std::pow(kBeta1, s.step), c2 = 1 - std::pow(kBeta2, s.step);
    at::Tensor p = in.at("weight") * (1 - kLr * kDecay) - kLr / c1 * m / ((v / c2).sqrt() + kEps);
    return Tensors{{"weight", p}, {"mean", m}, {"square", v}, {"copy", p}};
  };
  return make_case<AdamWUpdate>("optimizer", "adamw " + s.name, operands, oracle, [=](Pointers& p) {
    return AdamWUpdate{s.count,         p["weight"], p["grad"],    p["mean"], p["square"],
                       element(s.copy), p["copy"],   p["verdict"], kLr,       kBeta1,
                       kBeta2,          kEps,        kDecay,       s.step};
  });
}

Case lion_case(const Setting& s) {
  auto operands = weights_and_grad(s);
  operands.push_back(in_out("mean", Store::f32, normal({s.count}, 3, 0.1),
                            {.roundings = 4, .sums = 2, .reason = "three fp32 operations that may cancel"}));
  auto oracle = [=](const Tensors& in) -> Tensors {
    if (!s.finite) return in;
    at::Tensor g = in.at("grad") * 0.25, m = in.at("mean");
    at::Tensor p = in.at("weight") * (1 - kLr * kDecay) - kLr * (m * kBeta1 + g * (1 - kBeta1)).sign();
    return Tensors{{"weight", p}, {"mean", m * kBeta2 + g * (1 - kBeta2)}, {"copy", p}};
  };
  return make_case<LionUpdate>("optimizer", "lion " + s.name, operands, oracle, [=](Pointers& p) {
    return LionUpdate{s.count,      p["weight"], p["grad"], p["mean"], element(s.copy), p["copy"],
                      p["verdict"], kLr,         kBeta1,    kBeta2,    kDecay};
  });
}

at::Tensor map_tensor(bool with_sign) {
  at::Tensor map = at::empty({256}, at::kDouble);
  for (int64_t i = 0; i < 256; ++i) map[i] = static_cast<double>(state_map(with_sign)[i]);
  return map;
}

// Nearest entries of map for values in blocks; ties to the lower. → codes, absmax
std::pair<at::Tensor, at::Tensor> encode(const at::Tensor& values, const at::Tensor& map) {
  int64_t count = values.size(0), blocks = (count + kStateBlock - 1) / kStateBlock;
  at::Tensor padded =
      at::constant_pad_nd(values, {0, blocks * kStateBlock - count}).view({blocks, kStateBlock});
  at::Tensor absmax = padded.abs().amax(1),
             unit = at::where(absmax.unsqueeze(1) > 0, padded / absmax.unsqueeze(1), 0.0);
  at::Tensor codes = (unit.unsqueeze(2) - map).abs().argmin(2);
  return {codes.flatten().narrow(0, 0, count), absmax};
}

// The state after an update, as values: a code is compared by what it stands for, since a sum beside the
// middle of two entries may fall to either. Weights and absmax are compared as they are; codes by a test
// against stored ones.
Case adamw_8bit_case(const Setting& s) {
  auto operands = weights_and_grad(s);
  at::Tensor signed_map = map_tensor(true), unsigned_map = map_tensor(false);
  auto [mean, mean_absmax] = encode(normal({s.count}, 3, 0.1), signed_map);
  auto [square, square_absmax] = encode(normal({s.count}, 4).square(), unsigned_map);
  // Values a middle apart from an entry by less than rounding would make the case undecided; the seeds have
  // none.
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
    auto decode = [&](const char* codes, const char* absmax, const char* map) {
      return in.at(map).index_select(0, in.at(codes)) *
             in.at(absmax).repeat_interleave(kStateBlock).narrow(0, 0, s.count);
    };
    at::Tensor g = in.at("grad") * 0.25;
    at::Tensor m = decode("mean", "mean_absmax", "signed_map") * kBeta1 + g * (1 - kBeta1);
    at::Tensor v = decode("square", "square_absmax", "unsigned_map") * kBeta2 + g * g * (1 - kBeta2);
    double c1 = 1 - std::pow(kBeta1, s.step), c2 = 1 - std::pow(kBeta2, s.step);
    at::Tensor p = in.at("weight") * (1 - kLr * kDecay) - kLr / c1 * m / ((v / c2).sqrt() + kEps);
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
                           kLr,
                           kBeta1,
                           kBeta2,
                           kEps,
                           kDecay,
                           s.step};
  });
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
        cases.push_back(adamw_case(setting));
        cases.push_back(lion_case(setting));
        cases.push_back(adamw_8bit_case(setting));
      }
}

}  // namespace forge::kernel_test
