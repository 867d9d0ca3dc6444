#include "core/lib/io/gguf_writer.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/io/gguf_types.h"

namespace forge {
namespace {

constexpr int64_t kAlignment = 32;  // the format's default
constexpr uint32_t kVersion = 3;

template <class Scalar>
void put(std::string& bytes, Scalar value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put(std::string& bytes, const std::string& text) {
  put<uint64_t>(bytes, text.size());
  bytes += text;
}

// Returns a type with a value, or what is before the value.
std::string typed(GgufType type, const auto&... values) {
  std::string bytes;
  put(bytes, static_cast<uint32_t>(type));
  (put(bytes, values), ...);
  return bytes;
}

std::string array_head(GgufType element, uint64_t count) {
  return typed(GgufType::array, static_cast<uint32_t>(element), count);
}

template <class Element>
std::string array(GgufType element, const std::vector<Element>& values) {
  std::string bytes = array_head(element, values.size());
  for (const Element& value : values) put(bytes, value);
  return bytes;
}

uint32_t number_of(DType dtype) {
  for (const GgmlType& type : kGgmlTypes)
    if (type.dtype == dtype) return type.number;
  FORGE_CHECK(false, "ggml has no type " << name_of(dtype));
}

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string header_of(const GgufMetadata& metadata, const std::vector<TensorInfo>& tensors) {
  std::string bytes = "GGUF";
  put<uint32_t>(bytes, kVersion);
  put<uint64_t>(bytes, tensors.size());
  put<uint64_t>(bytes, static_cast<uint64_t>(metadata.size()));
  bytes += metadata.encoded();
  int64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    put(bytes, tensor.name);
    put(bytes, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      put(bytes, static_cast<uint64_t>(*size));
    put(bytes, number_of(tensor.dtype));
    put(bytes, static_cast<uint64_t>(offset));
    offset += aligned(bytes_of(tensor.dtype, tensor.count()));
  }
  bytes.resize(static_cast<size_t>(aligned(static_cast<int64_t>(bytes.size()))), '\0');
  return bytes;
}

void write_tensors(OutputFile& file, std::span<const TensorInfo> tensors, const TensorPieces& write_tensor) {
  for (const TensorInfo& tensor : tensors) {
    const int64_t expected = bytes_of(tensor.dtype, tensor.count());
    int64_t written = 0;
    write_tensor(tensor, [&](std::string_view bytes) {
      written += static_cast<int64_t>(bytes.size());
      file.write(bytes);
    });
    FORGE_CHECK(written == expected, tensor.name << ": got " << written << " bytes, expected " << expected);
    file.write(std::string(static_cast<size_t>(aligned(expected) - expected), '\0'));
  }
}

}  // namespace

void GgufMetadata::set(const std::string& key, std::string bytes) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.first == key; });
  if (found != entries_.end())
    found->second = std::move(bytes);
  else
    entries_.emplace_back(key, std::move(bytes));
}

void GgufMetadata::text(const std::string& key, const std::string& value) {
  set(key, typed(GgufType::string, value));
}
void GgufMetadata::integer(const std::string& key, int64_t value) {
  FORGE_CHECK(value >= 0 && value <= UINT32_MAX, key << " is " << value);
  set(key, typed(GgufType::u32, static_cast<uint32_t>(value)));
}
void GgufMetadata::number(const std::string& key, double value) {
  set(key, typed(GgufType::f32, static_cast<float>(value)));
}
void GgufMetadata::flag(const std::string& key, bool value) {
  set(key, typed(GgufType::boolean, static_cast<uint8_t>(value)));
}
void GgufMetadata::texts(const std::string& key, const std::vector<std::string>& values) {
  set(key, array(GgufType::string, values));
}
void GgufMetadata::integers(const std::string& key, const std::vector<int32_t>& values) {
  set(key, array(GgufType::i32, values));
}
void GgufMetadata::numbers(const std::string& key, const std::vector<float>& values) {
  set(key, array(GgufType::f32, values));
}

void GgufMetadata::copy(const std::string& key, const GgufValue& value) {
  std::string bytes = value.type == GgufType::array
                          ? array_head(value.element, static_cast<size_t>(value.count))
                          : typed(value.type);
  bytes.append(value.bytes);
  set(key, std::move(bytes));
}

void GgufMetadata::remove(const std::string& key) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
}

bool GgufMetadata::has(const std::string& key) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.first == key; });
}

std::string GgufMetadata::encoded() const {
  std::string bytes;
  for (const auto& [key, value] : entries_) {
    put(bytes, key);
    bytes += value;
  }
  return bytes;
}

void write_gguf(const std::string& path, const GgufMetadata& metadata, const std::vector<TensorInfo>& tensors,
                const TensorPieces& write_tensor) {
  write_file_durably(path, [&](OutputFile& file) {
    file.write(header_of(metadata, tensors));
    write_tensors(file, tensors, write_tensor);
  });
}

void write_gguf_headers(const std::string& path, const GgufMetadata& metadata, const std::vector<TensorInfo>& tensors,
                        size_t whole, const TensorPieces& write_tensor) {
  OutputFile file(path);
  file.write(header_of(metadata, tensors));
  write_tensors(file, std::span(tensors).first(whole), write_tensor);
}

}  // namespace forge
