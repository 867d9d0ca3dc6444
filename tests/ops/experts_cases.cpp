#include "kernels/experts/experts_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

using Scores = RouteRule::Scores;
const Tolerance kExact{.roundings = 0, .sums = 0, .reason = "whole numbers"};

// ---- which experts tokens get ----

struct Routing {
  at::Tensor places, ends;  // int64 [tokens, per_token], [experts]
};

// chosen: int64 [tokens, per_token], numbers of experts.
Routing routing_of(const at::Tensor& chosen, int64_t experts) {
  const at::Tensor flat = chosen.flatten(), order = std::get<1>(flat.sort(true, 0, false));
  at::Tensor places = at::empty_like(order);
  places.index_copy_(0, order, at::arange(order.size(0), at::kLong));
  return {places.view(chosen.sizes()), at::bincount(flat, {}, experts).cumsum(0)};
}

enum class Spread { random, one, half };  // over all experts, all rows to one, to every other one

// Chooses some experts, not the best ones: the ops after the choice do not depend on its reason.
at::Tensor some_experts(int64_t tokens, int64_t experts, int64_t per_token, Spread spread) {
  at::Tensor score = uniform_values({tokens, experts}, 11, 0, 1);
  if (spread == Spread::one) score.select(1, experts / 2) += 2;
  if (spread == Spread::half) score.slice(1, 0, experts, 2) += 2;
  return std::get<1>(score.topk(per_token, 1));
}

std::vector<Operand> places_and_ends(const Routing& r) {
  return {input("places", Store::i32, r.places), input("ends", Store::i32, r.ends)};
}

// ---- routing ----

struct Router {
  std::string name;
  RouteRule rule;
  bool correction = false;
};

at::Tensor scores_of(const at::Tensor& logits, Scores scores) {
  if (scores == Scores::chosen_softmax) return logits;
  return scores == Scores::sigmoid ? at::sigmoid(logits) : at::softmax(logits, 1);
}

// Returns the numbers of the largest scores. Among equal scores the first is chosen.
at::Tensor best(const at::Tensor& scores, int64_t count) {
  return std::get<1>(scores.sort(true, -1, true)).narrow(-1, 0, count);
}

at::Tensor chosen_by(const at::Tensor& scores, const RouteRule& rule, const at::Tensor& correction) {
  at::Tensor ranked = correction.defined() ? scores + correction : scores;
  if (rule.groups_per_token < rule.groups) {
    const at::Tensor groups = ranked.unflatten(1, {rule.groups, -1});
    const at::Tensor worth = std::get<0>(groups.topk(rule.group_best, 2)).sum(2);
    const at::Tensor out =
        at::ones_like(worth, at::kBool).scatter(1, best(worth, rule.groups_per_token), false);
    ranked = groups.masked_fill(out.unsqueeze(2), -HUGE_VAL).flatten(1);
  }
  return best(ranked, rule.per_token);
}

at::Tensor weights_of(const at::Tensor& scores, const at::Tensor& chosen, const RouteRule& rule) {
  at::Tensor weights = scores.gather(1, chosen);
  if (rule.scores == Scores::chosen_softmax) weights = at::softmax(weights, 1);
  if (rule.normalise) weights = weights / (weights.sum(1, true) + rule.sum_eps);
  return weights * rule.scale;
}

Case route_case(Store type, const Router& router, const at::Tensor& logits, const std::string& name,
                const Layout& layout) {
  const int64_t tokens = logits.size(0), experts = logits.size(1), per_token = router.rule.per_token;
  std::vector<Operand> operands{laid(input("logits", type, logits), layout)};
  if (router.correction)
    operands.push_back(input("correction", type, uniform_values({experts}, 3, -0.5, 0.5)));
  operands.push_back(output("weights", Store::f32, {tokens, per_token},
                            {.roundings = 2, .sums = 32, .reason = "exp and a sum over experts"}));
  operands.push_back(output("places", Store::i32, {tokens, per_token}, kExact));
  operands.push_back(output("ends", Store::i32, {experts}, kExact));
  operands.push_back(output("probability", Store::f32, {experts},
                            {.roundings = 2, .sums = 64, .reason = "sums over experts and tokens"}));
  return make_case<ExpertRoute>(
      "experts", "route " + router.name + " " + name + " " + layout.name + " " + name_of(type), operands,
      [=](const Tensors& in) {
        const at::Tensor scores = scores_of(in.at("logits"), router.rule.scores);
        const at::Tensor chosen =
            chosen_by(scores, router.rule, router.correction ? in.at("correction") : at::Tensor());
        const Routing routing = routing_of(chosen, experts);
        return Tensors{{"weights", weights_of(scores, chosen, router.rule)},
                       {"places", routing.places},
                       {"ends", routing.ends},
                       {"probability", at::softmax(in.at("logits"), 1).sum(0)}};
      },
      [=](Pointers& p) {
        ExpertRoute a{element(type), router.rule, tokens, experts, p["logits"], p.stride("logits")};
        if (router.correction) a.correction = p["correction"];
        a.weights = p["weights"], a.places = p["places"], a.ends = p["ends"],
        a.probability = p["probability"];
        return a;
      });
}

