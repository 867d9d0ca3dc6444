#include <algorithm>
#include <limits>

#include "kernels/attention/attention_args.h"
#include "kernels/attention/group_sums.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  std::string name;
  std::vector<int64_t> lengths;
  int64_t heads, kv_heads, head_dim;
  double spread = 1;  // of q: large ones make one key win
  int64_t window = 0;
  double softcap = 0;
  bool sinks = false;

  int64_t tokens() const {
    int64_t sum = 0;
    for (int64_t length : lengths) sum += length;
    return sum;
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(head_dim)); }
};

// True where a key is hidden from a query. [length, length]
at::Tensor hidden_of(int64_t length, const Setting& s) {
  const at::Tensor position = at::arange(length, at::kLong);
  const at::Tensor back = position.unsqueeze(1) - position.unsqueeze(0);
  return s.window > 0 ? back.lt(0).logical_or(back.ge(s.window)) : back.lt(0);
}

// q kᵀ of [heads, length, d] each, capped, −∞ where hidden.
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, const Setting& s) {
  at::Tensor score = at::bmm(q, k.transpose(1, 2)) * s.scale();
  if (s.softcap != 0) score = (score / s.softcap).tanh() * s.softcap;
  return score.masked_fill(hidden_of(q.size(1), s), -std::numeric_limits<double>::infinity());
}

// Appends the sink, if there is one, after the scores: it is a key without a value.
at::Tensor with_sink(const at::Tensor& score, const at::Tensor& sinks) {
  if (!sinks.defined()) return score;
  return at::cat({score, sinks.view({-1, 1, 1}).expand({score.size(0), score.size(1), 1})}, 2);
}

at::Tensor sinks_of(const Tensors& in) { return in.count("sinks") ? in.at("sinks") : at::Tensor(); }

// q [tokens, heads, d], k, v [tokens, kv_heads, d] → out [tokens, heads · d], lse [heads, tokens],
// float64
Tensors attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& sinks,
               const Setting& s) {
  std::vector<at::Tensor> outs, lses;
  int64_t begin = 0, group = s.heads / s.kv_heads;
  for (int64_t length : s.lengths) {
    auto part = [&](const at::Tensor& x) {
      return x.narrow(0, begin, length).transpose(0, 1);
    };  // [heads, length, d]
    at::Tensor keys = part(k).repeat_interleave(group, 0), values = part(v).repeat_interleave(group, 0);
    at::Tensor score = with_sink(scores_of(part(q), keys, s), sinks);
    outs.push_back(at::bmm(at::softmax(score, 2).narrow(2, 0, length), values)
                       .transpose(0, 1)
                       .reshape({length, s.heads * s.head_dim}));
    lses.push_back(at::logsumexp(score, {2}));
    begin += length;
  }
  return {{"out", at::cat(outs, 0)}, {"lse", at::cat(lses, 1)}};
}

at::Tensor offsets(const Setting& s) {
  at::Tensor cu = at::zeros({static_cast<int64_t>(s.lengths.size()) + 1}, at::kLong);
  for (size_t i = 0; i < s.lengths.size(); ++i)
    cu[static_cast<int64_t>(i) + 1] = cu[static_cast<int64_t>(i)] + s.lengths[i];
  return cu;
}

at::Tensor heads_of(const at::Tensor& x, const Setting& s) { return x.view({x.size(0), -1, s.head_dim}); }

AttentionShape shape_of(Store type, const Setting& s, Pointers& p) {
  return {element(type),
          static_cast<int64_t>(s.lengths.size()),
          p["cu_seqlens"],
          s.heads,
          s.kv_heads,
          s.head_dim,
          static_cast<float>(s.scale()),
          s.tokens(),
          *std::max_element(s.lengths.begin(), s.lengths.end()),
          s.window,
          static_cast<float>(s.softcap),
          s.sinks ? static_cast<const void*>(p["sinks"]) : nullptr};
}

std::vector<Operand> inputs(Store type, const Setting& s, const Layout& layout) {
  int64_t tokens = s.tokens(), narrow = s.kv_heads * s.head_dim;
  std::vector<Operand> operands{
      input("cu_seqlens", Store::i32, offsets(s)),
      laid(input("q", type, normal({tokens, s.heads * s.head_dim}, 1, s.spread)), layout),
      laid(input("k", type, normal({tokens, narrow}, 2)), layout),
      laid(input("v", type, normal({tokens, narrow}, 3)), layout)};
  if (s.sinks) operands.push_back(input("sinks", type, normal({s.heads}, 5, 2)));
  return operands;
}

