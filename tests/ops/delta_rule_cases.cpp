#include "kernels/delta_rule/delta_rule_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  std::string name;
  std::vector<int64_t> lengths;
  int64_t key_heads, value_heads, key_dim, value_dim;
  double slowest = 0, fastest = -1.5;  // g
  bool erases = true;                  // false: a state space

  int64_t tokens() const {
    int64_t sum = 0;
    for (int64_t length : lengths) sum += length;
    return sum;
  }
  int64_t texts() const { return static_cast<int64_t>(lengths.size()); }
  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
};

at::Tensor offsets(const Setting& s) {
  at::Tensor cu = at::zeros({s.texts() + 1}, at::kLong);
  for (int64_t i = 0; i < s.texts(); ++i) cu[i + 1] = cu[i] + s.lengths[static_cast<size_t>(i)];
  return cu;
}

at::Tensor gates_of(const Setting& s, uint64_t seed) {
  return at::cat({uniform_values({s.tokens(), s.value_heads}, seed, s.fastest, s.slowest),
                  uniform_values({s.tokens(), s.value_heads}, seed + 1, 0, 1)},
                 1);
}

at::Tensor normed(const at::Tensor& x) {
  return x / (x.square().sum(-1, true) + static_cast<double>(kDeltaEps)).sqrt();
}

// The recurrence as it is written, token by token; `states` [texts, heads, key_dim, value_dim] come
// before each text, and get what is after it.
at::Tensor mixed(const Tensors& in, const Setting& s, at::Tensor& states) {
  const int64_t shared = s.value_heads / s.key_heads;
  const auto heads_of = [&](const char* name) { return in.at(name).view({-1, s.key_heads, s.key_dim}); };
  const auto each = [&](const at::Tensor& x) { return x.repeat_interleave(shared, 1); };
  const at::Tensor
      q = s.erases ? each(normed(heads_of("q"))) / std::sqrt(static_cast<double>(s.key_dim)) : each(heads_of("q")),
      k = s.erases ? each(normed(heads_of("k"))) : each(heads_of("k")),
      v = in.at("v").view({-1, s.value_heads, s.value_dim}), gates = in.at("gates");
  std::vector<at::Tensor> rows, after;
  int64_t token = 0;
  for (int64_t i = 0; i < s.texts(); ++i) {
    at::Tensor state = states[i];
    for (int64_t t = 0; t < s.lengths[static_cast<size_t>(i)]; ++t, ++token) {
      const at::Tensor g = gates[token].narrow(0, 0, s.value_heads),
                       beta = gates[token].narrow(0, s.value_heads, s.value_heads);
      state = state * g.exp().view({-1, 1, 1});
      const at::Tensor seen = s.erases ? (state * k[token].unsqueeze(2)).sum(1) : at::zeros_like(v[token]);
      const at::Tensor write = beta.unsqueeze(1) * (v[token] - seen);
      state = state + k[token].unsqueeze(2) * write.unsqueeze(1);
      at::Tensor y = (state * q[token].unsqueeze(2)).sum(1);
      if (!s.erases) y = y + in.at("skip").unsqueeze(1) * v[token];
      rows.push_back(y.reshape({-1}));
    }
    after.push_back(state);
  }
  states = at::stack(after);
  if (!rows.empty()) return at::stack(rows);
  at::Tensor none = v.reshape({0, s.values()}) + in.at("q").sum() + in.at("k").sum() + gates.sum();
  return s.erases ? none : none + in.at("skip").sum();
}

at::Tensor zero_states(const Setting& s) {
  return at::zeros({s.texts(), s.value_heads, s.key_dim, s.value_dim}, at::kDouble);
}

DeltaRuleShape shape_of(Store type, const Setting& s, Pointers& p) {
  return {element(type), s.texts(), p["cu_seqlens"], s.key_heads,
          s.value_heads, s.key_dim, s.value_dim,     s.tokens(), s.erases};
}

