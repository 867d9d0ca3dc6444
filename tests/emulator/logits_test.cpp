// Softmax-cross-entropy over logits against plain loops in fp64, gradient against the formula's derivative
// and against finite differences of the loop.
#include <cstdio>

#include "kernels/lm_head/logits_cuda.h"
#include "tests/emulator/kernel_test.h"

using namespace forge;

namespace {

struct Setting {
  size_t rows, vocab, stride, misalign;
  double temperature, softcap, smoothing, z_loss, scale;
};

struct Row {
  double logp, lse, mean, entropy, loss;
};

Row row_of(const double* x, size_t vocab, int64_t target, const Setting& s) {
  std::vector<double> z(vocab);
  double largest = -HUGE_VAL, total = 0, mean = 0, expected = 0;
  for (size_t i = 0; i < vocab; ++i) {
    z[i] = (s.softcap > 0 ? s.softcap * std::tanh(x[i] / s.softcap) : x[i]) / s.temperature;
    largest = std::max(largest, z[i]);
    mean += z[i] / static_cast<double>(vocab);
  }
  for (double v : z) total += std::exp(v - largest);
  double lse = largest + std::log(total);
  for (double v : z) expected += std::exp(v - lse) * v;
  double logp = z[static_cast<size_t>(target)] - lse;
  return {logp, lse, mean, lse - expected,
          -(1 - s.smoothing) * logp - s.smoothing * (mean - lse) + s.z_loss * lse * lse};
}

// Cotangents of logp, lse, mean, entropy, loss.
constexpr double kCotangents[5] = {0.3, -0.2, 0.7, 0.11, 1.5};

double objective(const double* x, size_t vocab, int64_t target, const Setting& s) {
  Row r = row_of(x, vocab, target, s);
  return kCotangents[0] * r.logp + kCotangents[1] * r.lse + kCotangents[2] * r.mean +
         kCotangents[3] * r.entropy + kCotangents[4] * r.loss;
}

template <class T>
void check(const Setting& s) {
  size_t elements = (s.rows - 1) * s.stride + s.vocab;
  std::vector<T> logits = stored<T>(normals(elements, s.vocab, s.scale));
  std::vector<double> x = widened(logits);
  std::vector<int64_t> targets(s.rows);
  for (size_t r = 0; r < s.rows; ++r)
    targets[r] = r % 3 == 2 ? -100 : static_cast<int64_t>((r * 7919 + 3) % s.vocab);
  auto run = [&](bool gradient) {
    DeviceBuffer<T> in(logits, "logits", s.misalign * sizeof(T));
    DeviceBuffer<int64_t> y(targets, "targets");
    std::vector<std::unique_ptr<DeviceBuffer<float>>> out, cotangents;
    for (int i = 0; i < 5; ++i) {
      out.push_back(std::make_unique<DeviceBuffer<float>>(s.rows));
      cotangents.push_back(std::make_unique<DeviceBuffer<float>>(
          std::vector<float>(s.rows, static_cast<float>(kCotangents[i]))));
    }
    LogitsChunk c{.type = kElement<T>,
                  .positions = static_cast<int64_t>(s.rows),
                  .vocab = static_cast<int64_t>(s.vocab)};
    c.logits = in.get(), c.stride = static_cast<int64_t>(s.stride), c.targets = y.get();
    c.temperature = static_cast<float>(s.temperature), c.softcap = static_cast<float>(s.softcap);
    c.label_smoothing = static_cast<float>(s.smoothing), c.z_loss = static_cast<float>(s.z_loss);
    c.gradient = gradient;
    c.logp = out[0]->get(), c.logsumexp = out[1]->get(), c.mean_logit = out[2]->get(),
    c.entropy = out[3]->get();
    c.loss = out[4]->get();
    if (gradient) {
      c.g_logp = cotangents[0]->get(), c.g_logsumexp = cotangents[1]->get(),
      c.g_mean_logit = cotangents[2]->get();
      c.g_entropy = cotangents[3]->get(), c.loss_weight = cotangents[4]->get();
    }
    logits_cuda(c, nullptr);
    for (size_t r = 0; r < s.rows; ++r) {
      Row e = targets[r] < 0 ? Row{} : row_of(x.data() + r * s.stride, s.vocab, targets[r], s);
      double expected[5] = {e.logp, e.lse, e.mean, e.entropy, e.loss};
      for (size_t i = 0; i < 5; ++i) {
        INFO("row " << r << " output " << i);
        // fp32 sums over the vocabulary, relative to the size of the logits.
        CHECK(out[i]->read()[r] == Approx(expected[i]).epsilon(2e-5).margin(2e-5 * s.scale));
      }
    }
    return widened(in.read());
  };
  std::vector<double> unchanged = run(false), gradient = run(true);
  CHECK(difference(unchanged, x, [](size_t) { return 0.0; }) == "");
  for (size_t r = 0; r < s.rows; ++r)
    for (size_t i = 0; i < s.vocab; i += 1 + s.vocab / 37) {
      double* at = x.data() + r * s.stride + i;
      double expected = 0, step = 1e-5;
      if (targets[r] >= 0) {
        double before = *at;
        *at = before + step;
        double up = objective(x.data() + r * s.stride, s.vocab, targets[r], s);
        *at = before - step;
        double down = objective(x.data() + r * s.stride, s.vocab, targets[r], s);
        *at = before;
        expected = (up - down) / (2 * step);
      }
      INFO("row " << r << " element " << i);
      CHECK(gradient[r * s.stride + i] == Approx(expected).epsilon(2 * kUnit<T> + 1e-4).margin(2e-6));
    }
  for (size_t i = 0; i < elements; ++i)
    if (i % s.stride >= s.vocab) REQUIRE(gradient[i] == x[i]);  // the gap between rows
}

}  // namespace

TEMPLATE_TEST_CASE("logits reduce to their numbers and turn into their gradient", "", float, Bf16, F16) {
  const Setting settings[] = {{1, 1, 1, 0, 1, 0, 0, 0, 1},
                              {4, 7, 9, 0, 1, 0, 0, 0, 1},
                              {3, 64, 64, 0, 0.7, 0, 0.1, 1e-3, 3},
                              {3, 1000, 1000, 1, 1, 5, 0, 1e-4, 4},
                              {2, 4099, 4104, 0, 1.3, 30, 0.05, 0, 6},
                              {3, 9000, 9000, 0, 1, 0, 0, 0, 8}};
  int runs = 0;
  for (const Setting& s : settings)
    in_every_order([&] {
      INFO(s.rows << " x " << s.vocab);
      check<TestType>(s);
      runs += 2;
    });
  std::printf("%d emulated runs of logits\n", runs);
}

TEST_CASE("a logit of minus infinity has no part, a NaN spoils its row alone") {
  std::vector<float> x{1, -HUGE_VALF, 2, 0, 5, NAN, 1, 2};
  DeviceBuffer<float> logits(x), logp(2), entropy(2);
  DeviceBuffer<int64_t> targets(std::vector<int64_t>{2, 0});
  LogitsChunk c{.positions = 2, .vocab = 4, .logits = logits.get(), .stride = 4, .targets = targets.get()};
  c.logp = logp.get(), c.entropy = entropy.get();
  logits_cuda(c, nullptr);
  double total = std::exp(1) + std::exp(2) + 1;
  CHECK(logp.read()[0] == Approx(2 - std::log(total)));
  CHECK(entropy.read()[0] == Approx(std::log(total) - (std::exp(1) + 2 * std::exp(2)) / total));
  CHECK(std::isnan(logp.read()[1]));
}
