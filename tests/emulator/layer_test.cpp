// Norm, rotation and gates against plain loops in fp64. The kernel cases (tests/kernels) go further where
// LibTorch is.
#include <cstdio>

#include "kernels/rms_norm/rms_norm_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/swiglu/swiglu_cuda.h"
#include "tests/emulator/kernel_test.h"

using namespace forge;

namespace {

struct Shape {
  int64_t rows, width, stride;
  size_t misalign;
};
const Shape kShapes[] = {{1, 1, 1, 0},     {3, 7, 9, 0},       {2, 64, 72, 0},
                         {4, 200, 200, 1}, {2, 4104, 4104, 0}, {1, 33001, 33001, 0}};

template <class T>
auto within(const std::vector<double>& expected, double sums) {
  return [&expected, sums](size_t i) {
    return (2 * kUnit<T> + sums * 0x1p-24) * (std::fabs(expected[i]) + 0.1);
  };
}

}  // namespace

TEMPLATE_TEST_CASE("residual and RMSNorm, forward and backward", "", float, Bf16, F16) {
  int runs = 0;
  for (const Shape& s : kShapes)
    in_every_order([&] {
      runs += 2;
      const size_t rows = static_cast<size_t>(s.rows), width = static_cast<size_t>(s.width),
                   stride = static_cast<size_t>(s.stride);
      const size_t count = (rows - 1) * stride + width, gap = s.misalign * sizeof(TestType);
      std::vector<TestType> x = stored<TestType>(normals(count, 1)),
                            residual = stored<TestType>(normals(count, 2));
      std::vector<TestType> weight = stored<TestType>(normals(width, 3)),
                            d_y = stored<TestType>(normals(count, 4));
      std::vector<TestType> past = stored<TestType>(normals(count, 5));
      const double eps = 1e-5, offset = s.rows % 2;
      DeviceBuffer<TestType> dx(x, "x", gap), dr(residual, "residual", gap), dw(weight, "weight", gap);
      DeviceBuffer<TestType> h(x, "h", gap), y(x, "y", gap), dy(d_y, "d_y", gap), d_h(past, "d_h", gap);
      DeviceBuffer<float> inverse(rows), d_weight(std::vector<float>(width, 0.25f));
      const Element type = kElement<TestType>;
      RmsNormForward f{type,     s.rows,   s.width, dx.get(), s.stride,
                       dr.get(), s.stride, h.get(), s.stride, dw.get()};
      f.weight_offset = static_cast<float>(offset), f.eps = static_cast<float>(eps);
      f.y = y.get(), f.y_stride = s.stride, f.inverse = inverse.get();
      rms_norm_forward_cuda(f, nullptr);
      std::vector<TestType> sums = x;
      std::vector<double> normal = widened(x), gradient = widened(past), w_gradient(width, 0.25);
      for (size_t r = 0; r < rows; ++r) {
        double squares = 0, mean = 0;
        for (size_t i = r * stride; i < r * stride + width; ++i) {
          from_float(to_float(x[i]) + to_float(residual[i]), sums[i]);
          squares += std::pow(to_float(sums[i]), 2) / static_cast<double>(width);
        }
        const double rstd = 1 / std::sqrt(squares + eps);
        auto g = [&](size_t i) { return to_float(d_y[r * stride + i]) * (to_float(weight[i]) + offset); };
        for (size_t i = 0; i < width; ++i)
          mean += g(i) * to_float(sums[r * stride + i]) * rstd / static_cast<double>(width);
        for (size_t i = 0; i < width; ++i) {
          const double unit = to_float(sums[r * stride + i]) * rstd;
          normal[r * stride + i] = unit * (to_float(weight[i]) + offset);
          gradient[r * stride + i] += rstd * (g(i) - unit * mean);
          w_gradient[i] += to_float(d_y[r * stride + i]) * unit;
        }
      }
      INFO(s.rows << " x " << s.width);
      CHECK(difference(widened(h.read()), widened(sums), [](size_t) { return 0.0; }) == "");
      CHECK(difference(widened(y.read()), normal, within<TestType>(normal, 16)) == "");
      RmsNormBackward b{type, s.rows, s.width, dy.get(), s.stride, h.get(), s.stride, dw.get()};
      b.weight_offset = static_cast<float>(offset), b.inverse = inverse.get(), b.d_h = d_h.get(),
      b.d_h_stride = s.stride;
      b.accumulate = true, b.d_weight = d_weight.get();
      rms_norm_backward_cuda(b, nullptr);
      CHECK(difference(widened(d_h.read()), gradient, [&](size_t i) {
              return (kUnit<TestType> + 32 * 0x1p-24) * (std::fabs(gradient[i]) + 10);
            }) == "");
      CHECK(difference(widened(d_weight.read()), w_gradient, [](size_t) { return 1e-5; }) == "");
    });
  std::printf("%d emulated runs of rms_norm\n", runs);
}

