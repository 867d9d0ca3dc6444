// Compares blocks with ggml's own (tests/parity/make_ggml_goldens.py).
#include <cmath>
#include <limits>

#include "core/lib/io/encode.h"
#include "core/lib/io/dequantise.h"
#include "core/lib/io/safetensors.h"
#include "tests/test.h"

using namespace forge;

namespace {

struct Golden {
  std::unique_ptr<SafetensorsFile> file =
      open_safetensors(std::string(FORGE_SOURCE_DIR) + "/tests/io/goldens/quantise.safetensors");
  std::vector<float> values;
  Golden() {
    const auto index = static_cast<size_t>(file->find("values"));
    values.resize(static_cast<size_t>(file->tensors()[index].count()));
    file->read_f32(index, values.data());
  }
  std::string_view bytes(DType dtype) const { return file->bytes(static_cast<size_t>(file->find(name_of(dtype)))); }
};

constexpr DType kBlockTypes[] = {DType::q4_0, DType::q5_0, DType::q5_1, DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k};

std::vector<float> decoded(DType dtype, std::string_view bytes, size_t count) {
  std::vector<float> values(count);
  decode_to_f32(dtype, bytes.data(), static_cast<int64_t>(count), values.data());
  return values;
}

double squared_error(const std::vector<float>& a, const std::vector<float>& b, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return sum;
}

}  // namespace

TEST_CASE("blocks have the bytes that ggml writes") {
  const Golden golden;
  for (DType dtype : kBlockTypes) {
    INFO(name_of(dtype));
    const auto count = static_cast<int64_t>(golden.values.size());
    std::string bytes(static_cast<size_t>(bytes_of(dtype, count)), '\0');
    encode_from_f32(dtype, golden.values.data(), count, bytes.data());
    const std::string_view expected = golden.bytes(dtype);
    REQUIRE(bytes.size() == expected.size());
    const auto block = static_cast<size_t>(block_bytes(dtype));
    size_t differing = 0;
    for (size_t at = 0; at < bytes.size(); at += block) differing += bytes.compare(at, block, expected.substr(at, block)) != 0;
    // The legacy types have one product and one sum a value. The searched ones add up hundreds:
    // where ggml was compiled with fused multiply-add, a tie between two scales of the grid may
    // fall the other way.
    const size_t blocks = bytes.size() / block;
    CHECK(differing <= (block_elements(dtype) == 32 ? 0 : blocks / 10));
    // Blocks that differ are no worse.
    const auto ours = decoded(dtype, bytes, golden.values.size()), theirs = decoded(dtype, expected, golden.values.size());
    const auto row = size_t{512};
    for (size_t begin = 0; begin < golden.values.size(); begin += row) {
      INFO("row " << begin / row);
      CHECK(squared_error(ours, golden.values, begin, begin + row) <=
            1.02 * squared_error(theirs, golden.values, begin, begin + row) + 1e-20);
    }
  }
}

TEST_CASE("halves and bf16 are rounded to the nearest, ties to even") {
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    const float value = half_to_float(static_cast<uint16_t>(half));
    REQUIRE(half_of(value) == half);
    if (half == 0) continue;
    const float between = (value + half_to_float(static_cast<uint16_t>(half - 1))) / 2;  // exact in single precision
    REQUIRE(half_of(between) == (half % 2 == 0 ? half : half - 1));
    REQUIRE(half_of(-std::nextafter(between, 1e30f)) == (half | 0x8000));
  }
  CHECK(half_of(65519.0f) == 0x7bff);
  CHECK(half_of(65520.0f) == 0x7c00);
  CHECK(half_of(std::numeric_limits<float>::quiet_NaN()) == 0x7e00);
  CHECK(bf16_of(1.0f) == 0x3f80);
  CHECK(bf16_of(1.00390625f) == 0x3f80);   // half way, the even one is below
  CHECK(bf16_of(1.01171875f) == 0x3f82);   // half way, the even one is above
  CHECK(bf16_of(-3.4e38f) == 0xff80);      // past the largest
  CHECK((bf16_of(std::numeric_limits<float>::quiet_NaN()) & 0x7fff) > 0x7f80);
}

TEST_CASE("a type that is not written is a broken promise") {
  float value = 1;
  char byte = 0;
  CHECK_THROWS(encode_from_f32(DType::i8, &value, 1, &byte));
  CHECK_THROWS(encode_from_f32(DType::q8_0, &value, 1, &byte));
}