std::string title(const char* direction, const Setting& s, const Layout& layout, Store type) {
  return std::string(direction) + s.name + " " + layout.name + " " + name_of(type);
}

Case forward_case(Store type, const Setting& s, const Layout& layout) {
  std::vector<Operand> operands = inputs(type, s, layout);
  // A score of size 30 has an absolute error of 30 · 2⁻²⁴ times a few, which is the relative error
  // of its exponential.
  double score = 4 * s.spread + 4 + s.softcap;
  operands.push_back(laid(output("out", type, {s.tokens(), s.heads * s.head_dim},
                                 {.roundings = 1.01,
                                  .sums = 6 * score,
                                  .reason = "one rounding; scores and two sums in fp32",
                                  .between = 1.01}),  // p
                          layout));
  operands.push_back(output("lse", Store::f32, {s.heads, s.tokens()},
                            {.roundings = 4, .sums = 4 * score, .reason = "scores in fp32"}));
  auto oracle = [=](const Tensors& in) {
    Tensors out =
        attend(heads_of(in.at("q"), s), heads_of(in.at("k"), s), heads_of(in.at("v"), s), sinks_of(in), s);
    out["lse.size"] = at::ones_like(out.at("lse"));
    out["out.between"] = attend(heads_of(in.at("q"), s), heads_of(in.at("k"), s),
                                heads_of(in.at("v").abs(), s), sinks_of(in), s)
                             .at("out");
    return out;
  };
  return make_case<AttentionForward>(
      "attention", title("forward ", s, layout, type), operands, oracle, [=](Pointers& p) {
        return AttentionForward{shape_of(type, s, p), p["q"],  p.stride("q"), p["k"],
                                p.stride("k"),        p["v"],  p.stride("v"), p["out"],
                                p.stride("out"),      p["lse"]};
      });
}

// "<name>.size": errors in units of 2⁻²⁴, by the terms of the sums. A p is off by its score's
// error, some units of Σ |q k| scale, and by that of lse and of a cap's tanh, rounded when it was
// stored; a d s by that and by its own rounding; d_out · out by the rounding with which `out`
// arrived. "<name>.between": the terms themselves, p and d s.
Tensors gradient_sizes(const Tensors& in, const Setting& s, double out_unit) {
  std::map<std::string, std::vector<at::Tensor>> parts;
  at::Tensor sinks = at::zeros({s.heads}, at::kDouble), shares = at::zeros({s.heads}, at::kDouble);
  int64_t begin = 0, group = s.heads / s.kv_heads;
  for (int64_t length : s.lengths) {
    auto part = [&](const char* name) {
      at::Tensor x = heads_of(in.at(name), s).narrow(0, begin, length).transpose(0, 1);
      return x.size(0) == s.heads ? x : x.repeat_interleave(group, 0);
    };
    at::Tensor q = part("q"), k = part("k"), v = part("v"), d_out = part("d_out"), out = part("out");
    at::Tensor score = with_sink(scores_of(q, k, s), sinks_of(in)),
               lse = at::logsumexp(score, {2}, true).abs();
    at::Tensor p = at::softmax(score, 2).narrow(2, 0, length);
    at::Tensor units = at::bmm(q.abs(), k.abs().transpose(1, 2)) * (2 * s.scale()) + lse + 8;
    // The units grow by the errors of p and of the cap's slope.
    if (s.softcap != 0) units = units * 2 + 4 * s.softcap;
    at::Tensor at_out = (d_out * out).abs().sum(2, true);
    if (s.sinks) {  // Σ over the queries of the sink's share times d_out · out
      const at::Tensor share = at::softmax(score, 2).narrow(2, length, 1);
      const double exact = 9 + static_cast<double>(s.head_dim);
      sinks = sinks + (share * at_out * (lse + sinks_of(in).abs().view({-1, 1, 1}) + exact)).sum({1, 2});
      shares = shares + (share * at_out).sum({1, 2});
    }
    at::Tensor d_p = at::bmm(d_out.abs(), v.abs().transpose(1, 2)) + at_out;
    at::Tensor d_s = p * d_p * s.scale(), reach = p * (units * d_p + out_unit * at_out) * s.scale();
    auto gather = [&](const at::Tensor& x) {  // [heads, length, d] → [length, kv_heads · d]
      return x.view({s.kv_heads, group, length, s.head_dim})
          .sum(1)
          .transpose(0, 1)
          .reshape({length, s.kv_heads * s.head_dim});
    };
    auto add = [&](const char* kind, const at::Tensor& of_score, const at::Tensor& of_p) {
      parts[std::string("d_q") + kind].push_back(
          at::bmm(of_score, k.abs()).transpose(0, 1).reshape({length, s.heads * s.head_dim}));
      parts[std::string("d_k") + kind].push_back(gather(at::bmm(of_score.transpose(1, 2), q.abs())));
      parts[std::string("d_v") + kind].push_back(gather(at::bmm(of_p.transpose(1, 2), d_out.abs())));
    };
    add(".size", reach, p * units);
    add(".between", d_s, p);
    begin += length;
  }
  Tensors sizes;
  for (const auto& [name, sequences] : parts) sizes[name] = at::cat(sequences, 0);
  if (in.count("d_sinks"))
    sizes["d_sinks.size"] = sinks + in.at("d_sinks").abs(), sizes["d_sinks.between"] = shares;
  return sizes;
}