std::vector<Operand> inputs(Store type, const Setting& s, const Layout& layout) {
  std::vector<Operand> operands{input("cu_seqlens", Store::i32, offsets(s)),
          laid(input("q", type, normal({s.tokens(), s.keys()}, 1)), layout),
          laid(input("k", type, normal({s.tokens(), s.keys()}, 2)), layout),
          laid(input("v", type, normal({s.tokens(), s.values()}, 3)), layout),
          laid(input("gates", Store::f32, gates_of(s, 4)), layout)};
  if (!s.erases) operands.push_back(input("skip", type, normal({s.value_heads}, 5)));
  return operands;
}

std::string title(const char* what, const Setting& s, const Layout& layout, Store type) {
  return std::string(what) + " " + s.name + " " + layout.name + " " + name_of(type);
}

// The largest number of a head's row counts, since a token's result is a sum over the chunk's.
const Tolerance kMixed{.roundings = 1.01,
                       .sums = 100,
                       .reason = "one rounding; products over a chunk and its triangular system"};

at::Tensor largest(const at::Tensor& x) {
  return x.numel() > 0 ? x.abs().amax().expand_as(x).contiguous() : x;
}

template <class Args>
void place(Args& a, Pointers& p) {
  a.q = p["q"], a.q_stride = p.stride("q"), a.k = p["k"], a.k_stride = p.stride("k"), a.v = p["v"],
  a.v_stride = p.stride("v");
  a.gates = p["gates"], a.gates_stride = p.stride("gates");
}

// One token's result is one product of q and k, whose terms may cancel.
const Tolerance kOneToken{.roundings = 1.01,
                          .sums = 16,
                          .reason = "one rounding; a product over a head's features and its norms"};

Case forward_case(Store type, const Setting& s, const Layout& layout) {
  std::vector<Operand> operands = inputs(type, s, layout);
  const Tolerance& within = s.tokens() == 1 ? kOneToken : kMixed;
  operands.push_back(laid(output("y", type, {s.tokens(), s.values()}, within), layout));
  return make_case<DeltaRuleForward>(
      "delta_rule", title("forward", s, layout, type), operands,
      [=](const Tensors& in) {
        at::Tensor states = zero_states(s);
        const at::Tensor y = mixed(in, s, states);
        // For one token, y is q̂ · k̂ times v, whose products may cancel.
        if (s.tokens() == 1) {
          Tensors sizes = in;
          for (const char* name : {"q", "k", "v"}) sizes[name] = in.at(name).abs();
          if (!s.erases) sizes["skip"] = in.at("skip").abs();
          at::Tensor none = zero_states(s);
          return Tensors{{"y", y}, {"y.size", mixed(sizes, s, none)}};
        }
        const double size =
            in.at("v").abs().sum().item<double>() > 0 ? in.at("v").abs().max().item<double>() : 0;
        return Tensors{
            {"y", y},
            {"y.size", s.erases ? at::full_like(y, size / std::sqrt(static_cast<double>(s.key_dim))) : largest(y)}};
      },
      [=](Pointers& p) {
        DeltaRuleForward a{.shape = shape_of(type, s, p)};
        place(a, p);
        if (!s.erases) a.skip = p["skip"];
        a.y = p["y"], a.y_stride = p.stride("y");
        return a;
      });
}

Case state_case(Store type, const Setting& s, bool begins) {
  std::vector<Operand> operands = inputs(type, s, kDense);
  operands.push_back(output("y", type, {s.tokens(), s.values()}, kMixed));
  operands.push_back(
      in_out("state", Store::f32, normal({s.texts(), s.values() * s.key_dim}, 8), kMixed));
  const auto places = std::make_shared<std::vector<char*>>();
  return make_case<DeltaRuleForward>(
      "delta_rule", title(begins ? "begins" : "goes on", s, kDense, type), operands,
      [=](const Tensors& in) {
        at::Tensor states =
            begins ? zero_states(s)
                   : in.at("state").view({s.texts(), s.value_heads, s.key_dim, s.value_dim});
        const at::Tensor y = mixed(in, s, states);
        return Tensors{{"y", y}, {"state", states.reshape({s.texts(), -1})}};
      },
      [=](Pointers& p) {
        DeltaRuleForward a{.shape = shape_of(type, s, p)};
        place(a, p);
        if (!s.erases) a.skip = p["skip"];
        a.y = p["y"], a.y_stride = p.stride("y");
        places->clear();
        char* const first = p["state"];
        for (int64_t i = 0; i < s.texts(); ++i)
          places->push_back(first + 4 * i * s.values() * s.key_dim);
        a.states = places->data(), a.begins = begins;
        return a;
      });
}

