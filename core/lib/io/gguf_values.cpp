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

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::f32:
    case GgufType::f64:
    case GgufType::boolean:
    case GgufType::string:
    case GgufType::array:
      return false;
    default:
      return true;
  }
}

// Reads element `index` of packed integers; false for a u64 above int64_t.
bool integer_at(GgufType type, std::string_view bytes, int64_t index, int64_t* value) {
  switch (type) {
    case GgufType::u8:
      *value = scalar_at<uint8_t>(bytes, index);
      return true;
    case GgufType::i8:
      *value = scalar_at<int8_t>(bytes, index);
      return true;
    case GgufType::u16:
      *value = scalar_at<uint16_t>(bytes, index);
      return true;
    case GgufType::i16:
      *value = scalar_at<int16_t>(bytes, index);
      return true;
    case GgufType::u32:
      *value = scalar_at<uint32_t>(bytes, index);
      return true;
    case GgufType::i32:
      *value = scalar_at<int32_t>(bytes, index);
      return true;
    case GgufType::i64:
      *value = scalar_at<int64_t>(bytes, index);
      return true;
    default:
      break;
  }
  auto wide = scalar_at<uint64_t>(bytes, index);
  *value = static_cast<int64_t>(wide);
  return wide <= INT64_MAX;
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
