// What the kernel cases do not cover: ranges of settings in one launch, the verdict obeyed, the loss scale.
#include <cstdio>

#include "kernels/optimizer/optimizer_cuda.h"
#include "tests/emulator/kernel_test.h"

using namespace forge;

namespace {

std::vector<float> floats(size_t count, uint64_t stream) { return stored<float>(normals(count, stream)); }

// norm, scale, finite.
std::vector<float> verdict_of(const std::vector<float>& grad, float unscale, float max_norm,
                              size_t misalign = 0) {
  DeviceBuffer<float> g(grad, "grad", misalign), verdict(3);
  FlatNorm args{static_cast<int64_t>(grad.size()), g.get(), unscale, max_norm, verdict.get()};
  DeviceBuffer<double> workspace(static_cast<size_t>(gradient_norm_cuda_workspace(args)) / 8, "workspace");
  args.workspace = workspace.get();
  gradient_norm_cuda(args, nullptr);
  return verdict.read();
}

struct Update {
  std::vector<float> weight, mean, square;
};

// One AdamW step on the elements [begin, end) as a buffer of its own.
Update step_alone(const Update& before, const std::vector<float>& grad, size_t begin, size_t end, double lr,
                  double decay) {
  auto part = [&](const std::vector<float>& x) {
    return std::vector<float>(x.begin() + static_cast<long>(begin), x.begin() + static_cast<long>(end));
  };
  DeviceBuffer<float> w(part(before.weight)), m(part(before.mean)), v(part(before.square)), g(part(grad));
  DeviceBuffer<float> verdict(std::vector<float>{1, 0.5f, 1});
  AdamWUpdate a{.count = static_cast<int64_t>(end - begin), .weight = w.get(), .grad = g.get(), .mean = m.get()};
  a.square = v.get(), a.verdict = verdict.get(), a.lr = lr, a.weight_decay = decay, a.step = 3;
  adamw_cuda(a, nullptr, nullptr);
  return {w.read(), m.read(), v.read()};
}

}  // namespace

TEST_CASE("the norm's verdict is the same bits in every order") {
  int runs = 0;
  for (size_t count : {1, 5, 64, 1000, 2051})
    for (size_t misalign : {0, 4}) {
      std::vector<float> grad = floats(count, 4);
      double sum = 0;
      for (float g : grad) sum += static_cast<double>(g) * g;
      std::vector<std::vector<float>> verdicts;
      in_every_order([&] { verdicts.push_back(verdict_of(grad, 0.25f, 0.1f, misalign)), ++runs; });
      CHECK(verdicts[0][0] == Approx(std::sqrt(sum) / 4).epsilon(1e-6));
      CHECK(verdicts[0][1] == Approx(0.25 * std::min(1.0, 0.1 / (std::sqrt(sum) / 4 + 1e-6))).epsilon(1e-6));
      CHECK((verdicts[0] == verdicts[1] && verdicts[0] == verdicts[2]));
    }
  CHECK(verdict_of({}, 1, 1) == std::vector<float>{0, 1, 1});
  CHECK(verdict_of({1, NAN, 2}, 1, 0)[2] == 0);
  CHECK(verdict_of({1, HUGE_VALF, 2}, 1, 0)[2] == 0);
  std::printf("%d emulated runs of gradient_norm\n", runs);
}