Case backward_case(Store type, const Setting& s, const Layout& layout) {
  std::vector<Operand> operands = inputs(type, s, layout);
  operands.push_back(laid(input("d_y", type, normal({s.tokens(), s.values()}, 6)), layout));
  const Tolerance sums{
      .roundings = 1.01,
      .sums = 200,
      .reason =
          "one rounding; products over a chunk, two triangular systems, the states of the text"};
  operands.push_back(laid(output("d_q", type, {s.tokens(), s.keys()}, sums), layout));
  operands.push_back(laid(output("d_k", type, {s.tokens(), s.keys()}, sums), layout));
  operands.push_back(laid(output("d_v", type, {s.tokens(), s.values()}, sums), layout));
  operands.push_back(
      laid(output("d_gates", Store::f32, {s.tokens(), 2 * s.value_heads}, sums), layout));
  const Tolerance skips{.sums = 16, .reason = "one sum of products"};
  if (!s.erases) operands.push_back(in_out("d_skip", Store::f32, normal({s.value_heads}, 7), skips));
  return make_case<DeltaRuleBackward>(
      "delta_rule", title("backward", s, layout, type), operands,
      [=](const Tensors& in) {
        const Forward forward = [=](const Tensors& v) {
          at::Tensor states = zero_states(s);
          return Tensors{{"y", mixed(v, s, states)}};
        };
        Tensors values{
            {"q", in.at("q")}, {"k", in.at("k")}, {"v", in.at("v")}, {"gates", in.at("gates")}};
        std::vector<std::string> names{"q", "k", "v", "gates"};
        if (!s.erases) values["skip"] = in.at("skip"), names.push_back("skip");
        const Tensors d = gradients(forward, values, names, {{"y", in.at("d_y")}});
        Tensors out;
        if (in.count("d_skip")) {
          const at::Tensor terms = (in.at("d_y") * in.at("v")).abs().sum(0).view({s.value_heads, s.value_dim}).sum(1);
          out["d_skip"] = in.at("d_skip") + d.at("skip"), out["d_skip.size"] = terms + in.at("d_skip").abs();
        }
        for (const char* name : {"q", "k", "v", "gates"}) {
          const std::string of = std::string("d_") + name;
          out[of] = d.at(name), out[of + ".size"] = largest(d.at(name));
        }
        return out;
      },
      [=](Pointers& p) {
        DeltaRuleBackward a{
            .shape = shape_of(type, s, p), .d_y = p["d_y"], .d_y_stride = p.stride("d_y")};
        place(a, p);
        if (!s.erases) a.skip = p["skip"], a.d_skip = p["d_skip"];
        a.d_q = p["d_q"], a.d_q_stride = p.stride("d_q"), a.d_k = p["d_k"],
        a.d_k_stride = p.stride("d_k");
        a.d_v = p["d_v"], a.d_v_stride = p.stride("d_v"), a.d_gates = p["d_gates"],
        a.d_gates_stride = p.stride("d_gates");
        return a;
      });
}

// ---- the gates of a state space ----

at::Tensor steps(const Tensors& in, double least) {
  const at::Tensor step = at::softplus(in.at("a") + in.at("dt_bias")).clamp_min(least);
  return at::cat({-in.at("a_log").exp() * step, step}, 1);
}

std::vector<Operand> step_inputs(Store type, int64_t rows, int64_t heads, const Layout& layout) {
  return {laid(input("a", type, normal({rows, heads}, 2, 8)), layout), input("a_log", type, uniform_values({heads}, 3, -3, 2.7)),
          input("dt_bias", type, normal({heads}, 4))};
}

template <class Args>
Args step_args(Store type, int64_t rows, int64_t heads, double least, Pointers& p) {
  Args a;
  a.type = element(type), a.rows = rows, a.heads = heads;
  a.a = p["a"], a.a_stride = p.stride("a"), a.a_log = p["a_log"], a.dt_bias = p["dt_bias"], a.least_step = static_cast<float>(least);
  return a;
}

