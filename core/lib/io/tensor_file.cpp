#include "core/lib/io/tensor_file.h"

#include <bit>
#include <cstring>
#include <limits>

#include "core/lib/base/error.h"
#include "core/lib/io/dequantise.h"
#include "core/lib/io/mapped_pages.h"

namespace forge {
namespace {

// The layouts copy memory: GGUF and safetensors are little-endian, and so must this machine be.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "forge reads weight files on little-endian machines");

template <class Stored>
float cast(Stored stored) {
  return static_cast<float>(stored);
}

// Decodes plain elements one by one.
template <class Stored, float (*to_float)(Stored) = cast<Stored>>
void decode(const uint8_t* source, int64_t count, float* values) {
  for (int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, source + i * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
    values[i] = to_float(stored);
  }
}

void copy(const uint8_t* source, int64_t count, float* values) {
  std::memcpy(values, source, static_cast<size_t>(count) * 4);
}

float bf16_to_float(uint16_t stored) {
  return std::bit_cast<float>(static_cast<uint32_t>(stored) << 16);
}

// Decodes 1 sign, 4 exponent (bias 7), 3 mantissa bits; no infinity, all ones is NaN. "FP8 Formats
// for Deep Learning", 2022.
float f8_e4m3_to_float(uint8_t stored) {
  uint32_t exponent = stored >> 3 & 15, mantissa = stored & 7;
  float sign = stored & 0x80 ? -1.0f : 1.0f;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-9f;
  return half_to_float(static_cast<uint16_t>((stored & 0x80) << 8 | (exponent + 8) << 10 | mantissa << 7));
}

float f8_e5m2_to_float(uint8_t stored) { return half_to_float(static_cast<uint16_t>(stored << 8)); }
// A power of two with bias 127; all ones is NaN. Open Compute Project, Microscaling Formats 1.0.
float f8_e8m0_to_float(uint8_t stored) {
  if (stored == 0xFF) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(stored == 0 ? 0x00400000u : static_cast<uint32_t>(stored) << 23);
}
float bool_to_float(uint8_t stored) { return stored ? 1.0f : 0.0f; }

struct Row {
  DType dtype;
  const char* name;
  int64_t elements, bytes;  // of one block
  Dequantise decode;        // plain types have blocks of one element
};

// Rows are in enum order; row_of checks this.
constexpr Row kTypes[] = {
    {DType::f64, "f64", 1, 8, decode<double>},
    {DType::f32, "f32", 1, 4, copy},
    {DType::f16, "f16", 1, 2, decode<uint16_t, half_to_float>},
    {DType::bf16, "bf16", 1, 2, decode<uint16_t, bf16_to_float>},
    {DType::i64, "i64", 1, 8, decode<int64_t>},
    {DType::i32, "i32", 1, 4, decode<int32_t>},
    {DType::i16, "i16", 1, 2, decode<int16_t>},
    {DType::i8, "i8", 1, 1, decode<int8_t>},
    {DType::u8, "u8", 1, 1, decode<uint8_t>},
    {DType::boolean, "bool", 1, 1, decode<uint8_t, bool_to_float>},
    {DType::f8_e4m3, "f8_e4m3", 1, 1, decode<uint8_t, f8_e4m3_to_float>},
    {DType::f8_e5m2, "f8_e5m2", 1, 1, decode<uint8_t, f8_e5m2_to_float>},
    {DType::q8_0, "q8_0", 32, 34, dequantise_q8_0},
    {DType::q4_0, "q4_0", 32, 18, dequantise_q4_0},
    {DType::q4_1, "q4_1", 32, 20, dequantise_q4_1},
    {DType::q5_0, "q5_0", 32, 22, dequantise_q5_0},
    {DType::q5_1, "q5_1", 32, 24, dequantise_q5_1},
    {DType::q4_k, "q4_k", 256, 144, dequantise_q4_k},
    {DType::q5_k, "q5_k", 256, 176, dequantise_q5_k},
    {DType::q6_k, "q6_k", 256, 210, dequantise_q6_k},
    {DType::mxfp4, "mxfp4", 32, 17, dequantise_mxfp4},
    {DType::f8_e8m0, "f8_e8m0", 1, 1, decode<uint8_t, f8_e8m0_to_float>},
};

const Row& row_of(DType dtype) {
  const Row& row = kTypes[static_cast<size_t>(dtype)];
  FORGE_CHECK(row.dtype == dtype, "the table of types is not in the order of the enum");
  return row;
}

}  // namespace

const char* name_of(DType dtype) { return row_of(dtype).name; }
int64_t block_elements(DType dtype) { return row_of(dtype).elements; }
int64_t block_bytes(DType dtype) { return row_of(dtype).bytes; }
bool is_quantized(DType dtype) { return row_of(dtype).elements > 1; }

int64_t bytes_of(DType dtype, int64_t count) {
  const Row& row = row_of(dtype);
  FORGE_CHECK(count >= 0 && count % row.elements == 0,
              count << " elements are not whole blocks of " << row.name);
  int64_t bytes = count / row.elements;
  FORGE_CHECK(multiply_checked(&bytes, row.bytes), count << " elements of " << row.name << " overflow");
  return bytes;
}

std::string format_shape(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

int64_t TensorInfo::count() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;  // checked by the readers
  return product;
}

int64_t TensorFile::find(std::string_view name) const {
  const std::vector<TensorInfo>& list = tensors();
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].name == name) return static_cast<int64_t>(i);
  return -1;
}

void TensorFile::read_f32(size_t index, float* values) const {
  read_rows_f32(index, 0, tensors().at(index).rows(), values);
}

void TensorFile::read_rows_f32(size_t index, int64_t begin, int64_t count, float* values) const {
  const TensorInfo& tensor = tensors().at(index);
  if (tensor.count() == 0 || count == 0) return;
  const int64_t row = tensor.count() / tensor.rows();
  const int64_t first = bytes_of(tensor.dtype, begin * row), size = bytes_of(tensor.dtype, count * row);
  const std::string_view data = bytes(index).substr(static_cast<size_t>(first), static_cast<size_t>(size));
  read_ahead(data);
  decode_to_f32(tensor.dtype, data.data(), count * row, values);
}

void TensorFile::read_stored(size_t index, char* to) const {
  const std::string_view data = bytes(index);
  read_ahead(data);
  std::memcpy(to, data.data(), data.size());
}

void TensorFile::release(size_t index) const { let_go(bytes(index)); }

void decode_to_f32(DType dtype, const void* source, int64_t count, float* destination) {
  const Row& row = row_of(dtype);
  if (count == 0) return;
  FORGE_CHECK(count % row.elements == 0, count << " elements are not whole blocks of " << row.name);
  row.decode(static_cast<const uint8_t*>(source), count / row.elements, destination);
}

}  // namespace forge
