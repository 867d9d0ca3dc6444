#include "kernels/sampling/sampling_args.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/lib/base/random.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

constexpr uint64_t kSeed = 8;

struct Limits {
  std::string name;
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1, min_p = 0;
};

// Returns the probability of every token that may be drawn, by sorted lists, in fp64. x has a
// finite value and no +∞.
std::vector<double> distribution(const std::vector<double>& x, const Limits& limits) {
  const double t = limits.temperature > 0 ? limits.temperature : 1;
  std::vector<size_t> order;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] > -HUGE_VAL) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  if (limits.temperature == 0) order.resize(1);
  auto mass = [&](size_t i) { return std::exp((x[i] - x[order[0]]) / t); };
  auto keep = [&](size_t count) {  // equals stay together
    while (count > 0 && count < order.size() && x[order[count]] == x[order[count - 1]]) ++count;
    order.resize(std::min(count, order.size()));
  };
  if (limits.top_k > 0) keep(static_cast<size_t>(limits.top_k));
  double total = 0, sum = 0;
  for (size_t i : order) total += mass(i);
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || sum < limits.top_p * total)) sum += mass(order[kept++]);
  keep(kept);
  std::vector<double> p(x.size());
  total = 0;
  for (size_t i : order) total += p[i] = mass(i) < limits.min_p ? 0 : mass(i);
  for (double& v : p) v /= total;
  return p;
}

struct Draw {
  int64_t token;
  double logp;
};

Draw draw(std::vector<double> x, const Limits& limits, double uniform) {
  for (double& v : x)
    if (std::isnan(v)) v = -HUGE_VAL;
  const double largest = *std::max_element(x.begin(), x.end());
  if (largest == -HUGE_VAL) return {-1, -HUGE_VAL};
  if (largest == HUGE_VAL) return {std::find(x.begin(), x.end(), largest) - x.begin(), std::nan("")};
  std::vector<double> p = distribution(x, limits),
                      all = distribution(x, {"", limits.temperature > 0 ? limits.temperature : 1});
  size_t token = 0;
  double before = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) token = i;
    before += p[i];
    if (before > uniform) break;
  }
  return {static_cast<int64_t>(token), std::log(all[token])};
}

Case sampling_case(Store type, const std::string& name, const Limits& limits, const at::Tensor& logits,
                   const Layout& layout = kDense) {
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  auto oracle = [=](const Tensors& in) {
    Tensors out{{"tokens", at::empty({rows}, at::kLong)}, {"logp", at::empty({rows}, at::kDouble)}};
    for (int64_t r = 0; r < rows; ++r) {
      at::Tensor row = in.at("logits")[r].contiguous();
      const double* x = row.const_data_ptr<double>();
      const uint64_t stream = static_cast<uint64_t>(in.at("streams")[r].item<int64_t>()),
                     index = static_cast<uint64_t>(in.at("indices")[r].item<int64_t>());
      Draw drawn = draw({x, x + vocab}, limits, philox(kSeed, stream, index)[0] * 0x1p-32);
      out["tokens"][r] = drawn.token;
      out["logp"][r] = drawn.logp;
    }
    return out;
  };
  // The counter's numbers keep a distance of about 1e-6 and more from every border between two
  // tokens here.
  return make_case<Sampling>(
      "sampling", name + " " + limits.name + " " + layout.name + " " + name_of(type),
      {laid(input("logits", type, logits), layout),
       input("streams", Store::i64, at::arange(3, 3 + rows, at::kLong)),
       input("indices", Store::i64, at::arange(rows, at::kLong).mul(int64_t{1} << 33)),
       output("tokens", Store::i64, {rows}, {.reason = "the token itself"}),
       output("logp", Store::f32, {rows},
              {.roundings = 4, .sums = 40, .reason = "z and the sum of exponentials in fp32"})},
      oracle, [=](Pointers& p) {
        Sampling a{element(type), rows, vocab, p["logits"], p.stride("logits")};
        a.temperature = static_cast<float>(limits.temperature), a.top_k = limits.top_k;
        a.top_p = static_cast<float>(limits.top_p), a.min_p = static_cast<float>(limits.min_p);
        a.seed = kSeed, a.streams = p["streams"], a.indices = p["indices"];
        a.tokens = p["tokens"], a.logp = p["logp"];
        return a;
      });
}

}  // namespace

void add_sampling_cases(std::vector<Case>& cases) {
  const Limits settings[] = {{"plain"},
                             {"greedy", 0},
                             {"top-k", 0.7, 5},
                             {"top-p", 1.5, 0, 0.6},
                             {"min-p", 1, 0, 1, 0.2},
                             {"all limits", 0.9, 20, 0.8, 0.05},
                             {"k of all", 1, 5000}};
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = HUGE_VAL;
  at::Tensor odd = at::tensor({1.0, 5.0,  5.0, nan, 0.0,  -0.0, 0.0, -inf, -inf, nan, 3.0, 3.0,
                               nan, -inf, nan, nan, -inf, nan,  1.0, inf,  2.0,  inf, nan, -inf},
                              at::kDouble)
                       .view({4, 6});
  for (Store type : kFloats)
    for (const Limits& limits : settings) {
      for (int64_t vocab : {1, 33, 700}) {
        at::Tensor spread = at::arange(2 * vocab, at::kLong).mul(389).remainder(701).to(at::kDouble) / 64 - 5;
        for (const Layout& layout : kLayouts)
          if (vocab < 100 || layout.row_gap != 0)  // the emulator takes its time for 70 passes
            cases.push_back(
                sampling_case(type, "2x" + std::to_string(vocab), limits, spread.view({2, vocab}), layout));
      }
      cases.push_back(sampling_case(type, "ties, NaN, infinite", limits, odd));
      cases.push_back(sampling_case(type, "normal", limits, normal({6, 40}, 3, 2)));
      cases.push_back(sampling_case(type, "no rows", limits, at::empty({0, 9}, at::kDouble)));
      cases.push_back(not_wanted(sampling_case(type, "normal", limits, normal({6, 40}, 3, 2)), "logp"));
    }
}

}  // namespace forge::kernel_test