// Returns the gradient of the sinks from out and lse as the kernel gets them. In 16 bits it differs
// from the gradient of exact values.
at::Tensor sink_gradient(const Tensors& in, const Setting& s) {
  const at::Tensor dots = (in.at("out") * in.at("d_out")).view({s.tokens(), s.heads, s.head_dim}).sum(2).t();
  return -((in.at("sinks").unsqueeze(1) - in.at("lse")).exp() * dots).sum(1);
}

Case backward_case(Store type, const Setting& s, const Layout& layout) {
  int64_t tokens = s.tokens(), wide = s.heads * s.head_dim, narrow = s.kv_heads * s.head_dim;
  std::vector<Operand> operands = inputs(type, s, layout);
  Tensors stored;  // out and lse of the values as they are stored
  for (const Operand& operand : operands) {
    auto to = type == Store::bf16 ? at::kBFloat16 : type == Store::f16 ? at::kHalf : at::kFloat;
    stored[operand.name] =
        operand.value.scalar_type() == at::kLong ? operand.value : operand.value.to(to).to(at::kDouble);
  }
  Tensors forward = attend(heads_of(stored["q"], s), heads_of(stored["k"], s), heads_of(stored["v"], s),
                           sinks_of(stored), s);
  operands.push_back(laid(input("out", type, forward.at("out")), layout));
  operands.push_back(input("lse", Store::f32, forward.at("lse")));
  operands.push_back(laid(input("d_out", type, normal({tokens, wide}, 4)), layout));
  Tolerance grad{.roundings = 1.01,
                 .sums = 1,
                 .reason = "one rounding; what gradient_sizes counts",
                 .between = 2.01};  // p or d s; each query head's gradient before the group is summed
  operands.push_back(laid(output("d_q", type, {tokens, wide}, grad), layout));
  operands.push_back(laid(output("d_k", type, {tokens, narrow}, grad), layout));
  operands.push_back(laid(output("d_v", type, {tokens, narrow}, grad), layout));
  if (s.sinks)
    operands.push_back(
        in_out("d_sinks", Store::f32, normal({s.heads}, 8),
               {.roundings = 1.01, .sums = 1, .reason = "what gradient_sizes counts", .between = 2.01}));
  double out_unit = type == Store::f32    ? 1
                    : type == Store::bf16 ? 0x1p16
                                          : 0x1p13;  // of its rounding, in 2⁻²⁴
  auto oracle = [=](const Tensors& in) {
    Forward function = [=](const Tensors& v) {
      return attend(heads_of(v.at("q"), s), heads_of(v.at("k"), s), heads_of(v.at("v"), s), sinks_of(v), s);
    };
    Tensors values{{"q", in.at("q")}, {"k", in.at("k")}, {"v", in.at("v")}};
    std::vector<std::string> wanted{"q", "k", "v"};
    if (s.sinks) values["sinks"] = in.at("sinks"), wanted.push_back("sinks");
    Tensors grads = gradients(function, values, wanted, {{"out", in.at("d_out")}});
    Tensors out{{"d_q", grads.at("q")}, {"d_k", grads.at("k")}, {"d_v", grads.at("v")}};
    if (in.count("d_sinks")) out["d_sinks"] = in.at("d_sinks") + (type == Store::f32 ? grads.at("sinks") : sink_gradient(in, s));
    for (const auto& [name, size] : gradient_sizes(in, s, out_unit)) out[name] = size;
    return out;
  };
  return make_case<AttentionBackward>("attention", title("backward ", s, layout, type), operands, oracle,
                                      [=](Pointers& p) {
                                        AttentionBackward a{shape_of(type, s, p),
                                                            p["q"],
                                                            p.stride("q"),
                                                            p["k"],
                                                            p.stride("k"),
                                                            p["v"],
                                                            p.stride("v"),
                                                            p["out"],
                                                            p.stride("out"),
                                                            p["lse"],
                                                            p["d_out"],
                                                            p.stride("d_out"),
                                                            p["d_q"],
                                                            p.stride("d_q"),
                                                            p["d_k"],
                                                            p.stride("d_k"),
                                                            p["d_v"],
                                                            p.stride("d_v")};
                                        if (s.sinks) a.d_sinks = p["d_sinks"];
                                        return a;
                                      });
}

