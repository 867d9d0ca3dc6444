#include "kernels/embedding/embedding_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

at::Tensor some_ids(int64_t tokens, int64_t vocab) {
  at::Tensor ids = at::arange(tokens, at::kLong).mul(5).add(3);
  ids = (ids * ids).remainder(vocab);  // some words often, some never
  if (tokens > 4) ids[4] = -1;
  return ids;
}

constexpr float kScale = 5.5f;  // exact in every type

Case forward_case(Store type, int64_t tokens, int64_t width, int64_t vocab, const Layout& layout,
                  float scale) {
  return make_case<EmbeddingForward>(
      "embedding",
      (scale == 1 ? "forward " : "forward scaled ") + std::to_string(tokens) + "x" + std::to_string(width) +
          " " + layout.name + " " + name_of(type),
      {input("ids", Store::i64, some_ids(tokens, vocab)), input("table", type, normal({vocab, width}, 1)),
       laid(output("y", type, {tokens, width},
                   scale == 1 ? Tolerance{.roundings = 0, .sums = 0, .reason = "a copy"}
                              : Tolerance{.roundings = 1.01, .sums = 0, .reason = "one product"}),
            layout)},
      [=](const Tensors& in) {
        at::Tensor ids = in.at("ids"), rows = in.at("table").index_select(0, ids.clamp_min(0)) * scale;
        return Tensors{{"y", rows.masked_fill(ids.lt(0).unsqueeze(1), 0)}};
      },
      [=](Pointers& p) {
        return EmbeddingForward{element(type), tokens, width,         vocab, p["ids"],
                                p["table"],    p["y"], p.stride("y"), scale};
      });
}

// A lookup with an fp32 result in a table that is held in fp16.
Case narrow_table_case(int64_t tokens, int64_t width, int64_t vocab, const Layout& layout, float scale) {
  Case c = make_case<EmbeddingForward>(
      "embedding", "forward of an fp16 table " + std::to_string(tokens) + "x" + std::to_string(width) + " " + layout.name +
                       (scale == 1 ? "" : " scaled"),
      {input("ids", Store::i64, some_ids(tokens, vocab)), input("table", Store::f16, normal({vocab, width}, 1)),
       laid(output("y", Store::f32, {tokens, width}, {.roundings = 1.01, .sums = 0, .reason = "one product"}), layout)},
      [=](const Tensors& in) {
        at::Tensor ids = in.at("ids"), rows = in.at("table").index_select(0, ids.clamp_min(0)) * scale;
        return Tensors{{"y", rows.masked_fill(ids.lt(0).unsqueeze(1), 0)}};
      },
      [=](Pointers& p) {
        return EmbeddingForward{Element::f32, tokens, width,         vocab, p["ids"],
                                p["table"],   p["y"], p.stride("y"), scale, Element::f16};
      });
  return c;
}

constexpr int64_t kFrozen = 4;

Case backward_case(Store type, int64_t tokens, int64_t width, int64_t vocab, const Layout& layout,
                   bool sorted, float scale, bool frozen = false) {
  auto oracle = [=](const Tensors& in) {
    at::Tensor kept = in.at("ids").ge(0).unsqueeze(1), ids = in.at("ids").clamp_min(0);
    if (frozen) kept = kept.logical_and(in.at("ids").ne(kFrozen).unsqueeze(1));
    Forward forward = [&](const Tensors& v) {
      return Tensors{{"y", at::embedding(v.at("table"), ids) * kept * scale}};
    };
    at::Tensor grad = gradients(forward, {{"table", at::ones({vocab, width}, at::kDouble)}}, {"table"},
                                {{"y", in.at("d_y")}})
                          .at("table");
    at::Tensor size = in.at("d_table").abs().index_add(0, ids, in.at("d_y").abs() * kept * scale);
    return Tensors{{"d_table", in.at("d_table") + grad}, {"d_table.size", size}};
  };
  at::Tensor ids = some_ids(tokens, vocab);
  std::vector<Operand> operands{
      input("ids", Store::i64, ids), laid(input("d_y", type, normal({tokens, width}, 2)), layout),
      in_out("d_table", Store::f32, normal({vocab, width}, 3),
             {.roundings = 1, .sums = 8, .reason = "an fp32 sum of the tokens that share a word"})};
  if (sorted) operands.push_back(input("order", Store::i64, at::argsort(ids, /*stable=*/true)));
  Case c = make_case<EmbeddingBackward>(
      "embedding",
      std::string("backward ") + (frozen ? "but one row " : "") + (scale == 1 ? "" : "scaled ") + (sorted ? "sorted " : "") +
          std::to_string(tokens) + "x" + std::to_string(width) + " " + layout.name + " " + name_of(type),
      operands, oracle, [=](Pointers& p) {
        EmbeddingBackward a{element(type), tokens,   width,           vocab,
                            p["ids"],      p["d_y"], p.stride("d_y"), p["d_table"]};
        if (sorted) a.order = p["order"];
        a.scale = scale;
        if (frozen) a.frozen = kFrozen;
        return a;
      });
  c.ordered = sorted;
  return c;
}

}  // namespace

void add_embedding_cases(std::vector<Case>& cases) {
  const int64_t shapes[][3] = {{1, 1, 1}, {7, 33, 5}, {40, 64, 11}, {0, 8, 4}, {300, 20, 50}, {3, 1030, 2}};
  for (Store type : kFloats)
    for (auto [tokens, width, vocab] : shapes)
      for (const Layout& layout : kLayouts) {
        for (float scale : {1.0f, kScale}) {
          cases.push_back(forward_case(type, tokens, width, vocab, layout, scale));
          for (bool sorted : {true, false})
            cases.push_back(backward_case(type, tokens, width, vocab, layout, sorted, scale));
        }
      }
  for (const Layout& layout : kLayouts)
    for (float scale : {1.0f, kScale}) cases.push_back(narrow_table_case(9, 48, 7, layout, scale));
  for (Store type : kFloats) {
    for (bool sorted : {true, false}) cases.push_back(backward_case(type, 40, 24, 11, kDense, sorted, 1, /*frozen=*/true));
    add_alone(cases, forward_case(type, 7, 48, 5, kDense, 1));
    cases.push_back(forward_case(type, 7, 61, 5, kRagged, 1));
    for (bool sorted : {true, false}) {
      add_alone(cases, backward_case(type, 7, 48, 5, kDense, sorted, 1));
      cases.push_back(backward_case(type, 7, 61, 5, kRagged, sorted, 1));
    }
  }
  // More tokens than a grid is high.
  cases.push_back(forward_case(Store::f32, kPastGrid, 1, 9, kDense, 1));
  for (bool sorted : {true, false})
    cases.push_back(backward_case(Store::f32, kPastGrid, 1, 70000, kDense, sorted, 1));
}

}  // namespace forge::kernel_test
