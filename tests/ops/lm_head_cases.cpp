#include <limits>

#include "kernels/lm_head/lm_head_args.h"
#include "tests/ops/lm_head_oracle.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  std::string name;
  int64_t positions, width, vocab;
  double temperature = 1, softcap = 0, smoothing = 0, z_loss = 0;
  bool loss = true, cotangents = false, entropy = false, weight = false, gradient = true, ignored = false;
  double scale = 1;      // of hidden
  Layout rows = kDense;  // of hidden and weight
};

at::Tensor logits(const at::Tensor& hidden, const at::Tensor& weight, const Setting& s) {
  return scaled_logits(at::mm(hidden, weight.t()), s);
}

Case head_case(Store type, const Setting& s) {
  at::Tensor targets = at::arange(s.positions, at::kLong).mul(7).remainder(s.vocab);
  if (s.ignored)
    for (int64_t i = 0; i < s.positions; i += 3) targets[i] = -100;
  at::Tensor kept = targets.ge(0).to(at::kDouble);
  // A logit is an fp32 sum of `width` terms; its error, and those of all later numbers, are counted
  // in the terms' sizes.
  Tolerance number{.roundings = 4,
                   .sums = 16,
                   .reason = "fp32 sums over width and vocabulary, exp to 2 units",
                   .between = 1.5};
  Tolerance grad{.roundings = 1.01,
                 .sums = 24,
                 .reason = "one rounding; softmax in fp32 with its logits' error, a sum over the vocabulary",
                 .between = 2};
  std::vector<Operand> operands{
      laid(input("hidden", type, normal({s.positions, s.width}, 1, s.scale)), s.rows),
      laid(input("weight", type, normal({s.vocab, s.width}, 2, 0.3)), s.rows),
      input("targets", Store::i64, targets)};
  for (const char* name : kHeadNumbers) operands.push_back(output(name, Store::f32, {s.positions}, number));
  std::vector<std::string> given;
  if (s.loss && s.gradient)
    operands.push_back(input("loss_weight", Store::f32, uniform_values({s.positions}, 3, 0, 1)));
  if (s.cotangents)
    for (const char* name : {"logp", "logsumexp", "mean_logit"}) given.push_back(name);
  if (s.entropy) given.push_back("entropy");
  for (const std::string& name : given)
    operands.push_back(input("g_" + name, Store::f32, normal({s.positions}, 4 + name.size())));
  // d_hidden has its own stride, except where it shares the memory of the hidden states.
  if (s.gradient)
    operands.push_back(laid(output("d_hidden", type, {s.positions, s.width}, grad), kLayouts[1]));
  if (s.weight) operands.push_back(in_out("d_weight", Store::f32, normal({s.vocab, s.width}, 9, 0.01), grad));
  auto oracle = [=](const Tensors& in) {
    at::Tensor y = in.at("targets").clamp_min(0);
    Forward forward = [&](const Tensors& v) {
      Tensors all = head_numbers(logits(v.at("hidden"), v.at("weight"), s), y, s);
      for (auto& [name, value] : all) value = value * kept;
      return all;
    };
    Tensors values{{"hidden", in.at("hidden")}, {"weight", in.at("weight")}};
    Tensors out = forward(values), cotangents;
    at::Tensor reach = in.at("hidden").abs().mm(in.at("weight").t().abs());  // Σ |terms| of each logit
    at::Tensor size = reach.amax(1) / s.temperature + out.at("logsumexp").abs() + 1;
    for (const char* name : kHeadNumbers) out[std::string(name) + ".size"] = size;
    out["loss.size"] = size * (1 + 2 * s.z_loss * out.at("logsumexp").abs());
    // Logits rounded to the type: each number's error by the magnitudes that it weighs them with.
    at::Tensor z = logits(in.at("hidden"), in.at("weight"), s), p = at::softmax(z, 1),
               x = in.at("hidden").mm(in.at("weight").t()).abs() / s.temperature;
    at::Tensor in_lse = (p * x).sum(1), in_mean = x.mean(1),
               in_logp = x.gather(1, y.unsqueeze(1)).squeeze(1) + in_lse;
    at::Tensor away = (z - (p * z).sum(1, true)).abs();
    out["logsumexp.between"] = in_lse, out["mean_logit.between"] = in_mean, out["logp.between"] = in_logp;
    out["entropy.between"] = (p * away * x).sum(1);
    out["loss.between"] = (1 - s.smoothing) * in_logp + s.smoothing * (in_mean + in_lse) +
                          2 * s.z_loss * out.at("logsumexp").abs() * in_lse;
    if (!s.gradient) return out;
    at::Tensor force = at::zeros({s.positions}, at::kDouble);
    for (const std::string& name : given) cotangents[name] = in.at("g_" + name);
    if (s.loss) cotangents["loss"] = in.at("loss_weight");
    if (cotangents.empty()) cotangents["logp"] = at::zeros({s.positions}, at::kDouble);
    for (auto& [name, value] : cotangents)
      force = force + value.abs() * (name == "entropy" ? size : at::ones_like(size));
    force = force * (1 + 2 * s.z_loss * out.at("logsumexp").abs()) * kept / s.temperature;
    Tensors grads = gradients(forward, values, {"hidden", "weight"}, cotangents);
    out["d_hidden"] = grads.at("hidden");
    // |d z| ≤ force (p + one-hot + 1 / V), each with a relative error of the logits' absolute one.
    at::Tensor one_hot = at::zeros_like(z).scatter_(1, y.unsqueeze(1), 1),
               rest = one_hot + 1.0 / static_cast<double>(s.vocab);
    at::Tensor shares = (p + rest) * (force * size).unsqueeze(1);
    out["d_hidden.size"] = shares.mm(in.at("weight").abs());
    // d z is rounded, and its p comes from rounded logits.
    at::Tensor rounded = at::zeros({s.positions, 1}, at::kDouble);
    for (auto& [name, value] : cotangents)
      rounded = rounded + value.abs().unsqueeze(1) * (name == "entropy" ? away + 1 : at::ones_like(away));
    rounded = rounded * ((1 + 2 * s.z_loss * out.at("logsumexp").abs()) * kept / s.temperature).unsqueeze(1) *
              (p * (1 + x + in_lse.unsqueeze(1)) + rest);
    out["d_hidden.between"] = rounded.mm(in.at("weight").abs());
    if (!s.weight) return out;
    out["d_weight"] = in.at("d_weight") + grads.at("weight");
    out["d_weight.size"] = shares.t().mm(in.at("hidden").abs()) + in.at("d_weight").abs();
    out["d_weight.between"] = rounded.t().mm(in.at("hidden").abs());
    return out;
  };
  return make_case<LmHead>("lm_head", s.name + " " + name_of(type), operands, oracle, [=](Pointers& p) {
    LmHead a{element(type), s.positions,        s.width,     s.vocab, p["hidden"], p.stride("hidden"),
             p["weight"],   p.stride("weight"), p["targets"]};
    a.temperature = static_cast<float>(s.temperature), a.softcap = static_cast<float>(s.softcap);
    a.label_smoothing = static_cast<float>(s.smoothing), a.z_loss = static_cast<float>(s.z_loss);
    a.logp = p["logp"], a.logsumexp = p["logsumexp"], a.mean_logit = p["mean_logit"],
    a.entropy = p["entropy"], a.loss = p["loss"];
    if (s.loss && s.gradient) a.loss_weight = p["loss_weight"];
    if (s.cotangents)
      a.g_logp = p["g_logp"], a.g_logsumexp = p["g_logsumexp"], a.g_mean_logit = p["g_mean_logit"];
    if (s.entropy) a.g_entropy = p["g_entropy"];
    if (s.gradient) a.d_hidden = p["d_hidden"], a.d_hidden_stride = p.stride("d_hidden");
    if (s.weight) a.d_weight = p["d_weight"];
    return a;
  });
}