TEST_CASE("ranges in one launch equal a launch for each range") {
  int runs = 0;
  for (size_t count : {3, 64, 1001, 3000})
    in_every_order([&] {
      ++runs;
      Update x{floats(count, 1), floats(count, 2), std::vector<float>(count, 0.01f)};
      std::vector<float> grad = floats(count, 3);
      size_t first = count / 3, second = count / 2;
      auto end = [](size_t i) { return static_cast<int64_t>(i); };
      DeviceBuffer<UpdateRange> ranges(
          std::vector<UpdateRange>{{end(first), 1, 0.1f}, {end(second), 4, 0}, {end(count), 0.5f, 0.01f}});
      DeviceBuffer<float> w(x.weight), m(x.mean), v(x.square), g(grad),
          verdict(std::vector<float>{1, 0.5f, 1});
      DeviceBuffer<Bf16> copy(count);
      AdamWUpdate a{.count = end(count), .weight = w.get(), .grad = g.get(), .mean = m.get(), .square = v.get()};
      a.verdict = verdict.get(), a.lr = 0.01, a.step = 3, a.copy = copy.get();
      adamw_cuda(a, ranges.get(), nullptr);
      std::vector<double> together = widened(w.read()), apart;
      for (auto [begin, stop, factor, decay] :
           {std::tuple{size_t{0}, first, 1.0, 0.1}, {first, second, 4.0, 0.0}, {second, count, 0.5, 0.01}}) {
        Update part = step_alone(x, grad, begin, stop, 0.01 * factor, decay);
        for (float value : part.weight) apart.push_back(value);
      }
      INFO(count << " elements");
      // Rates made from a factor in fp32 instead of fp64: some units.
      CHECK(difference(together, apart, [&](size_t i) { return 3e-7 * (1 + std::fabs(apart[i])); }) == "");
      CHECK(difference(widened(copy.read()), widened(stored<Bf16>(together)), [](size_t) { return 0.0; }) ==
            "");
    });
  std::printf("%d emulated runs of adamw\n", runs);
}

TEST_CASE("a verdict that is not finite changes nothing") {
  std::vector<float> x{1, 2, 3, 4, 5};
  DeviceBuffer<float> w(x), m(x), v(x), g(std::vector<float>{1, NAN, 1, 1, 1}),
      map(std::vector<float>(256, 0.0f));
  DeviceBuffer<float> verdict(verdict_of({1, NAN, 1, 1, 1}, 1, 1)), absmax(std::vector<float>{3});
  DeviceBuffer<uint8_t> codes(std::vector<uint8_t>{1, 2, 3, 4, 5});
  AdamWUpdate a{.count = 5, .weight = w.get(), .grad = g.get(), .mean = m.get(), .square = v.get()};
  a.verdict = verdict.get(), a.lr = 1;
  adamw_cuda(a, nullptr, nullptr);
  LionUpdate l{.count = 5, .weight = w.get(), .grad = g.get(), .mean = m.get()};
  l.verdict = verdict.get(), l.lr = 1;
  lion_cuda(l, nullptr, nullptr);
  AdamW8bitUpdate b{.count = 5, .weight = w.get(), .grad = g.get(), .mean = codes.get(), .square = codes.get()};
  b.mean_absmax = b.square_absmax = absmax.get(), b.signed_map = b.unsigned_map = map.get();
  b.verdict = verdict.get(), b.lr = 1;
  adamw_8bit_cuda(b, nullptr, nullptr);
  CHECK((w.read() == x && m.read() == x && v.read() == x));
  CHECK((codes.read()[4] == 5 && absmax.read()[0] == 3));
}

TEST_CASE("the loss scale halves after a bad step and doubles after enough good ones") {
  in_every_order([] {
    std::vector<float> values(301, 8);
    values[300] = 1e38f;
    DeviceBuffer<float> grad(values), scale(std::vector<float>{4});
    DeviceBuffer<int32_t> good(std::vector<int32_t>{0}), found(std::vector<int32_t>{0});
    LossScale s{scale.get(), good.get(), found.get()};
    for (int i = 0; i < 3; ++i) {
      unscale_cuda(grad.get(), 301, s, nullptr);
      CHECK(found.read()[0] == 0);
      update_loss_scale_cuda(s, 3, nullptr);
    }
    CHECK(grad.read()[0] == 8.0f / 64);
    CHECK((scale.read()[0] == 8 && good.read()[0] == 0));
    float infinite = HUGE_VALF;
    copy_to_device(grad.get() + 300, &infinite, 4);
    unscale_cuda(grad.get(), 301, s, nullptr);
    CHECK(found.read()[0] == 1);
    update_loss_scale_cuda(s, 3, nullptr);
    CHECK((scale.read()[0] == 4 && found.read()[0] == 0 && good.read()[0] == 0));
  });
}
