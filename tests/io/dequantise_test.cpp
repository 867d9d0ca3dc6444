#include "core/lib/io/dequantise.h"

#include <cmath>
#include <limits>

#include "core/lib/io/gguf_tensors.h"
#include "core/lib/io/safetensors.h"
#include "tests/io/bytes.h"
#include "tests/test.h"

using namespace forge;

namespace {

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

float decode_one(DType dtype, uint16_t stored) {
  float value = 0;
  decode_to_f32(dtype, &stored, 1, &value);
  return value;
}

}  // namespace

TEST_CASE("every GGUF tensor type decodes bit for bit as gguf-py, in the order of Hugging Face") {
  auto file = open_gguf(golden("types.gguf"));
  auto expected = open_safetensors(golden("types.expected.safetensors"));
  REQUIRE(file->tensors().size() == expected->tensors().size());
  std::vector<bool> seen(static_cast<size_t>(DType::q6_k) + 1);
  for (size_t i = 0; i < file->tensors().size(); ++i) {
    const TensorInfo& tensor = file->tensors()[i];
    INFO(tensor.name << " " << name_of(tensor.dtype));
    int64_t other = expected->find(tensor.name);
    REQUIRE(other >= 0);
    REQUIRE(tensor.shape == expected->tensors()[static_cast<size_t>(other)].shape);
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    file->read_f32(i, values.data());
    std::string_view wanted = expected->bytes(static_cast<size_t>(other));
    REQUIRE(wanted == std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * 4));
    seen[static_cast<size_t>(tensor.dtype)] = true;
  }
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                      DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k}) {
    INFO(name_of(dtype));
    CHECK(seen[static_cast<size_t>(dtype)]);
  }
}

TEST_CASE("mxfp4 decodes bit for bit as gguf-py") {
  const auto file = open_safetensors(golden("mxfp4.safetensors"));
  for (const std::string name : {"", "any_"}) {
    INFO(name);
    const std::string_view bytes = file->bytes(static_cast<size_t>(file->find(name + "bytes")));
    const std::string_view wanted = file->bytes(static_cast<size_t>(file->find(name + "decoded")));
    std::vector<float> values(wanted.size() / 4);
    REQUIRE(bytes.size() == values.size() / 32 * 17);
    decode_to_f32(DType::mxfp4, bytes.data(), static_cast<int64_t>(values.size()), values.data());
    CHECK(wanted == std::string_view(reinterpret_cast<const char*>(values.data()), wanted.size()));
  }
}

TEST_CASE("all 65536 halves equal the compiler's own conversion") {
  for (uint32_t i = 0; i < 65536; ++i) {
    auto half = static_cast<uint16_t>(i);
    _Float16 reference;
    std::memcpy(&reference, &half, 2);
    float value = half_to_float(half), wanted = static_cast<float>(reference);
    if (std::isnan(wanted)) {
      if (!std::isnan(value)) FAIL("half " << i);
    } else if (bits_of(value) != bits_of(wanted)) {
      FAIL("half " << i << ": " << value << ", expected " << wanted);
    }
  }
}

TEST_CASE("8-bit floats follow the OCP formats") {
  CHECK(decode_one(DType::f8_e4m3, 0x38) == 1.0f);
  CHECK(decode_one(DType::f8_e4m3, 0x7e) == 448.0f);
  CHECK(decode_one(DType::f8_e4m3, 0x01) == 0x1p-9f);
  CHECK(decode_one(DType::f8_e4m3, 0x08) == 0x1p-6f);
  CHECK(bits_of(decode_one(DType::f8_e4m3, 0x80)) == 0x80000000u);
  CHECK(decode_one(DType::f8_e4m3, 0xc4) == -3.0f);
  CHECK(std::isnan(decode_one(DType::f8_e4m3, 0x7f)));
  CHECK(std::isnan(decode_one(DType::f8_e4m3, 0xff)));
  CHECK(decode_one(DType::f8_e5m2, 0x3c) == 1.0f);
  CHECK(decode_one(DType::f8_e5m2, 0x7b) == 57344.0f);
  CHECK(decode_one(DType::f8_e5m2, 0x01) == 0x1p-16f);
  CHECK(decode_one(DType::f8_e5m2, 0xfc) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("integers, doubles and bools decode, also unaligned") {
  std::string bytes =
      "x" + little<int64_t>(-5) + little<double>(0.1) + little<int16_t>(-300) + std::string("\x80\x02");
  float value = 0;
  decode_to_f32(DType::i64, bytes.data() + 1, 1, &value);
  CHECK(value == -5.0f);
  decode_to_f32(DType::f64, bytes.data() + 9, 1, &value);
  CHECK(value == 0.1f);
  decode_to_f32(DType::i16, bytes.data() + 17, 1, &value);
  CHECK(value == -300.0f);
  decode_to_f32(DType::i8, bytes.data() + 19, 1, &value);
  CHECK(value == -128.0f);
  decode_to_f32(DType::u8, bytes.data() + 19, 1, &value);
  CHECK(value == 128.0f);
  decode_to_f32(DType::boolean, bytes.data() + 20, 1, &value);
  CHECK(value == 1.0f);
}

TEST_CASE("a block type has whole blocks only") {
  CHECK(bytes_of(DType::q4_1, 64) == 40);
  CHECK(bytes_of(DType::q6_k, 256) == 210);
  CHECK(bytes_of(DType::f32, 0) == 0);
  CHECK_THROWS(bytes_of(DType::q4_1, 33));
  float values[32];
  CHECK_THROWS(decode_to_f32(DType::q4_0, values, 31, values));
}
