// The quantising kernels against the CPU's loops (kernels/quantize/blocks), bit for bit: those equal
// bitsandbytes.
#include <cstdio>
#include <cstring>
#include <limits>

#include "kernels/quantize/blocks.h"
#include "kernels/quantize/quantize_cuda.h"
#include "tests/emulator/kernel_test.h"

using namespace forge;

namespace {

std::vector<float> book_of(const FourBitBook& book) { return {book.begin(), book.end()}; }
std::vector<float> dynamic() { return {dynamic_book().begin(), dynamic_book().end()}; }

// Zeros, denormals, an outlier, the ends of the range; then normal blocks and an odd tail.
std::vector<float> adversarial(size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) {
    float value = static_cast<float>(normal(3, 5, i));
    switch (i / 64 % 7) {
      case 0:
        value = 0;
        break;
      case 1:
        value *= 1e-41f;
        break;
      case 2:
        value = i % 64 == 9 ? 1e30f : value;
        break;
      case 3:
        value = i % 2 ? 3.4e38f : -3.4e38f;
        break;
      case 4:
        value = i % 64 == 0 ? 1 : value * 1e-7f;
        break;
      default:
        break;
    }
    x[i] = value;
  }
  return x;
}

const size_t kCounts[] = {1, 2, 63, 64, 65, 129, 448, 1000, 4097};

}  // namespace

TEST_CASE("4-bit codes and absmax are those of the CPU, bit for bit") {
  int runs = 0;
  for (const FourBitBook* book : {&nf4_book(), &fp4_book()})
    for (size_t count : kCounts)
      in_every_order([&] {
        ++runs;
        std::vector<float> x = adversarial(count);
        size_t blocks = (count + 63) / 64;
        std::vector<uint8_t> codes((count + 1) / 2);
        std::vector<float> absmax(blocks);
        quantize_4bit(*book, x.data(), static_cast<int64_t>(count), 64, codes.data(), absmax.data());
        FourBitLimits table = four_bit_limits(*book);
        DeviceBuffer<float> values(x), limits({table.limits.begin(), table.limits.end()}), out_absmax(blocks);
        DeviceBuffer<uint8_t> ranked({table.ranked.begin(), table.ranked.end()}), out_codes((count + 1) / 2);
        QuantizeBlocks q{.count = static_cast<int64_t>(count), .values = values.get()};
        q.codes = out_codes.get(), q.absmax = out_absmax.get(), q.limits = limits.get(),
        q.ranked = ranked.get();
        quantize_blocks_cuda(q, nullptr);
        INFO(count << " values");
        CHECK(out_codes.read() == codes);
        CHECK(std::memcmp(out_absmax.read().data(), absmax.data(), blocks * 4) == 0);
      });
  std::printf("%d emulated runs of quantize_four_bit\n", runs);
}

TEST_CASE("8-bit codes and absmax are those of the CPU, bit for bit, also less a mean") {
  int runs = 0;
  for (int64_t block : {64, 256})
    for (size_t count : kCounts)
      for (float mean : {0.0f, 0.25f})
        in_every_order([&] {
          ++runs;
          std::vector<float> x = adversarial(count), centred = x;
          for (float& v : centred) v -= mean;
          size_t blocks = (count + static_cast<size_t>(block) - 1) / static_cast<size_t>(block);
          std::vector<uint8_t> codes(count);
          std::vector<float> absmax(blocks);
          quantize_8bit(centred.data(), static_cast<int64_t>(count), block, codes.data(), absmax.data());
          DeviceBuffer<float> values(x), book(dynamic()), out_absmax(blocks);
          DeviceBuffer<uint8_t> out_codes(count);
          QuantizeBlocks q{.four_bit = false, .count = static_cast<int64_t>(count), .block = block};
          q.values = values.get(), q.subtract = mean, q.codes = out_codes.get(), q.absmax = out_absmax.get();
          q.book = book.get();
          quantize_blocks_cuda(q, nullptr);
          INFO(count << " values in blocks of " << block);
          CHECK(out_codes.read() == codes);
          CHECK(std::memcmp(out_absmax.read().data(), absmax.data(), blocks * 4) == 0);
        });
  std::printf("%d emulated runs of quantize_bytes\n", runs);
}