Case route_backward_case(Store type, const Router& router, int64_t tokens, int64_t experts, bool balanced,
                         const Layout& layout) {
  const int64_t per_token = router.rule.per_token;
  const at::Tensor chosen = some_experts(tokens, experts, per_token, Spread::random);
  std::vector<Operand> operands = places_and_ends(routing_of(chosen, experts));
  operands.push_back(laid(input("logits", type, normal({tokens, experts}, 1)), layout));
  operands.push_back(input("d_weights", Store::f32, normal({tokens, per_token}, 2)));
  if (balanced) operands.push_back(input("slope", Store::f32, normal({experts}, 3)));
  operands.push_back(laid(output("d_logits", type, {tokens, experts},
                                 {.roundings = 1.01, .sums = 64, .reason = "sums over experts, twice"}),
                          layout));
  return make_case<ExpertRouteBackward>(
      "experts",
      "route backward " + router.name + (balanced ? " balanced " : " ") + std::to_string(tokens) + "x" +
          std::to_string(experts) + " " + layout.name + " " + name_of(type),
      operands,
      [=](const Tensors& in) {
        const Forward forward = [=](const Tensors& v) {
          const at::Tensor scores = scores_of(v.at("logits"), router.rule.scores);
          Tensors out{{"weights", weights_of(scores, chosen, router.rule)}};
          if (balanced) out["probability"] = at::softmax(v.at("logits"), 1).sum(0);
          return out;
        };
        Tensors slopes{{"weights", in.at("d_weights")}};
        if (balanced) slopes["probability"] = in.at("slope");
        const at::Tensor d =
            gradients(forward, {{"logits", in.at("logits")}}, {"logits"}, slopes).at("logits");
        // The gradient consists of differences of the weights and the slopes.
        const double largest = tokens == 0 ? 1
                                           : in.at("d_weights").abs().max().item<double>() +
                                                 (balanced ? in.at("slope").abs().max().item<double>() : 0);
        return Tensors{{"d_logits", d}, {"d_logits.size", at::full_like(d, router.rule.scale * largest)}};
      },
      [=](Pointers& p) {
        ExpertRouteBackward a{element(type), router.rule, tokens, experts, p["logits"], p.stride("logits")};
        a.d_weights = p["d_weights"], a.places = p["places"], a.ends = p["ends"];
        if (balanced) a.slope = p["slope"];
        a.d_logits = p["d_logits"], a.d_logits_stride = p.stride("d_logits");
        return a;
      });
}

// ---- rows ----

struct Sizes {
  int64_t tokens, experts, per_token, width;
  Spread spread = Spread::random;
  int64_t slots() const { return tokens * per_token; }
  std::string title(const Layout& layout, Store type) const {
    const char* to = spread == Spread::one ? " to one" : spread == Spread::half ? " to half" : "";
    return std::to_string(tokens) + "x" + std::to_string(width) + ", " + std::to_string(per_token) + " of " +
           std::to_string(experts) + to + " " + layout.name + " " + name_of(type);
  }
  at::Tensor places() const {
    return routing_of(some_experts(tokens, experts, per_token, spread), experts).places;
  }
};

// Returns each token's rows, [tokens, per_token, width].
at::Tensor of_tokens(const at::Tensor& rows, const at::Tensor& places) {
  return rows.index_select(0, places.flatten()).view({places.size(0), places.size(1), rows.size(1)});
}
// Returns the rows in their places, [slots, width].
at::Tensor in_places(const at::Tensor& each, const at::Tensor& places) {
  return at::zeros({places.numel(), each.size(2)}, at::kDouble)
      .index_copy(0, places.flatten(), each.flatten(0, 1));
}

