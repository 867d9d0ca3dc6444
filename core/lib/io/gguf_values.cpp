// The typed getters of Gguf: decoding of values that the constructor has walked already.
#include <cmath>
#include <cstring>

#include "core/lib/base/text.h"
#include "core/lib/io/faults.h"
#include "core/lib/io/gguf.h"
#include "core/lib/io/gguf_reader.h"

namespace forge {
namespace {

template <class Scalar>
Scalar scalar_at(std::string_view bytes, int64_t index) {
  Scalar value;
  std::memcpy(&value, bytes.data() + index * static_cast<int64_t>(sizeof(Scalar)), sizeof(Scalar));
  return value;
}

bool is_signed(GgufType type) {
  return type == GgufType::i8 || type == GgufType::i16 || type == GgufType::i32 ||
         type == GgufType::i64;
}

bool is_integer(GgufType type) {
  return is_signed(type) || type == GgufType::u8 || type == GgufType::u16 ||
         type == GgufType::u32 || type == GgufType::u64;
}

// Reads element `index` of packed integers; false for a u64 above int64_t.
bool integer_at(GgufType type, std::string_view bytes, int64_t index, int64_t* value) {
  const int64_t size = scalar_bytes(type), unused_bits = 64 - 8 * size;
  uint64_t wide = 0;
  std::memcpy(&wide, bytes.data() + index * size, static_cast<size_t>(size));
  *value = static_cast<int64_t>(wide);
  if (is_signed(type)) *value = static_cast<int64_t>(wide << unused_bits) >> unused_bits;
  return is_signed(type) || wide <= INT64_MAX;
}

std::string type_of(const GgufValue& value) {
  return value.type == GgufType::array ? std::string("array of ") + name_of(value.element)
                                       : name_of(value.type);
}

}  // namespace

const GgufValue* Gguf::find(const std::string& key) const {
  auto place = values_.find(key);
  return place == values_.end() ? nullptr : &place->second;
}

const GgufValue& Gguf::require(const std::string& key) const {
  const GgufValue* value = find(key);
  if (!value) fail("the key " + key + " is missing");
  return *value;
}

int64_t Gguf::get_int(const std::string& key, int64_t otherwise) const {
  const GgufValue* value = find(key);
  if (!value) return otherwise;
  if (!is_integer(value->type)) fail(key + " is of type " + type_of(*value) + ", expected an integer");
  int64_t number = 0;
  if (!integer_at(value->type, value->bytes, 0, &number)) fail(key + " does not fit a signed 64-bit integer");
  return number;
}

double Gguf::get_number(const std::string& key, double otherwise) const {
  const GgufValue* value = find(key);
  if (!value) return otherwise;
  double number = value->type == GgufType::f32   ? static_cast<double>(scalar_at<float>(value->bytes, 0))
                  : value->type == GgufType::f64 ? scalar_at<double>(value->bytes, 0)
                  : is_integer(value->type)      ? static_cast<double>(get_int(key, 0))
                                                 : std::nan("");
  if (!std::isfinite(number)) fail(key + " (" + type_of(*value) + ") is not a finite number");
  return number;
}

bool Gguf::get_bool(const std::string& key, bool otherwise) const {
  const GgufValue* value = find(key);
  if (!value) return otherwise;
  if (value->type != GgufType::boolean || static_cast<uint8_t>(value->bytes[0]) > 1)
    fail(key + " (" + type_of(*value) + ") is not a bool of 0 or 1");
  return value->bytes[0] == 1;
}

std::string Gguf::get_string(const std::string& key, const std::string& otherwise) const {
  const GgufValue* value = find(key);
  if (!value) return otherwise;
  if (value->type != GgufType::string) fail(key + " is of type " + type_of(*value) + ", expected a string");
  std::string_view text = value->bytes.substr(8);
  size_t bad = 0;
  if (!valid_utf8(text, &bad)) fail(key + " is not valid UTF-8 at its byte " + std::to_string(bad));
  return std::string(text);
}

std::vector<int64_t> Gguf::get_ints(const std::string& key) const {
  const GgufValue* value = find(key);
  if (!value) return {};
  if (value->type != GgufType::array || !is_integer(value->element))
    fail(key + " is of type " + type_of(*value) + ", expected an array of integers");
  std::vector<int64_t> numbers(static_cast<size_t>(value->count));
  for (int64_t i = 0; i < value->count; ++i)
    if (!integer_at(value->element, value->bytes, i, &numbers[static_cast<size_t>(i)]))
      fail(key + "[" + std::to_string(i) + "] does not fit a signed 64-bit integer");
  return numbers;
}

std::vector<double> Gguf::get_numbers(const std::string& key) const {
  const GgufValue* value = find(key);
  if (!value) return {};
  if (value->type == GgufType::array && is_integer(value->element)) {
    std::vector<int64_t> integers = get_ints(key);
    return {integers.begin(), integers.end()};
  }
  const bool wide = value->element == GgufType::f64;
  if (value->type != GgufType::array || (!wide && value->element != GgufType::f32))
    fail(key + " is of type " + type_of(*value) + ", expected an array of numbers");
  std::vector<double> numbers(static_cast<size_t>(value->count));
  for (int64_t i = 0; i < value->count; ++i)
    numbers[static_cast<size_t>(i)] =
        wide ? scalar_at<double>(value->bytes, i) : static_cast<double>(scalar_at<float>(value->bytes, i));
  return numbers;
}

std::vector<std::string> Gguf::get_strings(const std::string& key) const {
  const GgufValue* value = find(key);
  if (!value) return {};
  if (value->type != GgufType::array || value->element != GgufType::string)
    fail(key + " is of type " + type_of(*value) + ", expected an array of strings");
  GgufCursor cursor(value->bytes, path());
  std::vector<std::string> strings;
  strings.reserve(static_cast<size_t>(value->count));
  for (int64_t i = 0; i < value->count; ++i) strings.emplace_back(cursor.string("a string"));
  return strings;
}

double Gguf::require_number(const std::string& key) const { return require(key), get_number(key, 0); }
std::string Gguf::require_string(const std::string& key) const { return require(key), get_string(key, ""); }
std::vector<std::string> Gguf::require_strings(const std::string& key) const {
  return require(key), get_strings(key);
}

}  // namespace forge