Case group_sums_case(Store type, int64_t tokens, int64_t kv_heads, int64_t group, int64_t head_dim, const Layout& layout, double size = 1) {
  const Tolerance sum{.roundings = 1.01, .sums = static_cast<double>(group), .reason = "a sum of a group in fp32, one rounding"};
  const auto x = [&](const char* name, int64_t seed) {
    return input(name, type, size * normal({tokens, kv_heads * group * head_dim}, seed));
  };
  const auto y = [&](const char* name) { return laid(output(name, type, {tokens, kv_heads * head_dim}, sum), layout); };
  const auto of = [=](const Tensors& in, const char* name) {
    const at::Tensor groups = in.at(name).view({tokens, kv_heads, group, head_dim});
    return std::pair(groups.sum(2).flatten(1), groups.abs().sum(2).flatten(1));
  };
  return make_case<GroupSums>(
      "group sums",
      std::to_string(tokens) + " tokens, " + std::to_string(kv_heads) + " x " + std::to_string(group) + " heads of " +
          std::to_string(head_dim) + (size > 1 ? " past fp16's range " : " ") + layout.name + " " + name_of(type),
      {x("d_k of all", 1), x("d_v of all", 2), y("d_k"), y("d_v")},
      [=](const Tensors& in) {
        const auto [d_k, of_k] = of(in, "d_k of all");
        const auto [d_v, of_v] = of(in, "d_v of all");
        return Tensors{{"d_k", d_k}, {"d_k.size", of_k}, {"d_v", d_v}, {"d_v.size", of_v}};
      },
      [=](Pointers& p) {
        return GroupSums{element(type), tokens, kv_heads, group, head_dim, {p["d_k of all"], p["d_v of all"]}, {p["d_k"], p["d_v"]},
                         {p.stride("d_k"), p.stride("d_v")}};
      });
}

Case cleared_sums_case() {
  constexpr int64_t kSums = 12;
  return make_case<ClearedSums>(
      "group sums", "cleared", {output("sums", Store::f32, {kSums}, {.roundings = 0, .sums = 0, .reason = "zeros"})},
      [](const Tensors&) { return Tensors{{"sums", at::zeros({kSums}, at::kDouble)}}; },
      [](Pointers& p) { return ClearedSums{p["sums"], kSums * static_cast<int64_t>(sizeof(float))}; });
}

}  // namespace