const Tolerance kStep{.roundings = 1.01, .sums = 16, .reason = "one rounding; exp, log and a product"};

Case steps_case(Store type, int64_t rows, int64_t heads, double least, const Layout& layout) {
  std::vector<Operand> operands = step_inputs(type, rows, heads, layout);
  operands.push_back(laid(output("gates", Store::f32, {rows, 2 * heads}, kStep), layout));
  return make_case<DeltaGatesForward>(
      "delta_rule", "steps " + std::to_string(rows) + "x" + std::to_string(heads) + " least " + std::to_string(least) + " " + layout.name + " " + name_of(type),
      operands, [=](const Tensors& in) { return Tensors{{"gates", steps(in, least)}}; },
      [=](Pointers& p) {
        auto a = step_args<DeltaGatesForward>(type, rows, heads, least, p);
        a.gates = p["gates"], a.gates_stride = p.stride("gates");
        return a;
      });
}

Case steps_back_case(Store type, int64_t rows, int64_t heads, double least, const Layout& layout) {
  std::vector<Operand> operands = step_inputs(type, rows, heads, layout);
  operands.push_back(laid(input("d_gates", Store::f32, normal({rows, 2 * heads}, 5)), layout));
  operands.push_back(laid(output("d_a", type, {rows, heads}, kStep), layout));
  operands.push_back(in_out("d_a_log", Store::f32, normal({heads}, 6), kStep));
  operands.push_back(in_out("d_dt_bias", Store::f32, normal({heads}, 7), kStep));
  return make_case<DeltaGatesBackward>(
      "delta_rule", "steps back " + std::to_string(rows) + "x" + std::to_string(heads) + " least " + std::to_string(least) + " " + layout.name + " " + name_of(type),
      operands,
      [=](const Tensors& in) {
        // Written out: differences find no slope where a step is the least one.
        const at::Tensor x = in.at("a") + in.at("dt_bias"), step = at::softplus(x), rate = -in.at("a_log").exp(),
                         of_decay = in.at("d_gates").narrow(1, 0, heads), of_step = in.at("d_gates").narrow(1, heads, heads);
        const at::Tensor d_a = (of_decay * rate + of_step) * at::sigmoid(x) * step.ge(least), d_log = of_decay * rate * step.clamp_min(least);
        Tensors out{{"d_a", d_a}, {"d_a.size", (of_decay * rate).abs() + of_step.abs()}};
        if (in.count("d_a_log")) out["d_a_log"] = in.at("d_a_log") + d_log.sum(0), out["d_a_log.size"] = d_log.abs().sum(0) + in.at("d_a_log").abs();
        if (in.count("d_dt_bias"))
          out["d_dt_bias"] = in.at("d_dt_bias") + d_a.sum(0), out["d_dt_bias.size"] = ((of_decay * rate).abs() + of_step.abs()).sum(0) + in.at("d_dt_bias").abs();
        return out;
      },
      [=](Pointers& p) {
        auto a = step_args<DeltaGatesBackward>(type, rows, heads, least, p);
        a.d_gates = p["d_gates"], a.d_gates_stride = p.stride("d_gates"), a.d_a = p["d_a"], a.d_a_stride = p.stride("d_a");
        a.d_a_log = p["d_a_log"], a.d_dt_bias = p["d_dt_bias"];
        return a;
      });
}

void add_step_cases(Store type, std::vector<Case>& cases) {
  for (const auto& [rows, heads] : {std::pair<int64_t, int64_t>{1, 1}, {40, 16}, {0, 2}})
    for (const double least : {0.0, 0.5}) {
      cases.push_back(steps_case(type, rows, heads, least, kLayouts[1]));
      cases.push_back(steps_back_case(type, rows, heads, least, kLayouts[1]));
    }
  const Case back = steps_back_case(type, 5, 4, 0.1, kDense);
  cases.push_back(over(back, "d_a", "a"));
  cases.push_back(not_wanted(back, "d_a_log"));
  cases.push_back(not_wanted(back, "d_dt_bias"));
  add_alone(cases, steps_case(type, 3, 8, 0, kDense));
  add_alone(cases, back);
}

