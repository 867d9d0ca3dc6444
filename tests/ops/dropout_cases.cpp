#include <algorithm>

#include "core/lib/base/random.h"
#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

constexpr double kProbability = 0.3;
constexpr uint64_t kSeed = 99;
constexpr int64_t kStep = (int64_t{3} << 33) + 12;

// A step and rows with large numbers: the counter's words must not lose bits.
RowKeys row_keys(int64_t count) {
  RowKeys keys{
      .seed = kSeed, .step = kStep, .example = {5, int64_t{1} << 40, 0}, .position = {0, 7, 2000000000}};
  keys.example.resize(static_cast<size_t>(std::min<int64_t>(count, 3)));
  keys.position.resize(keys.example.size());
  for (int64_t i = 3; i < count; ++i)
    keys.example.push_back(i), keys.position.push_back(static_cast<int32_t>(i % 100));
  return keys;
}

at::Tensor rounded(const at::Tensor& x, Store type) {
  return x.to(type == Store::f32    ? at::kFloat
              : type == Store::bf16 ? at::kBFloat16
                                    : at::kHalf)
      .to(at::kDouble);
}

Case dropout_case(Store type, int64_t features, const Layout& layout, int64_t count = 3, bool add = false) {
  const RowKeys rows = row_keys(count);
  auto oracle = [=](const Tensors& in) {
    at::Tensor mask =
        counter_dropout(at::ones({count, features}, at::kDouble), kProbability, stream_of("q_proj"), rows);
    const at::Tensor kept = in.at("x") * rounded(mask, type);
    if (!add) return Tensors{{"y", kept}};
    return Tensors{{"y", in.at("y") + kept}, {"y.size", in.at("y").abs() + kept.abs()}};
  };
  const Operand y = add ? in_out("y", type, normal({count, features}, 42),
                                 {.roundings = 1.01, .sums = 2, .reason = "one product and one sum in fp32"})
                        : output("y", type, {count, features}, {.roundings = 1.01, .sums = 0, .reason = "one product"});
  return make_case<CounterDropout>(
      "dropout",
      (add ? "added " : "") + std::to_string(count) + "x" + std::to_string(features) + " " + layout.name + " " + name_of(type),
      {laid(input("x", type, normal({count, features}, 41)), layout),
       input("example", Store::i64, at::tensor(rows.example)),
       input("position", Store::i32, at::tensor(rows.position).to(at::kLong)), input("step", Store::i64, at::tensor({kStep})),
       laid(y, layout)},
      oracle, [=](Pointers& p) {
        CounterDropout a{element(type), count, features, p["x"], p["y"], p.stride("x"), p.stride("y")};
        a.probability = kProbability, a.seed = kSeed, a.module = stream_of("q_proj"), a.step = p["step"];
        a.example = p["example"], a.position = p["position"], a.add = add;
        return a;
      });
}

}  // namespace

void add_dropout_cases(std::vector<Case>& cases) {
  for (Store type : kFloats) {
    for (int64_t features : {1, 4, 7, 64, 1030})
      for (const Layout& layout : kLayouts)
        for (bool add : {false, true}) cases.push_back(dropout_case(type, features, layout, 3, add));
    const Case wide = dropout_case(type, 64, kDense);
    add_alone(cases, wide);
    add_alone(cases, dropout_case(type, 64, kDense, 3, true));
    cases.push_back(dropout_case(type, 61, kRagged));
    cases.push_back(over(wide, "y", "x"));
    cases.push_back(over(dropout_case(type, 1030, kDense), "y", "x"));
  }
  cases.push_back(dropout_case(Store::f32, 8, kDense, 0));
  cases.push_back(dropout_case(Store::f32, 2, kDense, kPastGrid));
}

}  // namespace forge::kernel_test
