// Gradient norm, updates and loss scale against plain loops in fp64.
#include <cstdio>

#include "kernels/optimizer/optimizer_cuda.h"
#include "tests/emulator/kernel_test.h"

using namespace forge;

namespace {

const size_t kCounts[] = {1, 5, 64, 1000, 2051};

float norm_of(const std::vector<float>& grad, size_t misalign = 0) {
  DeviceBuffer<float> g(grad, "grad", misalign), norm(1);
  DeviceBuffer<double> partial(std::vector<double>(kNormBlocks, 0.0));
  DeviceBuffer<uint32_t> finished(std::vector<uint32_t>{0});
  gradient_norm_cuda({g.get(), static_cast<int64_t>(grad.size()), partial.get(), finished.get(), norm.get()},
                     nullptr);
  CHECK(finished.read()[0] == 0);
  return norm.read()[0];
}

std::vector<float> floats(const std::vector<double>& values) { return stored<float>(values); }

// A flat buffer of three ranges with other factors and decays.
struct Flat {
  size_t count;
  std::vector<UpdateRange> ranges;
  UpdateScalars scalars;
  explicit Flat(size_t n) : count(n) {
    auto end = static_cast<int64_t>(n);
    ranges = {{end / 3, 1, 0.1f}, {end / 2, 4, 0}, {end, 0.5f, 0.01f}};
    scalars = {.learning_rate = 0.01f, .grad_scale = 0.5f, .max_norm = 2};
  }
  const UpdateRange& at(size_t i) const {
    size_t r = 0;
    while (static_cast<int64_t>(i) >= ranges[r].end) ++r;
    return ranges[r];
  }
};

struct Expected {
  std::vector<double> p, m, v;
};

double gradient_factor(const Flat& flat, double norm) {
  return flat.scalars.grad_scale *
         std::min(1.0, flat.scalars.max_norm / (norm * flat.scalars.grad_scale + 1e-6));
}

void adamw(const Flat& flat, Expected& e, const std::vector<float>& grad, double norm, int step) {
  for (size_t i = 0; i < flat.count; ++i) {
    const double g = grad[i] * gradient_factor(flat, norm),
                 rate = flat.scalars.learning_rate * flat.at(i).rate_factor;
    e.p[i] -= rate * flat.at(i).weight_decay * e.p[i];
    e.m[i] = 0.9f * e.m[i] + (1 - 0.9f) * g;
    e.v[i] = 0.999f * e.v[i] + (1 - 0.999f) * g * g;
    e.p[i] -= rate / (1 - std::pow(0.9f, step)) * e.m[i] /
              (std::sqrt(e.v[i] / (1 - std::pow(0.999f, step))) + 1e-8f);
  }
}

void lion(const Flat& flat, Expected& e, const std::vector<float>& grad, double norm) {
  for (size_t i = 0; i < flat.count; ++i) {
    const double g = grad[i] * gradient_factor(flat, norm),
                 rate = flat.scalars.learning_rate * flat.at(i).rate_factor;
    const double direction = 0.9f * e.m[i] + (1 - 0.9f) * g;
    e.p[i] -= rate * flat.at(i).weight_decay * e.p[i];
    e.p[i] -= rate * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
    e.m[i] = 0.999f * e.m[i] + (1 - 0.999f) * g;
  }
}

template <class C>
void follow(size_t count, bool is_lion, size_t misalign) {
  Flat flat(count);
  Expected e{normals(count, 1), normals(count, 2, 0.01), std::vector<double>(count, 1e-4)};
  e.p = widened(floats(e.p)), e.m = widened(floats(e.m)), e.v = widened(floats(e.v));
  DeviceBuffer<float> p(floats(e.p), "p", misalign), m(floats(e.m), "m", misalign),
      v(floats(e.v), "v", misalign);
  DeviceBuffer<C> cast(count, "cast", misalign);
  DeviceBuffer<UpdateRange> ranges(flat.ranges);
  for (int step = 1; step <= 3; ++step) {
    std::vector<float> grad = floats(normals(count, 10 + static_cast<uint64_t>(step)));
    flat.scalars.correction1 = static_cast<float>(1 - std::pow(0.9f, step));
    flat.scalars.correction2 = static_cast<float>(1 - std::pow(0.999f, step));
    DeviceBuffer<float> g(grad, "grad", misalign), norm(std::vector<float>{norm_of(grad)});
    DeviceBuffer<UpdateScalars> scalars(std::vector<UpdateScalars>{flat.scalars});
    FlatUpdate u{
        .count = static_cast<int64_t>(count), .grad = g.get(), .master = p.get(), .m = m.get(), .v = v.get()};
    u.cast_type = kElement<C>, u.cast = cast.get(), u.ranges = ranges.get(), u.scalars = scalars.get();
    u.norm = norm.get();
    if (is_lion)
      u.beta2 = 0.999f, lion_cuda(u, nullptr), lion(flat, e, grad, norm.read()[0]);
    else
      adamw_cuda(u, nullptr), adamw(flat, e, grad, norm.read()[0], step);
  }
  INFO(count << " elements");
  auto near = [&](const std::vector<double>& x) {
    return [&x](size_t i) { return 3e-6 * std::fabs(x[i]) + 1e-7; };
  };
  CHECK(difference(widened(p.read()), e.p, near(e.p)) == "");
  CHECK(difference(widened(m.read()), e.m, near(e.m)) == "");
  if (!is_lion) CHECK(difference(widened(v.read()), e.v, near(e.v)) == "");
  // The cast is the stored parameter, rounded once.
  std::vector<double> masters = widened(p.read());
  CHECK(difference(widened(cast.read()), widened(stored<C>(masters)), [](size_t) { return 0.0; }) == "");
}

// The unsigned dynamic map (Dettmers et al., 2022): decades of 2^i … values, as the signed one but twice as
// fine.
std::vector<float> ascending_map(bool is_signed) {
  std::vector<float> map;
  for (int i = 0; i < 256; ++i) {
    double t = is_signed ? (i - 127) / 128.0 : i / 255.0;
    map.push_back(static_cast<float>(std::copysign(std::pow(std::fabs(t), 3), t)));
  }
  return map;
}

size_t nearest(double x, const std::vector<float>& map) {
  size_t best = 0;
  for (size_t i = 1; i < map.size(); ++i)
    if (std::fabs(map[i] - x) < std::fabs(map[best] - x)) best = i;
  return best;
}

}  // namespace

