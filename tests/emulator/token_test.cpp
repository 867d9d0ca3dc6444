// Kernels about tokens: the embedding's gradient, dropout, sampling.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "kernels/dropout/dropout_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/sampling/sampling_cuda.h"
#include "tests/emulator/kernel_test.h"

using namespace forge;

TEMPLATE_TEST_CASE("the embedding's gradient adds each token to its row", "", float, Bf16, F16) {
  struct Shape {
    size_t tokens, width, stride, vocab;
  };
  int runs = 0;
  for (Shape s : {Shape{1, 1, 1, 1}, {9, 20, 24, 5}, {70, 33, 33, 4}, {200, 64, 64, 300}, {3, 1030, 1030, 2}})
    for (bool sorted : {true, false})
      in_every_order([&] {
        ++runs;
        std::vector<TestType> d_y = stored<TestType>(normals(s.tokens * s.stride, 31));
        std::vector<int64_t> ids(s.tokens), order(s.tokens);
        for (size_t t = 0; t < s.tokens; ++t)
          ids[t] = t % 11 == 4 ? -1 : static_cast<int64_t>(t * t * 13 % s.vocab);
        std::iota(order.begin(), order.end(), 0);
        auto at = [&](int64_t t) { return ids[static_cast<size_t>(t)]; };
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return at(a) < at(b); });
        std::vector<double> expected(s.vocab * s.width, 0.5);
        for (size_t t = 0; t < s.tokens; ++t)
          for (size_t i = 0; i < s.width && ids[t] >= 0; ++i)
            expected[static_cast<size_t>(ids[t]) * s.width + i] += to_float(d_y[t * s.stride + i]);
        DeviceBuffer<TestType> grad(d_y);
        DeviceBuffer<int64_t> d_ids(ids), d_order(order);
        DeviceBuffer<float> weight(std::vector<float>(s.vocab * s.width, 0.5f));
        EmbeddingGradient e{.type = kElement<TestType>, .tokens = static_cast<int64_t>(s.tokens)};
        e.width = static_cast<int64_t>(s.width), e.d_y = grad.get(),
        e.stride = static_cast<int64_t>(s.stride);
        e.ids = d_ids.get(), e.order = sorted ? d_order.get() : nullptr, e.d_weight = weight.get();
        embedding_gradient_cuda(e, nullptr);
        INFO(s.tokens << " tokens of " << s.width);
        CHECK(difference(widened(weight.read()), expected, [](size_t) { return 1e-4; }) == "");
      });
  std::printf("%d emulated runs of embedding\n", runs);
}

TEMPLATE_TEST_CASE("dropout's mask is the CPU's function of seed, stream, example, position and feature", "",
                   float, Bf16, F16) {
  int runs = 0;
  for (size_t features : {1, 4, 7, 64, 1030})
    for (size_t gap : {0, 4, 5})
      in_every_order([&] {
        ++runs;
        const size_t rows = 3, stride = features + gap;
        const double probability = 0.3;
        const uint64_t seed = 99, stream = dropout_stream(stream_of("q_proj"), 12);
        std::vector<int64_t> example{5, 1ll << 40, 0};
        std::vector<int32_t> position{0, 7, 2000000000};
        std::vector<TestType> x = stored<TestType>(normals(rows * stride, 41));
        DeviceBuffer<TestType> in(x), out(x);
        DeviceBuffer<int64_t> d_example(example);
        DeviceBuffer<int32_t> d_position(position);
        CounterDropout d{.type = kElement<TestType>, .rows = 3, .features = static_cast<int64_t>(features)};
        d.x = in.get(), d.y = out.get(), d.x_stride = d.y_stride = static_cast<int64_t>(stride);
        d.probability = probability, d.seed = seed, d.stream = stream;
        d.example = d_example.get(), d.position = d_position.get();
        counter_dropout_cuda(d, nullptr);
        std::vector<TestType> result = out.read();
        TestType keep;
        from_float(static_cast<float>(1 / (1 - probability)), keep);
        for (size_t r = 0; r < rows; ++r)
          for (size_t i = 0; i < features; ++i) {
            uint64_t key = seed ^ static_cast<uint64_t>(example[r]) << 20;
            auto words = philox(key, stream, static_cast<uint64_t>(position[r]) << 32 | i / 4);
            bool drop = words[i % 4] < static_cast<uint64_t>(probability * 0x1p32);
            TestType expected;
            from_float(drop ? 0.0f : to_float(x[r * stride + i]) * to_float(keep), expected);
            REQUIRE(to_float(result[r * stride + i]) == to_float(expected));
          }
      });
  std::printf("%d emulated runs of dropout\n", runs);
}

