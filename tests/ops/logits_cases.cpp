#include <limits>

#include "tests/ops/lm_head_oracle.h"
#include "kernels/lm_head/logits_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  int64_t positions, vocab;
  double temperature = 1, softcap = 0, smoothing = 0, z_loss = 0;
  double scale = 1;  // of the logits
  std::vector<std::string> cotangents{std::begin(kHeadNumbers),
                                      std::end(kHeadNumbers)};  // the others are null
};

at::Tensor targets_of(const Setting& s) {
  at::Tensor targets = at::arange(s.positions, at::kLong).mul(7919).add(3).remainder(s.vocab);
  for (int64_t i = 2; i < s.positions; i += 3) targets[i] = -100;
  return targets;
}

LogitsChunk chunk_of(Store type, const Setting& s, Pointers& p) {
  LogitsChunk c{.type = element(type), .positions = s.positions, .vocab = s.vocab};
  c.logits = p["logits"], c.stride = p.stride("logits"), c.targets = p["targets"];
  c.temperature = static_cast<float>(s.temperature), c.softcap = static_cast<float>(s.softcap);
  c.label_smoothing = static_cast<float>(s.smoothing), c.z_loss = static_cast<float>(s.z_loss);
  return c;
}

Case logits_case(Store type, const Setting& s, bool gradient, const Layout& layout) {
  const at::Tensor values = normal({s.positions, s.vocab}, 1, s.scale);
  const Tolerance number{
      .roundings = 4, .sums = 16, .reason = "fp32 sums over the vocabulary, exp to 2 units"};
  const Tolerance grad{.roundings = 1.01, .sums = 24, .reason = "one rounding; softmax in fp32"};
  std::vector<Operand> operands{
      input("targets", Store::i64, targets_of(s)),
      laid(gradient ? in_out("logits", type, values, grad) : input("logits", type, values), layout)};
  for (const char* name : kHeadNumbers) operands.push_back(output(name, Store::f32, {s.positions}, number));
  for (size_t i = 0; gradient && i < s.cotangents.size(); ++i)
    operands.push_back(input("g_" + s.cotangents[i], Store::f32, normal({s.positions}, 4 + i)));
  auto oracle = [=](const Tensors& in) {
    at::Tensor kept = in.at("targets").ge(0).to(at::kDouble), y = in.at("targets").clamp_min(0);
    Forward forward = [&](const Tensors& v) {
      Tensors all = head_numbers(scaled_logits(v.at("logits"), s), y, s);
      for (auto& [name, value] : all) value = value * kept;
      return all;
    };
    Tensors out = forward(in);
    at::Tensor x = in.at("logits").abs() / s.temperature, lse = out.at("logsumexp").abs();
    at::Tensor size = x.amax(1) + lse + 1, of_z_loss = 1 + 2 * s.z_loss * lse;
    for (const char* name : kHeadNumbers) out[std::string(name) + ".size"] = size;
    out["loss.size"] = size * of_z_loss;
    if (!gradient) return out;
    Tensors cotangents;
    at::Tensor force = at::zeros_like(size);
    for (const std::string& name : s.cotangents) {
      cotangents[name] = in.at("g_" + name);
      force = force + cotangents[name].abs() * (name == "entropy" ? size : at::ones_like(size));
    }
    out["logits"] = gradients(forward, {{"logits", in.at("logits")}}, {"logits"}, cotangents).at("logits");
    // |d z| ≤ force (p + one-hot + 1 / V), each with a relative error of the logits' absolute one.
    at::Tensor z = scaled_logits(in.at("logits"), s);
    at::Tensor shares = at::softmax(z, 1) + at::zeros_like(z).scatter_(1, y.unsqueeze(1), 1) +
                        1.0 / static_cast<double>(s.vocab);
    out["logits.size"] = shares * (force * size * of_z_loss * kept / s.temperature).unsqueeze(1);
    return out;
  };
  return make_case<LogitsChunk>("logits",
                                std::to_string(s.positions) + "x" + std::to_string(s.vocab) +
                                    (gradient ? " gradient " : " ") + layout.name + " " + name_of(type),
                                operands, oracle, [=](Pointers& p) {
                                  LogitsChunk c = chunk_of(type, s, p);
                                  c.gradient = gradient;
                                  c.logp = p["logp"], c.logsumexp = p["logsumexp"],
                                  c.mean_logit = p["mean_logit"];
                                  c.entropy = p["entropy"], c.loss = p["loss"];
                                  if (!gradient) return c;
                                  for (const std::string& name : s.cotangents) {
                                    const float* given = p["g_" + name];
                                    (name == "logp"         ? c.g_logp
                                     : name == "logsumexp"  ? c.g_logsumexp
                                     : name == "mean_logit" ? c.g_mean_logit
                                     : name == "entropy"    ? c.g_entropy
                                                            : c.loss_weight) = given;
                                  }
                                  return c;
                                });
}