Case dispatch_case(Store type, const Sizes& s, const Layout& layout) {
  return make_case<ExpertRows>(
      "experts", "dispatch " + s.title(layout, type),
      {laid(input("x", type, normal({s.tokens, s.width}, 1)), layout),
       input("places", Store::i32, s.places()),
       output("rows", type, {s.slots(), s.width}, {.roundings = 0, .sums = 0, .reason = "a copy"})},
      [=](const Tensors& in) {
        return Tensors{{"rows", in_places(in.at("x").unsqueeze(1).expand({s.tokens, s.per_token, s.width}),
                                          in.at("places"))}};
      },
      [=](Pointers& p) {
        return ExpertRows{element(type), s.tokens, s.per_token,   s.width,
                          p["places"],   p["x"],   p.stride("x"), p["rows"]};
      });
}

Case gather_case(Store type, const Sizes& s, const Layout& layout, bool accumulate) {
  const Tolerance once{.roundings = 1.01, .sums = 8, .reason = "a sum over a token's rows"};
  return make_case<ExpertRows>(
      "experts",
      std::string(accumulate ? "dispatch backward added " : "dispatch backward ") + s.title(layout, type),
      {laid(accumulate ? in_out("x", type, normal({s.tokens, s.width}, 1), once)
                       : output("x", type, {s.tokens, s.width}, once),
            layout),
       input("places", Store::i32, s.places()), input("rows", type, normal({s.slots(), s.width}, 2))},
      [=](const Tensors& in) {
        const at::Tensor each = of_tokens(in.at("rows"), in.at("places")),
                         zero = at::zeros({s.tokens, s.width}, at::kDouble);
        const at::Tensor before = accumulate ? in.at("x") : zero;
        return Tensors{{"x", before + each.sum(1)}, {"x.size", before.abs() + each.abs().sum(1)}};
      },
      [=](Pointers& p) {
        return ExpertRows{element(type), s.tokens,      s.per_token, s.width, p["places"],
                          p["x"],        p.stride("x"), p["rows"],   true,    accumulate};
      });
}

Case combine_case(Store type, const Sizes& s, const Layout& layout) {
  return make_case<ExpertCombine>(
      "experts", "combine " + s.title(layout, type),
      {input("places", Store::i32, s.places()),
       input("weights", Store::f32, normal({s.tokens, s.per_token}, 1)),
       input("rows", type, normal({s.slots(), s.width}, 2)),
       laid(output("y", type, {s.tokens, s.width},
                   {.roundings = 1.01, .sums = 8, .reason = "a sum over a token's rows"}),
            layout)},
      [](const Tensors& in) {
        const at::Tensor each = of_tokens(in.at("rows"), in.at("places")) * in.at("weights").unsqueeze(2);
        return Tensors{{"y", each.sum(1)}, {"y.size", each.abs().sum(1)}};
      },
      [=](Pointers& p) {
        return ExpertCombine{element(type), s.tokens,  s.per_token, s.width,      p["places"],
                             p["weights"],  p["rows"], p["y"],      p.stride("y")};
      });
}

Case combine_backward_case(Store type, const Sizes& s, const Layout& layout) {
  return make_case<ExpertCombineBackward>(
      "experts", "combine backward " + s.title(layout, type),
      {input("places", Store::i32, s.places()),
       input("weights", Store::f32, normal({s.tokens, s.per_token}, 1)),
       input("rows", type, normal({s.slots(), s.width}, 2)),
       laid(input("d_y", type, normal({s.tokens, s.width}, 3)), layout),
       output("d_rows", type, {s.slots(), s.width}, {.roundings = 1.01, .sums = 1, .reason = "one product"}),
       output("d_weights", Store::f32, {s.tokens, s.per_token},
              {.roundings = 1, .sums = 8 + static_cast<double>(s.width), .reason = "a sum over the width"})},
      [=](const Tensors& in) {
        const at::Tensor& places = in.at("places");
        const Forward forward = [=](const Tensors& v) {
          return Tensors{{"y", (of_tokens(v.at("rows"), places) * v.at("weights").unsqueeze(2)).sum(1)}};
        };
        Tensors d = gradients(forward, {{"rows", in.at("rows")}, {"weights", in.at("weights")}},
                              {"rows", "weights"}, {{"y", in.at("d_y")}});
        const at::Tensor terms = of_tokens(in.at("rows"), places) * in.at("d_y").unsqueeze(1);
        return Tensors{
            {"d_rows", d.at("rows")}, {"d_weights", d.at("weights")}, {"d_weights.size", terms.abs().sum(2)}};
      },
      [=](Pointers& p) {
        ExpertCombineBackward a{element(type), s.tokens,     s.per_token, s.width,
                                p["places"],   p["weights"], p["rows"]};
        a.d_y = p["d_y"], a.d_y_stride = p.stride("d_y");
        a.d_rows = p["d_rows"], a.d_weights = p["d_weights"];
        return a;
      });
}