namespace {

struct Limits {
  double temperature;
  size_t top_k;
  double top_p, min_p;
};

// Which tokens may be drawn, and with what probability: sorted lists, in fp64.
std::vector<double> distribution(const std::vector<double>& x, const Limits& limits) {
  const double t = limits.temperature > 0 ? limits.temperature : 1;
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  if (limits.temperature == 0) order.resize(1);
  // Equals stay together.
  auto keep = [&](size_t count) {
    while (count > 0 && count < order.size() && x[order[count]] == x[order[count - 1]]) ++count;
    order.resize(std::min(count, order.size()));
  };
  if (limits.top_k > 0) keep(limits.top_k);
  std::vector<double> p(x.size());
  double total = 0, sum = 0;
  for (size_t i : order) total += std::exp((x[i] - x[order[0]]) / t);
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || sum < limits.top_p * total))
    sum += std::exp((x[order[kept++]] - x[order[0]]) / t);
  keep(kept);
  total = 0;
  for (size_t i : order) {
    p[i] = std::exp((x[i] - x[order[0]]) / t);
    if (p[i] < limits.min_p) p[i] = 0;
    total += p[i];
  }
  for (double& v : p) v /= total;
  return p;
}

}  // namespace

TEMPLATE_TEST_CASE("sampling draws the token that the sorted lists give for the same number", "", float, Bf16,
                   F16) {
  const Limits settings[] = {{1, 0, 1, 0},   {0.7, 5, 1, 0},       {1.5, 0, 0.6, 0},
                             {1, 0, 1, 0.2}, {0.9, 20, 0.8, 0.05}, {0, 0, 1, 0}};
  int runs = 0, differing = 0;
  for (size_t vocab : {1, 33, 700})
    for (const Limits& limits : settings)
      in_every_order([&] {
        ++runs;
        const size_t rows = 3;
        std::vector<double> raw(rows * vocab);  // many equals in bf16, none in fp32
        for (size_t i = 0; i < raw.size(); ++i) raw[i] = static_cast<double>((i * 389) % 701) / 64 - 5;
        std::vector<TestType> logits = stored<TestType>(raw);
        raw = widened(logits);
        std::vector<uint64_t> streams{3, 4, 5}, indices{0, 17, 1ull << 33};
        DeviceBuffer<TestType> x(logits);
        DeviceBuffer<uint64_t> d_streams(streams), d_indices(indices);
        DeviceBuffer<int64_t> tokens(rows);
        DeviceBuffer<float> logp(rows);
        Sampling s{
            .type = kElement<TestType>, .rows = 3, .vocab = static_cast<int64_t>(vocab), .logits = x.get()};
        s.stride = s.vocab, s.temperature = static_cast<float>(limits.temperature);
        s.top_k = static_cast<int64_t>(limits.top_k), s.top_p = static_cast<float>(limits.top_p);
        s.min_p = static_cast<float>(limits.min_p), s.seed = 8, s.streams = d_streams.get();
        s.indices = d_indices.get(), s.tokens = tokens.get(), s.logp = logp.get();
        sampling_cuda(s, nullptr);
        for (size_t r = 0; r < rows; ++r) {
          std::vector<double> row(raw.begin() + static_cast<long>(r * vocab),
                                  raw.begin() + static_cast<long>((r + 1) * vocab));
          std::vector<double> p = distribution(row, limits),
                              all = distribution(row,
                                                 {limits.temperature > 0 ? limits.temperature : 1, 0, 1, 0});
          auto token = static_cast<size_t>(tokens.read()[r]);
          REQUIRE(token < vocab);
          // fp32 exponentials may move the boundary of a token by some units.
          const double goal = philox(8, streams[r], indices[r])[0] * 0x1p-32;
          double before = 0;
          for (size_t i = 0; i < token; ++i) before += p[i];
          INFO("vocab " << vocab << " row " << r << " token " << token << " p " << p[token] << " before "
                        << before << " goal " << goal);
          CHECK(p[token] > 0);
          CHECK((before <= goal + 1e-5 && goal <= before + p[token] + 1e-5));
          CHECK(logp.read()[r] == Approx(std::log(all[token])).epsilon(1e-4).margin(1e-5));
          differing += token != 0;
        }
      });
  CHECK(differing > 0);
  std::printf("%d emulated runs of sampling\n", runs);
}

TEST_CASE("sampling keeps ties together, never draws a NaN, and says when nothing can be drawn") {
  auto draw = [](std::vector<float> row, int64_t top_k, float temperature, uint64_t index) {
    DeviceBuffer<float> x(row);
    DeviceBuffer<uint64_t> streams(std::vector<uint64_t>{1}), indices(std::vector<uint64_t>{index});
    DeviceBuffer<int64_t> token(1);
    Sampling s{.rows = 1, .vocab = static_cast<int64_t>(row.size()), .logits = x.get()};
    s.stride = s.vocab, s.temperature = temperature, s.top_k = top_k;
    s.streams = streams.get(), s.indices = indices.get(), s.tokens = token.get();
    sampling_cuda(s, nullptr);
    return token.read()[0];
  };
  std::vector<int64_t> seen(5);
  for (uint64_t i = 0; i < 60; ++i) ++seen[static_cast<size_t>(draw({1, 5, 5, NAN, 0}, 1, 1, i))];
  CHECK((seen[0] == 0 && seen[1] > 15 && seen[2] > 15 && seen[3] == 0 && seen[4] == 0));
  CHECK(draw({NAN, -HUGE_VALF, 3, 3}, 0, 0, 0) == 2);
  CHECK(draw({NAN, -HUGE_VALF}, 0, 1, 0) == -1);
  CHECK(draw({1, HUGE_VALF, 2}, 0, 1, 0) == 1);
}