TEMPLATE_TEST_CASE("dequantised values are those of the CPU, into rows of any stride", "", float, Bf16, F16) {
  struct Shape {
    size_t rows, columns, stride, misalign;
  };
  int runs = 0;
  for (Shape shape : {Shape{1, 1, 1, 0},
                      {3, 7, 7, 0},
                      {5, 64, 72, 0},
                      {2, 200, 208, 0},
                      {4, 96, 100, 1},
                      {1, 4099, 4099, 0}})
    for (int format = 0; format < 3; ++format)
      for (bool nested : {false, true})
        in_every_order([&] {
          ++runs;
          size_t count = shape.rows * shape.columns, blocks = (count + 63) / 64;
          const bool four_bit = format < 2;
          const FourBitBook& small = format == 0 ? nf4_book() : fp4_book();
          std::vector<float> x = adversarial(count), absmax(blocks), scale((blocks + 255) / 256),
                             values(count);
          std::vector<uint8_t> codes(four_bit ? (count + 1) / 2 : count), absmax_codes(blocks);
          for (float& v : x) v = std::fmin(std::fmax(v, -1e4f), 1e4f);
          auto n = static_cast<int64_t>(count), b = static_cast<int64_t>(blocks);
          if (four_bit)
            quantize_4bit(small, x.data(), n, 64, codes.data(), absmax.data());
          else
            quantize_8bit(x.data(), n, 64, codes.data(), absmax.data());
          constexpr float kMean = 0.5f;
          std::vector<float> centred = absmax, again(blocks);
          for (float& v : centred) v -= kMean;
          quantize_8bit(centred.data(), b, 256, absmax_codes.data(), scale.data());
          dequantize_8bit(absmax_codes.data(), scale.data(), b, 256, again.data());
          for (float& v : again) v += kMean;
          const float* used = nested ? again.data() : absmax.data();
          if (four_bit)
            dequantize_4bit(small, codes.data(), used, n, 64, values.data());
          else
            dequantize_8bit(codes.data(), used, n, 64, values.data());

          DeviceBuffer<uint8_t> d_codes(codes), d_absmax_codes(absmax_codes);
          DeviceBuffer<float> book(four_bit ? book_of(small) : dynamic()), d_absmax(absmax), d_scale(scale);
          DeviceBuffer<float> map(dynamic());
          std::vector<TestType> before(shape.rows * shape.stride);
          for (TestType& v : before) from_float(-77.0f, v);
          DeviceBuffer<TestType> out(before, "out", shape.misalign * sizeof(TestType));
          DequantizeBlocks d{.type = kElement<TestType>, .four_bit = four_bit};
          d.rows = static_cast<int64_t>(shape.rows), d.columns = static_cast<int64_t>(shape.columns);
          d.codes = d_codes.get(), d.book = book.get();
          if (nested) {
            d.absmax_codes = d_absmax_codes.get(), d.absmax_scale = d_scale.get(), d.absmax_book = map.get();
            d.absmax_mean = kMean;
          } else {
            d.absmax = d_absmax.get();
          }
          d.out = out.get(), d.out_stride = static_cast<int64_t>(shape.stride);
          dequantize_blocks_cuda(d, nullptr);
          std::vector<TestType> expected = before, result = out.read();
          for (size_t i = 0; i < count; ++i)
            from_float(values[i], expected[i / shape.columns * shape.stride + i % shape.columns]);
          INFO("format " << format << " nested " << nested << " " << shape.rows << " x " << shape.columns);
          CHECK(std::memcmp(result.data(), expected.data(), result.size() * sizeof(TestType)) == 0);
        });
  std::printf("%d emulated runs of dequantize\n", runs);
}