// ---- one gate a row ----

const Tolerance kGated{.roundings = 1.01, .sums = 8, .reason = "a sigmoid and a product"};

Case gate_case(Store type, int64_t rows, int64_t width, const Layout& layout) {
  return make_case<GateRows>(
      "experts",
      "gate " + std::to_string(rows) + "x" + std::to_string(width) + " " + layout.name + " " + name_of(type),
      {laid(input("x", type, normal({rows, width}, 1)), layout),
       laid(input("gate", type, normal({rows, 1}, 2, 3)), layout),
       laid(output("y", type, {rows, width}, kGated), layout)},
      [](const Tensors& in) {
        return Tensors{{"y", at::sigmoid(in.at("gate")) * in.at("x")}};
      },
      [=](Pointers& p) {
        return GateRows{element(type),    rows,   width,        p["x"], p.stride("x"), p["gate"],
                        p.stride("gate"), p["y"], p.stride("y")};
      });
}

Case gate_backward_case(Store type, int64_t rows, int64_t width, const Layout& layout) {
  return make_case<GateRowsBackward>(
      "experts",
      "gate backward " + std::to_string(rows) + "x" + std::to_string(width) + " " + layout.name + " " +
          name_of(type),
      {laid(input("d_y", type, normal({rows, width}, 3)), layout),
       laid(input("x", type, normal({rows, width}, 1)), layout),
       laid(input("gate", type, normal({rows, 1}, 2, 3)), layout),
       laid(output("d_x", type, {rows, width}, kGated), layout),
       laid(
           output(
               "d_gate", type, {rows, 1},
               {.roundings = 1.01, .sums = 8 + static_cast<double>(width), .reason = "a sum over the width"}),
           layout)},
      [](const Tensors& in) {
        const Forward forward = [](const Tensors& v) {
          return Tensors{{"y", at::sigmoid(v.at("gate")) * v.at("x")}};
        };
        Tensors d = gradients(forward, {{"x", in.at("x")}, {"gate", in.at("gate")}}, {"x", "gate"},
                              {{"y", in.at("d_y")}});
        return Tensors{{"d_x", d.at("x")},
                       {"d_gate", d.at("gate")},
                       {"d_gate.size", (in.at("x") * in.at("d_y")).abs().sum(1, true)}};
      },
      [=](Pointers& p) {
        GateRowsBackward a{element(type), rows,          width,     p["d_y"],        p.stride("d_y"),
                           p["x"],        p.stride("x"), p["gate"], p.stride("gate")};
        a.d_x = p["d_x"], a.d_x_stride = p.stride("d_x");
        a.d_gate = p["d_gate"], a.d_gate_stride = p.stride("d_gate");
        return a;
      });
}

std::vector<Router> routers() {
  return {{"softmax", {.per_token = 2}},
          {"normalised", {.per_token = 3, .normalise = true, .scale = 1.5}},
          {"chosen softmax", {.scores = Scores::chosen_softmax, .per_token = 2}},
          {"sigmoid", {.scores = Scores::sigmoid, .per_token = 2, .normalise = true, .scale = 2.5}, true},
          {"a number beside the sum", {.scores = Scores::sigmoid, .per_token = 3, .normalise = true, .sum_eps = 0.25, .scale = 2}},
          {"groups", {.per_token = 2, .scale = 4, .groups = 4, .groups_per_token = 2}},
          {"best of groups",
           {.scores = Scores::sigmoid, .per_token = 3, .groups = 2, .groups_per_token = 1, .group_best = 2},
           true}};
}