// A logit of −∞ has no part; a NaN spoils its row alone.
Case not_finite_case() {
  const Setting s{.positions = 2, .vocab = 4};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  at::Tensor values = at::tensor({1.0, -HUGE_VAL, 2.0, 0.0, 5.0, nan, 1.0, 2.0}, at::kDouble).view({2, 4});
  const Tolerance number{.roundings = 4, .sums = 16, .reason = "fp32 sums of four terms"};
  auto oracle = [=](const Tensors& in) { return head_numbers(in.at("logits"), in.at("targets"), s); };
  return make_case<LogitsChunk>(
      "logits", "not finite",
      {input("targets", Store::i64, at::tensor({2, 0}, at::kLong)), input("logits", Store::f32, values),
       output("logp", Store::f32, {2}, number), output("entropy", Store::f32, {2}, number)},
      oracle, [=](Pointers& p) {
        LogitsChunk c = chunk_of(Store::f32, s, p);
        c.logp = p["logp"], c.entropy = p["entropy"];
        return c;
      });
}

}  // namespace

void add_logits_cases(std::vector<Case>& cases) {
  const Setting settings[] = {
      {.positions = 1, .vocab = 1},
      {.positions = 4, .vocab = 7},
      {.positions = 3, .vocab = 64, .temperature = 0.7, .smoothing = 0.1, .z_loss = 1e-3, .scale = 3},
      {.positions = 3, .vocab = 1000, .softcap = 5, .z_loss = 1e-4, .scale = 4},
      {.positions = 2, .vocab = 4099, .temperature = 1.3, .softcap = 30, .smoothing = 0.05, .scale = 6},
      {.positions = 3, .vocab = 9000, .scale = 8},  // more than one vector a thread of 1,024
      {.positions = 0, .vocab = 5}};
  for (Store type : kFloats)
    for (const Setting& setting : settings)
      for (const Layout& layout : kLayouts)
        for (bool gradient : {false, true}) {
          if (setting.vocab > 4000 && layout.row_gap == 0 && layout.offset != 0) continue;
          cases.push_back(logits_case(type, setting, gradient, layout));
        }
  for (Store type : kFloats) {
    const Setting setting{.positions = 4, .vocab = 64, .softcap = 5, .smoothing = 0.1};
    for (bool gradient : {false, true}) {
      cases.push_back(logits_case(type, {.positions = 4, .vocab = 61}, gradient, kRagged));
      const Case c = logits_case(type, setting, gradient, kDense);
      add_alone(cases, c);
      for (const char* name : kHeadNumbers) cases.push_back(not_wanted(c, name));
    }
  }
  for (const char* name : kHeadNumbers) {
    Setting alone{.positions = 3, .vocab = 64, .smoothing = 0.1};
    alone.cotangents = {name};
    Case c = logits_case(Store::f32, alone, true, kDense);
    c.name += std::string(", a cotangent of ") + name + " alone";
    cases.push_back(c);
  }
  cases.push_back(not_finite_case());
}

}  // namespace forge::kernel_test