// ---- the gates ----

at::Tensor gates(const Tensors& in) {
  return at::cat({-in.at("a_log").exp() * at::softplus(in.at("a") + in.at("dt_bias")),
                  at::sigmoid(in.at("b"))},
                 1);
}

std::vector<Operand> gate_inputs(Store type, int64_t rows, int64_t heads, const Layout& layout) {
  return {laid(input("b", type, normal({rows, heads}, 1, 3)), layout),
          laid(input("a", type, normal({rows, heads}, 2, 8)), layout),
          input("a_log", type, uniform_values({heads}, 3, -3, 2.7)),
          input("dt_bias", type, normal({heads}, 4))};
}

const Tolerance kGate{
    .roundings = 1.01, .sums = 16, .reason = "one rounding; exp, log and a product"};

template <class Args>
Args gate_args(Store type, int64_t rows, int64_t heads, Pointers& p) {
  Args a;
  a.type = element(type), a.rows = rows, a.heads = heads;
  a.b = p["b"], a.b_stride = p.stride("b"), a.a = p["a"], a.a_stride = p.stride("a"),
  a.a_log = p["a_log"], a.dt_bias = p["dt_bias"];
  return a;
}

Case gates_case(Store type, int64_t rows, int64_t heads, const Layout& layout) {
  std::vector<Operand> operands = gate_inputs(type, rows, heads, layout);
  operands.push_back(laid(output("gates", Store::f32, {rows, 2 * heads}, kGate), layout));
  return make_case<DeltaGatesForward>(
      "delta_rule",
      "gates " + std::to_string(rows) + "x" + std::to_string(heads) + " " + layout.name + " " +
          name_of(type),
      operands,
      [](const Tensors& in) {
        return Tensors{{"gates", gates(in)}};
      },
      [=](Pointers& p) {
        auto a = gate_args<DeltaGatesForward>(type, rows, heads, p);
        a.gates = p["gates"], a.gates_stride = p.stride("gates");
        return a;
      });
}

Case gates_back_case(Store type, int64_t rows, int64_t heads, const Layout& layout) {
  std::vector<Operand> operands = gate_inputs(type, rows, heads, layout);
  operands.push_back(laid(input("d_gates", Store::f32, normal({rows, 2 * heads}, 5)), layout));
  operands.push_back(laid(output("d_b", type, {rows, heads}, kGate), layout));
  operands.push_back(laid(output("d_a", type, {rows, heads}, kGate), layout));
  operands.push_back(in_out("d_a_log", Store::f32, normal({heads}, 6), kGate));
  operands.push_back(in_out("d_dt_bias", Store::f32, normal({heads}, 7), kGate));
  return make_case<DeltaGatesBackward>(
      "delta_rule",
      "gates back " + std::to_string(rows) + "x" + std::to_string(heads) + " " + layout.name + " " +
          name_of(type),
      operands,
      [=](const Tensors& in) {
        const Tensors values{{"b", in.at("b")},
                             {"a", in.at("a")},
                             {"a_log", in.at("a_log")},
                             {"dt_bias", in.at("dt_bias")}};
        const Forward forward = [](const Tensors& v) { return Tensors{{"gates", gates(v)}}; };
        const Tensors d = gradients(forward, values, {"b", "a", "a_log", "dt_bias"},
                                    {{"gates", in.at("d_gates")}});
        const at::Tensor terms =
            (in.at("d_gates").narrow(1, 0, heads).abs() * (in.at("a").abs() + 2)).sum(0) *
            in.at("a_log").exp();
        Tensors out{{"d_b", d.at("b")}, {"d_a", d.at("a")}};
        for (const char* name : {"a_log", "dt_bias"}) {
          const std::string of = std::string("d_") + name;
          if (in.count(of) == 0) continue;  // not wanted
          out[of] = in.at(of) + d.at(name), out[of + ".size"] = terms + in.at(of).abs();
        }
        return out;
      },
      [=](Pointers& p) {
        auto a = gate_args<DeltaGatesBackward>(type, rows, heads, p);
        a.d_gates = p["d_gates"], a.d_gates_stride = p.stride("d_gates");
        a.d_b = p["d_b"], a.d_b_stride = p.stride("d_b"), a.d_a = p["d_a"],
        a.d_a_stride = p.stride("d_a");
        a.d_a_log = p["d_a_log"], a.d_dt_bias = p["d_dt_bias"];
        return a;
      });
}