void add_route_cases(Store type, std::vector<Case>& cases) {
  for (const Router& router : routers()) {
    for (const Layout& layout : kLayouts) {
      cases.push_back(route_case(type, router, normal({9, 8}, 1), "9x8", layout));
      cases.push_back(route_backward_case(type, router, 9, 8, false, layout));
    }
    cases.push_back(route_case(type, router, normal({0, 8}, 1), "0x8", kDense));
    cases.push_back(route_case(type, router, normal({70, 8}, 1), "70x8", kDense));
    // More experts than a warp has lanes.
    cases.push_back(route_case(type, router, normal({5, 72}, 1), "5x72", kDense));
    cases.push_back(route_backward_case(type, router, 5, 72, false, kDense));
    cases.push_back(route_case(type, router, normal({2, 1000}, 1), "2x1000", kDense));
    // Equal scores.
    if (!router.correction)
      cases.push_back(route_case(type, router, at::zeros({3, 8}, at::kDouble), "equal 3x8", kDense));
    at::Tensor one = normal({40, 8}, 2);
    one.select(1, 5) += 8;
    cases.push_back(route_case(type, router, one, "all to one 40x8", kDense));
    cases.push_back(not_wanted(route_case(type, router, normal({9, 8}, 1), "9x8 without probability", kDense),
                               "probability"));
    for (int64_t tokens : {0, 1, 70})
      cases.push_back(route_backward_case(type, router, tokens, 8, true, kDense));
  }
  // More slots than a block has threads, more of a token and more groups than a warp has lanes.
  cases.push_back(route_case(type, routers()[0], normal({300, 8}, 1), "300x8", kDense));
  const Router many{"many", {.per_token = 40, .normalise = true}}, groups{"many groups", {.per_token = 2, .groups = 36, .groups_per_token = 3}};
  for (const Router& router : {many, groups}) {
    cases.push_back(route_case(type, router, normal({5, 72}, 1), "5x72", kDense));
    cases.push_back(route_backward_case(type, router, 5, 72, true, kDense));
  }
  const Router alone{"alone", {.per_token = 1}}, all{"all", {.per_token = 5}};
  cases.push_back(route_case(type, alone, normal({4, 1}, 1), "4x1", kDense));
  cases.push_back(route_case(type, all, normal({4, 5}, 1), "4x5", kDense));
  cases.push_back(route_backward_case(type, all, 4, 5, true, kDense));
}

}  // namespace

void add_experts_cases(std::vector<Case>& cases) {
  // More tokens than a grid has blocks, and more blocks of columns than a byte counts.
  for (const Sizes& s : {Sizes{kPastGrid, 2, 1, 1}, {1, 2, 1, kPastBlocks}}) {
    cases.push_back(dispatch_case(Store::f32, s, kDense));
    cases.push_back(gather_case(Store::f32, s, kDense, false));
    cases.push_back(combine_case(Store::f32, s, kDense));
    cases.push_back(gate_case(Store::f32, s.tokens, s.width, kDense));
  }
  const Sizes sizes[] = {
      {1, 1, 1, 1}, {5, 4, 2, 7}, {9, 3, 3, 64}, {20, 16, 2, 33, Spread::one}, {20, 8, 3, 33, Spread::half},
      {0, 4, 2, 5}};
  for (Store type : kFloats) {
    add_route_cases(type, cases);
    for (const Layout& layout : kLayouts) {
      for (const Sizes& s : sizes) {
        cases.push_back(dispatch_case(type, s, layout));
        for (const bool accumulate : {false, true}) cases.push_back(gather_case(type, s, layout, accumulate));
        cases.push_back(combine_case(type, s, layout));
        cases.push_back(combine_backward_case(type, s, layout));
      }
      const int64_t shapes[][2] = {{1, 1}, {3, 7}, {9, 64}, {40, 33}, {0, 5}};
      for (auto [rows, width] : shapes) {
        cases.push_back(gate_case(type, rows, width, layout));
        cases.push_back(gate_backward_case(type, rows, width, layout));
      }
    }
    add_alone(cases, route_case(type, routers()[0], normal({9, 8}, 1), "9x8", kDense));
    add_alone(cases, route_backward_case(type, routers()[1], 9, 8, true, kDense));
    add_alone(cases, dispatch_case(type, {5, 4, 2, 48}, kDense));
    add_alone(cases, gather_case(type, {5, 4, 2, 48}, kDense, true));
    add_alone(cases, combine_case(type, {5, 4, 2, 48}, kDense));
    add_alone(cases, combine_backward_case(type, {5, 4, 2, 48}, kDense));
    add_alone(cases, gate_case(type, 5, 48, kDense));
    add_alone(cases, gate_backward_case(type, 5, 48, kDense));
    cases.push_back(over(gate_case(type, 5, 48, kDense), "y", "x"));
  }
}

}  // namespace forge::kernel_test