void add_attention_cases(std::vector<Case>& cases) {
  const Setting settings[] = {{"one token", {1}, 1, 1, 8},
                              {"5,1,12", {5, 1, 12}, 6, 2, 16},
                              {"odd head", {7, 3}, 3, 1, 21},
                              {"85,40 of nine heads", {85, 40}, 9, 3, 64},
                              {"127,128,129", {127, 128, 129}, 2, 1, 8},
                              {"300", {300}, 2, 2, 12},
                              {"an empty one", {4, 0, 6}, 2, 1, 32},
                              {"one key wins", {20, 33}, 4, 1, 16, 25},
                              {"many heads a key", {19}, 128, 1, 4},
                              {"window of 4", {20, 3}, 4, 2, 16, 1, 4},
                              {"window of 1", {9}, 2, 1, 8, 1, 1},
                              {"window of 40 in 300", {300}, 2, 1, 12, 1, 40},
                              {"window of 128 in 400", {400}, 1, 1, 8, 1, 128},
                              {"window of 130", {300, 140, 7}, 3, 1, 20, 1, 130},
                              {"cap", {20, 33}, 4, 2, 16, 3, 0, 4},
                              {"cap on heads of 256", {140}, 2, 1, 256, 2, 0, 10},
                              {"window of 9 in 45", {45}, 2, 1, 8, 1, 9},
                              {"window of 40 in 70", {70}, 1, 1, 6, 1, 40},
                              {"heads of 100", {3, 37}, 2, 1, 100, 2},
                              {"cap and window on heads of 200", {2, 36}, 1, 1, 200, 2, 20, 5},
                              {"window and cap", {300, 12}, 4, 2, 24, 2, 50, 8},
                              {"sinks", {5, 1, 12}, 6, 2, 16, 1, 0, 0, true},
                              {"sinks on heads of 100", {3, 37}, 2, 1, 100, 2, 0, 0, true},
                              {"sinks and a window", {300, 12}, 4, 2, 24, 2, 50, 0, true},
                              {"sinks and a window of 4", {20, 3}, 4, 2, 12, 1, 4, 0, true},
                              {"sinks of a hundred texts", std::vector<int64_t>(100, 3), 1, 1, 8, 1, 0, 0, true}};
  // The layouts include aligned gaps, as in parts of a fused row: rows begin at 16 bytes and have
  // gaps between them.
  std::vector<Layout> layouts(std::begin(kLayouts), std::end(kLayouts));
  layouts.push_back({"aligned gaps", 16, 0});
  for (Store type : kFloats)
    for (const Setting& setting : settings)
      for (const Layout& layout : layouts) {
        if (layout.name != kDense.name && setting.tokens() > 60) continue;
        cases.push_back(forward_case(type, setting, layout));
        cases.push_back(backward_case(type, setting, layout));
      }
  // These settings reach each head size that flash attention has a kernel for, and one has more
  // texts than flash attention takes at once.
  const Setting of_flash[] = {{"heads of 80", {3, 7}, 2, 1, 80},    {"heads of 128", {8, 4}, 2, 2, 128}, {"heads of 160", {9}, 1, 1, 160},
                              {"heads of 256", {5, 2}, 2, 1, 256}, {"ten texts", std::vector<int64_t>(10, 2), 4, 2, 16}};
  for (Store type : {Store::bf16, Store::f16}) {
    for (const Setting& setting : of_flash) {
      cases.push_back(forward_case(type, setting, kDense));
      cases.push_back(backward_case(type, setting, kDense));
    }
  }
  for (Store type : kFloats) {
    const Setting setting{"9,4", {9, 4}, 4, 2, 16};
    const Case forward = forward_case(type, setting, kDense), backward = backward_case(type, setting, kDense);
    add_alone(cases, forward);
    add_alone(cases, backward);
    cases.push_back(not_wanted(forward, "lse"));
    const Setting sinks{"9,4 with sinks", {9, 4}, 4, 2, 16, 1, 0, 0, true};
    cases.push_back(not_wanted(backward_case(type, sinks, kDense), "d_sinks"));
  }
}

void add_group_sums_cases(std::vector<Case>& cases) {
  std::vector<Layout> layouts(std::begin(kLayouts), std::end(kLayouts));
  layouts.push_back({"aligned gaps", 16, 0});
  for (Store type : {Store::bf16, Store::f16}) {
    for (const Layout& layout : layouts) {
      cases.push_back(group_sums_case(type, 5, 2, 3, 8, layout));
      cases.push_back(group_sums_case(type, 3, 3, 2, 5, layout));
    }
    cases.push_back(group_sums_case(type, 3, 1, 8, 16, kDense));
    cases.push_back(group_sums_case(type, 3, 8, 2, 5, kDense));  // rows begin at vectors, heads do not
    cases.push_back(group_sums_case(type, 2, 7, 2, 80, kDense));  // more columns than a block has
    cases.push_back(group_sums_case(type, 0, 2, 2, 8, kDense));
    cases.push_back(group_sums_case(type, kPastGrid, 1, 2, 1, kDense));
  }
  cases.push_back(group_sums_case(Store::bf16, 3, 2, 2, 8, kDense, 1e6));
  cases.push_back(cleared_sums_case());
}

}  // namespace forge::kernel_test