void add_gate_cases(Store type, std::vector<Case>& cases) {
  for (const auto& [rows, heads] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {40, 16}, {0, 2}})
    for (const Layout& layout : kLayouts) {
      cases.push_back(gates_case(type, rows, heads, layout));
      cases.push_back(gates_back_case(type, rows, heads, layout));
    }
  const Case back = gates_back_case(type, 5, 4, kDense);
  cases.push_back(over(over(back, "d_b", "b"), "d_a", "a"));
  cases.push_back(not_wanted(back, "d_a_log"));
  cases.push_back(not_wanted(back, "d_dt_bias"));
  add_alone(cases, gates_case(type, 3, 8, kDense));
  add_alone(cases, gates_back_case(type, 3, 8, kDense));
}

}  // namespace

void add_delta_rule_cases(std::vector<Case>& cases) {
  // Every length around a chunk's end and a step of its triangle, and boundaries of texts anywhere.
  std::vector<Setting> settings;
  for (const int64_t length : {1, 2, 11, 12, 13, 23, 24, 25, 63, 64, 65, 127, 128, 129, 200})
    settings.push_back({"one text of " + std::to_string(length), {length}, 1, 2, 12, 8});
  settings.push_back({"texts 5+64+1+70+0+3", {5, 64, 1, 70, 0, 3}, 2, 4, 16, 24});
  settings.push_back({"texts 130+66", {130, 66}, 2, 2, 10, 5});
  settings.push_back({"wide heads", {70, 9}, 1, 3, 40, 36});
  settings.push_back({"small heads", {66}, 1, 1, 3, 1});
  settings.push_back({"heads of 128", {80}, 1, 1, 128, 128});
  settings.push_back({"nothing decays", {140}, 1, 1, 16, 16, 0, -1e-4});
  settings.push_back({"all decays", {90}, 1, 2, 16, 16, -20, -200});
  settings.push_back({"no text", {0}, 1, 1, 8, 8});
  for (Store type : kFloats) {
    for (const Setting& s : settings) {
      cases.push_back(forward_case(type, s, kDense));
      cases.push_back(backward_case(type, s, kDense));
    }
    for (const Layout& layout : {kLayouts[1], kLayouts[2]}) {
      cases.push_back(forward_case(type, settings[15], layout));
      cases.push_back(backward_case(type, settings[15], layout));
    }
    for (const bool begins : {true, false})
      for (const Setting& s : {Setting{"texts 5+64+1+70+3", {5, 64, 1, 70, 3}, 2, 4, 16, 24},
                               {"a token each", {1, 1, 1}, 1, 2, 20, 13}})
        cases.push_back(state_case(type, s, begins));
    for (Setting s : settings) {
      s.name += ", state space", s.erases = false;
      cases.push_back(forward_case(type, s, kDense));
      cases.push_back(backward_case(type, s, kDense));
    }
    const Setting plain{"states 5+64+1+70+3", {5, 64, 1, 70, 3}, 2, 4, 16, 24, 0, -1.5, false};
    for (const bool begins : {true, false}) cases.push_back(state_case(type, plain, begins));
    cases.push_back(forward_case(type, plain, kLayouts[1]));
    cases.push_back(backward_case(type, plain, kLayouts[1]));
    cases.push_back(not_wanted(backward_case(type, plain, kDense), "d_skip"));
    add_alone(cases, backward_case(type, plain, kDense));
    add_gate_cases(type, cases);
    add_step_cases(type, cases);
    add_alone(cases, forward_case(type, {"two texts", {3, 70}, 1, 2, 16, 16}, kDense));
    add_alone(cases, backward_case(type, {"two texts", {3, 70}, 1, 2, 16, 16}, kDense));
  }
}

}  // namespace forge::kernel_test