TEST_CASE("the norm of a gradient is its root of squares in every order, bit for bit") {
  int runs = 0;
  for (size_t count : kCounts)
    for (size_t misalign : {0, 4}) {
      std::vector<float> grad = floats(normals(count, 4));
      double sum = 0;
      for (float g : grad) sum += static_cast<double>(g) * g;
      std::vector<float> norms;
      in_every_order([&] { norms.push_back(norm_of(grad, misalign)), ++runs; });
      CHECK(norms[0] == Approx(std::sqrt(sum)).epsilon(1e-6));
      CHECK((norms[0] == norms[1] && norms[0] == norms[2]));
    }
  CHECK(norm_of({}) == 0);
  CHECK(std::isnan(norm_of({1, NAN, 2})));
  CHECK(std::isinf(norm_of({1, HUGE_VALF, 2})));
  std::printf("%d emulated runs of gradient_norm\n", runs);
}

TEMPLATE_TEST_CASE("AdamW and Lion follow fp64 over three steps, ranges, clipping and cast included", "",
                   float, Bf16, F16) {
  int runs = 0;
  for (size_t count : kCounts)
    for (bool is_lion : {false, true})
      in_every_order([&] { follow<TestType>(count, is_lion, count == 64 ? 4 : 0), runs += 3; });
  std::printf("%d emulated runs of adamw and lion\n", runs);
}

TEST_CASE("a norm that is not finite changes nothing") {
  std::vector<float> x{1, 2, 3, 4, 5};
  DeviceBuffer<float> p(x), m(x), v(x), g(std::vector<float>{1, NAN, 1, 1, 1}), norm(std::vector<float>{NAN});
  DeviceBuffer<UpdateRange> ranges(std::vector<UpdateRange>{{5, 1, 0.1f}});
  DeviceBuffer<UpdateScalars> scalars(std::vector<UpdateScalars>{{.learning_rate = 1}});
  FlatUpdate u{.count = 5, .grad = g.get(), .master = p.get(), .m = m.get(), .v = v.get()};
  u.ranges = ranges.get(), u.scalars = scalars.get(), u.norm = norm.get();
  adamw_cuda(u, nullptr);
  lion_cuda(u, nullptr);
  CHECK((p.read() == x && m.read() == x && v.read() == x));
}