// The cases cover: the gradient in place of the hidden states, numbers that are not wanted, each
// operand apart from the others, and more positions than a GPU takes at once.
void add_allowed_cases(std::vector<Case>& cases) {
  for (Store type : kFloats) {
    for (bool trained : {false, true}) {
      const Setting s{.name = trained ? "trained 9x24x70" : "frozen 9x24x70",
                      .positions = 9,
                      .width = 24,
                      .vocab = 70,
                      .smoothing = 0.1,
                      .weight = trained,
                      .ignored = true};
      const Case c = head_case(type, s);
      add_alone(cases, c);
      cases.push_back(over(c, "d_hidden", "hidden"));
      for (const char* name : kHeadNumbers) cases.push_back(not_wanted(c, name));
    }
    const Setting chunks{.name = "2100x3x5",
                         .positions = 2100,
                         .width = 3,
                         .vocab = 5,
                         .cotangents = true,
                         .entropy = true,
                         .weight = type == Store::f32,
                         .ignored = true,
                         .rows = kLayouts[1]};
    const Case c = head_case(type, chunks);
    cases.push_back(c);
    cases.push_back(over(c, "d_hidden", "hidden"));
  }
}

}  // namespace

void add_lm_head_cases(std::vector<Case>& cases) {
  const Setting settings[] = {
      {.name = "one position, one word", .positions = 1, .width = 1, .vocab = 1},
      {.name = "5x7x11", .positions = 5, .width = 7, .vocab = 11},
      {.name = "17x33x129 ignored", .positions = 17, .width = 33, .vocab = 129, .ignored = true},
      {.name = "40x64x300 forward", .positions = 40, .width = 64, .vocab = 300, .gradient = false},
      {.name = "150x20x257 more than a block", .positions = 300, .width = 20, .vocab = 257, .ignored = true},
      {.name = "temperature", .positions = 9, .width = 24, .vocab = 140, .temperature = 0.7},
      {.name = "smoothing and z-loss",
       .positions = 9,
       .width = 24,
       .vocab = 140,
       .smoothing = 0.1,
       .z_loss = 1e-2},
      {.name = "soft cap", .positions = 9, .width = 24, .vocab = 140, .softcap = 5},
      {.name = "soft cap, temperature, smoothing",
       .positions = 9,
       .width = 24,
       .vocab = 140,
       .temperature = 1.3,
       .softcap = 5,
       .smoothing = 0.2},
      {.name = "given cotangents",
       .positions = 9,
       .width = 24,
       .vocab = 140,
       .temperature = 0.9,
       .loss = false,
       .cotangents = true},
      {.name = "entropy",
       .positions = 9,
       .width = 24,
       .vocab = 140,
       .loss = false,
       .cotangents = true,
       .entropy = true},
      {.name = "trained weight", .positions = 50, .width = 24, .vocab = 140, .weight = true, .ignored = true},
      {.name = "trained weight, soft cap, entropy",
       .positions = 20,
       .width = 36,
       .vocab = 70,
       .softcap = 4,
       .smoothing = 0.1,
       .entropy = true,
       .weight = true},
      {.name = "large logits", .positions = 6, .width = 16, .vocab = 90, .scale = 60},
      {.name = "no positions", .positions = 0, .width = 8, .vocab = 20, .weight = true},
      {.name = "width over a tile", .positions = 3, .width = 1300, .vocab = 70, .weight = true}};
  for (Store type : kFloats)
    for (const Setting& setting : settings) cases.push_back(head_case(type, setting));
  add_allowed_cases(cases);
}

}  // namespace forge::kernel_test
