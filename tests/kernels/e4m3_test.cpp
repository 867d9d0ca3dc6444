// Compares E4M3 with LibTorch's float8_e4m3fn.
#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

#include "kernels/fp8/e4m3.h"
#include "kernels/fp8/e4m3_rows.h"
#include "tests/test.h"

using namespace forge;

namespace {

uint8_t code_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint8_t>(e4m3_of_bits(bits));
}

// Returns LibTorch's codes of values that are limited to the largest number.
at::Tensor codes_of(const at::Tensor& values) { return values.clamp(-448, 448).to(at::kFloat8_e4m3fn).view(at::kByte); }

int64_t differences(const at::Tensor& values) {
  const at::Tensor want = codes_of(values);
  int64_t differ = 0;
  for (int64_t i = 0; i < values.numel(); ++i) differ += code_of(values.const_data_ptr<float>()[i]) != want.const_data_ptr<uint8_t>()[i];
  return differ;
}

}  // namespace

TEST_CASE("all 256 codes have LibTorch's values") {
  const at::Tensor values = at::arange(0, 256, at::kInt).to(at::kByte).view(at::kFloat8_e4m3fn).to(at::kFloat);
  for (size_t code = 0; code < 256; ++code) {
    const float want = values.const_data_ptr<float>()[code], got = e4m3_book()[code];
    INFO(code);
    if (std::isnan(want))
      CHECK(std::isnan(got));
    else
      CHECK(std::memcmp(&want, &got, sizeof want) == 0);  // −0, too
  }
}

TEST_CASE("numbers get LibTorch's codes: between all neighbours, at random in every binade, and beyond") {
  std::vector<float> values;
  for (size_t code = 0; code < 0x7E; ++code) {
    const float low = e4m3_book()[code], middle = (low + e4m3_book()[code + 1]) / 2;
    for (const float x : {low, std::nextafter(low, 1e9f), middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) values.insert(values.end(), {x, -x});
  }
  for (const float x : {0.0f, 1e-45f, 1e-38f, 0x1p-11f, 0x1.000002p-10f, 447.9f, 448.0f, 449.0f, 463.9f, 464.0f, 1e4f, 3.4e38f}) values.insert(values.end(), {x, -x});
  values.push_back(std::numeric_limits<float>::infinity());
  CHECK(differences(at::tensor(values)) == 0);
  at::manual_seed(3);
  CHECK(differences(at::randn({200'000}) * at::exp2(at::rand({200'000}) * 40 - 24)) == 0);
  CHECK(code_of(std::nanf("")) == 0x7F);
  CHECK(code_of(-std::nanf("")) == 0x7F);
}

// The error of row scales: a number keeps four bits, and its error is uniform within a step.
TEST_CASE("rows of normal numbers lose 2.6 % of their norm") {
  at::manual_seed(5);
  const at::Tensor x = at::randn({64, 4096});
  at::Tensor error = at::zeros({}, at::kDouble);
  std::vector<uint8_t> codes(4096);
  for (int64_t i = 0; i < 64; ++i) {
    const float scale = quantize_e4m3(x[i].const_data_ptr<float>(), 4096, codes.data());
    at::Tensor back = at::empty({4096});
    for (int64_t j = 0; j < 4096; ++j) back.data_ptr<float>()[j] = e4m3_book()[codes[static_cast<size_t>(j)]] * scale;
    error += (back - x[i]).to(at::kDouble).square().sum();
  }
  CHECK(std::sqrt((error / x.to(at::kDouble).square().sum()).item<double>()) == Approx(0.0264).margin(5e-4));
}
