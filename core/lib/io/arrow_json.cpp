#include "core/lib/io/arrow_json.h"

#include <arrow/array/array_dict.h>
#include <arrow/extension_type.h>

#include <cmath>
#include <set>
#include <stdexcept>

#include "core/lib/base/text.h"

namespace forge {
namespace {

template <class Array>
const Array& as(const arrow::Array& array) {
  return static_cast<const Array&>(array);
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json text(std::string_view value, const std::string& column) {
  if (!valid_utf8(value)) throw std::runtime_error(column + ": a text that is not valid UTF-8");
  return Json(value);
}

// Converts a list. The list types differ in how they store where a list begins.
template <class List>
Json list(const arrow::Array& array, int64_t index, const std::string& column) {
  const auto& lists = as<List>(array);
  Json values = Json::array();
  const int64_t begin = lists.value_offset(index);
  for (int64_t i = 0; i < lists.value_length(index); ++i)
    values.push_back(json_of(*lists.values(), begin + i, column));
  return values;
}

Json structure(const arrow::StructArray& array, int64_t index, const std::string& column) {
  Json object = Json::object();
  for (int i = 0; i < array.num_fields(); ++i) {
    const std::string& name = array.struct_type()->field(i)->name();
    object[name] = json_of(*array.field(i), index, column);
  }
  return object;
}

Json map(const arrow::MapArray& array, int64_t index, const std::string& column) {
  Json object = Json::object();
  const int64_t begin = array.value_offset(index);
  for (int64_t i = begin; i < begin + array.value_length(index); ++i) {
    const Json key = json_of(*array.keys(), i, column);
    if (!key.is_string()) throw std::runtime_error(column + ": a map with a key that is null");
    const auto name = key.get<std::string>();
    if (object.contains(name)) throw std::runtime_error(column + ": a map with the key " + name + " twice");
    object[name] = json_of(*array.items(), i, column);
  }
  return object;
}

Json word(const arrow::DictionaryArray& array, int64_t index, const std::string& column) {
  const int64_t at = array.GetValueIndex(index);
  if (at < 0 || at >= array.dictionary()->length())
    throw std::runtime_error(column + ": points outside its dictionary");
  return json_of(*array.dictionary(), at, column);
}

// A struct may not have two fields of one name: one of them would be lost.
bool has_twins(const arrow::DataType& type) {
  std::set<std::string> names;
  for (const auto& field : type.fields())
    if (!names.insert(field->name()).second) return true;
  return false;
}

bool is_text(const arrow::DataType& type) {
  return arrow::is_string(type.id()) || type.id() == arrow::Type::STRING_VIEW;
}

}  // namespace

std::string type_without_json(const arrow::DataType& type) {
  if (arrow::is_integer(type.id()) || is_text(type)) return "";
  switch (type.id()) {
    case arrow::Type::NA:
    case arrow::Type::BOOL:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
      return "";
    case arrow::Type::DICTIONARY:
      return type_without_json(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case arrow::Type::EXTENSION:
      return type_without_json(*static_cast<const arrow::ExtensionType&>(type).storage_type());
    case arrow::Type::MAP: {
      const auto& map = static_cast<const arrow::MapType&>(type);
      return is_text(*map.key_type()) ? type_without_json(*map.item_type()) : type.ToString();
    }
    case arrow::Type::STRUCT:
      if (has_twins(type)) return type.ToString();
      [[fallthrough]];
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
      for (const auto& field : type.fields())
        if (std::string inner = type_without_json(*field->type()); !inner.empty()) return inner;
      return "";
    default:
      return type.ToString();
  }
}

Json json_of(const arrow::Array& array, int64_t index, const std::string& column) {
  if (array.IsNull(index)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::NA:
      return nullptr;
    case arrow::Type::BOOL:
      return as<arrow::BooleanArray>(array).Value(index);
    case arrow::Type::INT8:
      return as<arrow::Int8Array>(array).Value(index);
    case arrow::Type::INT16:
      return as<arrow::Int16Array>(array).Value(index);
    case arrow::Type::INT32:
      return as<arrow::Int32Array>(array).Value(index);
    case arrow::Type::INT64:
      return as<arrow::Int64Array>(array).Value(index);
    case arrow::Type::UINT8:
      return as<arrow::UInt8Array>(array).Value(index);
    case arrow::Type::UINT16:
      return as<arrow::UInt16Array>(array).Value(index);
    case arrow::Type::UINT32:
      return as<arrow::UInt32Array>(array).Value(index);
    case arrow::Type::UINT64:
      return as<arrow::UInt64Array>(array).Value(index);
    case arrow::Type::FLOAT:
      return number(as<arrow::FloatArray>(array).Value(index));
    case arrow::Type::DOUBLE:
      return number(as<arrow::DoubleArray>(array).Value(index));
    case arrow::Type::STRING:
      return text(as<arrow::StringArray>(array).GetView(index), column);
    case arrow::Type::LARGE_STRING:
      return text(as<arrow::LargeStringArray>(array).GetView(index), column);
    case arrow::Type::STRING_VIEW:
      return text(as<arrow::StringViewArray>(array).GetView(index), column);
    case arrow::Type::LIST:
      return list<arrow::ListArray>(array, index, column);
    case arrow::Type::LARGE_LIST:
      return list<arrow::LargeListArray>(array, index, column);
    case arrow::Type::FIXED_SIZE_LIST:
      return list<arrow::FixedSizeListArray>(array, index, column);
    case arrow::Type::STRUCT:
      return structure(as<arrow::StructArray>(array), index, column);
    case arrow::Type::MAP:
      return map(as<arrow::MapArray>(array), index, column);
    case arrow::Type::DICTIONARY:
      return word(as<arrow::DictionaryArray>(array), index, column);
    case arrow::Type::EXTENSION:
      return json_of(*as<arrow::ExtensionArray>(array).storage(), index, column);
    default:
      FORGE_CHECK(false, "a column of type " << array.type()->ToString() << " was chosen");
  }
}

}  // namespace forge
