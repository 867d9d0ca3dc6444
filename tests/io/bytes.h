#pragma once
// Builders of files byte by byte, so that tests can break one byte at a time.
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

inline std::string golden(const std::string& name) { return FORGE_SOURCE_DIR "/tests/io/goldens/" + name; }

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class Scalar>
std::string little(Scalar value) {
  std::string bytes(sizeof(Scalar), '\0');
  std::memcpy(bytes.data(), &value, sizeof(Scalar));
  return bytes;
}

// Returns a safetensors file with this text as header.
inline std::string safetensors_bytes(const std::string& header, const std::string& data = "") {
  return little<uint64_t>(header.size()) + header + data;
}

// Returns the header's entry of one tensor.
inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                         int64_t begin, int64_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

// A GGUF, composed without any check.
struct GgufBytes {
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::string keys, table, data;
  uint64_t num_keys = 0, num_tensors = 0;

  static std::string text(std::string_view value) {
    return little<uint64_t>(value.size()) + std::string(value);
  }
  GgufBytes& key(std::string_view name, uint32_t type, const std::string& value) {
    keys += text(name) + little(type) + value;
    ++num_keys;
    return *this;
  }
  GgufBytes& string_key(std::string_view name, std::string_view value) { return key(name, 8, text(value)); }
  GgufBytes& u32_key(std::string_view name, uint32_t value) { return key(name, 4, little(value)); }
  // Adds one entry of the table; `shape` is in the file's order, innermost first.
  GgufBytes& entry(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type,
                   uint64_t offset) {
    table += text(name) + little(static_cast<uint32_t>(shape.size()));
    for (uint64_t size : shape) table += little(size);
    table += little(type) + little(offset);
    ++num_tensors;
    return *this;
  }
  // Adds an f32 tensor with its data.
  GgufBytes& f32(std::string_view name, const std::vector<uint64_t>& shape,
                 const std::vector<float>& values) {
    entry(name, shape, 0, data.size());
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
    data.append((alignment - data.size() % alignment) % alignment, '\0');
    return *this;
  }
  std::string header() const {
    return "GGUF" + little(version) + little(num_tensors) + little(num_keys) + keys + table;
  }
  std::string bytes() const {
    std::string file = header();
    file.append((alignment - file.size() % alignment) % alignment, '\0');
    return file + data;
  }
};

}  // namespace forge
