#include "core/lib/io/gguf_reader.h"

#include "core/lib/base/error.h"

namespace forge {
namespace {

constexpr int kDeepestArray = 4;

struct Row {
  const char* name;
  int64_t bytes;
};
constexpr Row kTypes[kGgufTypes] = {
    {"uint8", 1}, {"int8", 1},   {"uint16", 2}, {"int16", 2},  {"uint32", 4}, {"int32", 4},  {"float32", 4},
    {"bool", 1},  {"string", 0}, {"array", 0},  {"uint64", 8}, {"int64", 8},  {"float64", 8}};

}  // namespace

const char* name_of(GgufType type) { return kTypes[static_cast<uint32_t>(type)].name; }
int64_t scalar_bytes(GgufType type) { return kTypes[static_cast<uint32_t>(type)].bytes; }

void GgufCursor::fail(const std::string& what, const std::string& hint) const {
  throw Error(ErrorKind::environment, path_ + ": " + what + " (at byte " + std::to_string(position_) + ")")
      .hint(hint);
}

std::string_view GgufCursor::skip(int64_t size, const char* what) {
  if (size > left())
    fail(std::string(what) + " needs " + std::to_string(size) + " bytes, but only " + std::to_string(left()) +
             " are left",
         "the file is broken or cut off: copy or download it again");
  std::string_view piece = bytes_.substr(position_, static_cast<size_t>(size));
  position_ += static_cast<size_t>(size);
  return piece;
}

int64_t GgufCursor::count(int64_t smallest, const char* what) {
  auto number = scalar<uint64_t>(what);
  if (number > static_cast<uint64_t>(left() / smallest))
    fail(std::string(what) + " is " + std::to_string(number) + ", but only " + std::to_string(left()) +
             " bytes are left",
         "the file is broken or cut off: copy or download it again");
  return static_cast<int64_t>(number);
}

std::string_view GgufCursor::string(const char* what) { return skip(count(1, what), what); }

GgufType GgufCursor::type(const char* what) {
  auto number = scalar<uint32_t>(what);
  if (number >= kGgufTypes) fail(std::string(what) + " has the unknown value type " + std::to_string(number));
  return static_cast<GgufType>(number);
}

GgufValue GgufCursor::value(GgufType type, int depth) {
  if (type == GgufType::array) return array(depth);
  GgufValue value;
  value.type = type;
  const size_t begin = position_;
  if (type == GgufType::string) {
    string("a string");
  } else {
    skip(scalar_bytes(type), "a value");
  }
  value.bytes = bytes_.substr(begin, position_ - begin);
  return value;
}

GgufValue GgufCursor::array(int depth) {
  if (depth >= kDeepestArray)
    fail("arrays are nested deeper than " + std::to_string(kDeepestArray) + " levels");
  GgufValue value;
  value.type = GgufType::array;
  value.element = type("an array");
  // The smallest string is its length; the smallest array its element type and count.
  const int64_t scalar = scalar_bytes(value.element);
  const int64_t smallest = scalar ? scalar : value.element == GgufType::string ? 8 : 12;
  value.count = count(smallest, "the length of an array");
  const size_t begin = position_;
  if (scalar) {
    skip(value.count * scalar, "an array");
  } else {
    for (int64_t i = 0; i < value.count; ++i) this->value(value.element, depth + 1);
  }
  value.bytes = bytes_.substr(begin, position_ - begin);
  return value;
}

}  // namespace forge