TEMPLATE_TEST_CASE("gated activations, forward and backward in place", "", float, Bf16, F16) {
  int runs = 0;
  for (const Shape& s : kShapes)
    for (GateFunction function : {GateFunction::silu, GateFunction::gelu_tanh})
      in_every_order([&] {
        runs += 2;
        const size_t count = static_cast<size_t>((s.rows - 1) * s.stride + s.width),
                     gap = s.misalign * sizeof(TestType);
        std::vector<TestType> gate = stored<TestType>(normals(count, 1, 3)),
                              up = stored<TestType>(normals(count, 2));
        std::vector<TestType> d_y = stored<TestType>(normals(count, 3));
        DeviceBuffer<TestType> dg(gate, "gate", gap), du(up, "up", gap), y(gate, "y", gap),
            dd(d_y, "d_y", gap);
        SwigluForward f{kElement<TestType>, function, s.rows,   s.width, dg.get(),
                        s.stride,           du.get(), s.stride, y.get()};
        f.y_stride = s.stride;
        swiglu_forward_cuda(f, nullptr);
        std::vector<double> out = widened(gate), g_gate = out, g_up = widened(up), again = widened(d_y);
        auto f_of = [&](double x) {
          return function == GateFunction::silu
                     ? x / (1 + std::exp(-x))
                     : x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        };
        for (size_t i = 0; i < count; ++i) {
          if (i % static_cast<size_t>(s.stride) >= static_cast<size_t>(s.width)) continue;
          const double x = to_float(gate[i]), u = to_float(up[i]), d = to_float(d_y[i]), step = 1e-5;
          out[i] = again[i] = f_of(x) * u;
          g_gate[i] = d * u * (f_of(x + step) - f_of(x - step)) / (2 * step);
          g_up[i] = d * f_of(x);
        }
        INFO(s.rows << " x " << s.width);
        CHECK(difference(widened(y.read()), out, within<TestType>(out, 16)) == "");
        SwigluBackward b{kElement<TestType>, function, s.rows,   s.width,  dd.get(), s.stride,
                         dg.get(),           s.stride, du.get(), s.stride, dd.get(), s.stride};
        swiglu_backward_cuda(b, nullptr);
        CHECK(difference(widened(dg.read()), g_gate, within<TestType>(g_gate, 64)) == "");
        CHECK(difference(widened(du.read()), g_up, within<TestType>(g_up, 16)) == "");
        CHECK(difference(widened(dd.read()), again, within<TestType>(again, 16)) == "");
      });
  std::printf("%d emulated runs of swiglu\n", runs);
}

TEMPLATE_TEST_CASE("rotation of q and k in a fused buffer, and back", "", float, Bf16, F16) {
  struct Heads {
    int64_t tokens, heads, kv_heads, head_dim, rotary_dim, gap;
  };
  int runs = 0;
  for (Heads s : {Heads{1, 1, 1, 2, 2, 0}, {3, 4, 2, 64, 64, 0}, {5, 3, 1, 20, 12, 3}, {2, 2, 2, 96, 64, 8}})
    for (RopeLayout layout : {RopeLayout::half_split, RopeLayout::interleaved})
      for (bool backward : {false, true})
        in_every_order([&] {
          ++runs;
          const int64_t stride = (s.heads + 2 * s.kv_heads) * s.head_dim + s.gap, half = s.rotary_dim / 2;
          std::vector<TestType> qkv = stored<TestType>(normals(static_cast<size_t>(s.tokens * stride), 1));
          std::vector<float> cosine, sine;
          std::vector<int32_t> positions;
          for (int64_t i = 0; i < 16 * half; ++i)
            cosine.push_back(std::cos(static_cast<float>(i))),
                sine.push_back(std::sin(static_cast<float>(i)));
          for (int64_t t = 0; t < s.tokens; ++t) positions.push_back(static_cast<int32_t>(t * 7 % 16));
          std::vector<double> expected = widened(qkv);
          for (int64_t t = 0; t < s.tokens; ++t)
            for (int64_t head = 0; head < s.heads + s.kv_heads; ++head)
              for (int64_t i = 0; i < half; ++i) {
                const int64_t begin = t * stride + head * s.head_dim;
                const bool split = layout == RopeLayout::half_split;
                const auto a = static_cast<size_t>(begin + (split ? i : 2 * i));
                const auto b = static_cast<size_t>(begin + (split ? i + half : 2 * i + 1));
                const auto row = static_cast<size_t>(positions[static_cast<size_t>(t)] * half + i);
                const double c = cosine[row], n = backward ? -sine[row] : sine[row], x = expected[a],
                             y = expected[b];
                expected[a] = x * c - y * n, expected[b] = y * c + x * n;
              }
          DeviceBuffer<TestType> buffer(qkv);
          DeviceBuffer<float> d_cosine(cosine), d_sine(sine);
          DeviceBuffer<int32_t> d_positions(positions);
          Rope r{kElement<TestType>, layout,       backward,         s.tokens,     s.heads,
                 s.kv_heads,         s.head_dim,   s.rotary_dim,     buffer.get(), stride,
                 d_cosine.get(),     d_sine.get(), d_positions.get()};
          rope_cuda(r, nullptr);
          INFO(s.tokens << " tokens of " << s.head_dim);
          CHECK(difference(widened(buffer.read()), expected, [&](size_t i) {
                  return kUnit<TestType> * std::fabs(expected[i]) + 4 * 0x1p-22;
                }) == "");
        });
  std::printf("%d emulated runs of rope\n", runs);
}