TEST_CASE("8-bit AdamW is AdamW on the dequantised states, requantised to the nearest entry") {
  const std::vector<float> m_map = ascending_map(true), v_map = ascending_map(false);
  int runs = 0;
  for (size_t count : {1, 255, 256, 600, 2500})
    in_every_order([&] {
      ++runs;
      Flat flat(count);
      flat.scalars.correction1 = 0.2f, flat.scalars.correction2 = 0.002f;
      size_t blocks = (count + 255) / 256;
      std::vector<float> grad = floats(normals(count, 21)), p0 = floats(normals(count, 22));
      std::vector<uint8_t> mc(count), vc(count);
      for (size_t i = 0; i < count; ++i)
        mc[i] = static_cast<uint8_t>(i * 37), vc[i] = static_cast<uint8_t>(i * 11);
      std::vector<float> ma(blocks, 0.3f), va(blocks, 0.02f);
      DeviceBuffer<float> g(grad), p(p0), m_absmax(ma), v_absmax(va), m_book(m_map), v_book(v_map);
      DeviceBuffer<float> norm(std::vector<float>{norm_of(grad)});
      DeviceBuffer<uint8_t> m_codes(mc), v_codes(vc);
      DeviceBuffer<Bf16> cast(count);
      DeviceBuffer<UpdateRange> ranges(flat.ranges);
      DeviceBuffer<UpdateScalars> scalars(std::vector<UpdateScalars>{flat.scalars});
      FlatUpdate u{.count = static_cast<int64_t>(count), .grad = g.get(), .master = p.get()};
      u.cast = cast.get(), u.ranges = ranges.get(), u.scalars = scalars.get(), u.norm = norm.get();
      adamw_8bit_cuda(
          {u, m_codes.get(), v_codes.get(), m_absmax.get(), v_absmax.get(), m_book.get(), v_book.get()},
          nullptr);
      const double factor = gradient_factor(flat, norm.read()[0]), root = std::sqrt(flat.scalars.correction2);
      std::vector<double> m(count), v(count), expected(count), m_max(blocks), v_max(blocks);
      for (size_t i = 0; i < count; ++i) {
        m[i] = m_map[mc[i]] * ma[i / 256] * 0.9f + (1 - 0.9f) * factor * grad[i];
        v[i] = v_map[vc[i]] * va[i / 256] * 0.999f + (1 - 0.999f) * std::pow(factor * grad[i], 2);
        m_max[i / 256] = std::max(m_max[i / 256], std::fabs(m[i]));
        v_max[i / 256] = std::max(v_max[i / 256], v[i]);
        const double rate = flat.scalars.learning_rate * flat.at(i).rate_factor;
        expected[i] =
            p0[i] - rate * root / flat.scalars.correction1 * m[i] / (std::sqrt(v[i]) + root * 1e-8f);
        expected[i] *= 1 - rate * flat.at(i).weight_decay;
      }
      INFO(count << " elements");
      CHECK(difference(widened(p.read()), expected,
                       [&](size_t i) { return 5e-6 * (1 + std::fabs(expected[i])); }) == "");
      CHECK(difference(widened(m_absmax.read()), m_max, [&](size_t i) { return 1e-6 * m_max[i]; }) == "");
      CHECK(difference(widened(v_absmax.read()), v_max, [&](size_t i) { return 1e-6 * v_max[i]; }) == "");
      std::vector<uint8_t> m_new = m_codes.read(), v_new = v_codes.read();
      for (size_t i = 0; i < count; ++i) {
        const double unit = m[i] / m_max[i / 256];
        // On a tie, or where the sign decides, the neighbour.
        REQUIRE(std::abs(static_cast<int>(m_new[i]) - static_cast<int>(nearest(unit, m_map))) <= 1);
        REQUIRE((std::signbit(m_map[m_new[i]]) == std::signbit(unit) || m_map[m_new[i]] == 0));
        REQUIRE(std::abs(static_cast<int>(v_new[i]) -
                         static_cast<int>(nearest(v[i] / v_max[i / 256], v_map))) <= 1);
      }
    });
  std::printf("%d emulated runs of adamw_8bit\n", runs);
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
