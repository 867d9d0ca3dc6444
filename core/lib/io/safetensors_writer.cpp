
#include <algorithm>
#include <numeric>
#include <set>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/io/json.h"
#include "core/lib/io/safetensors.h"
#include "core/lib/io/safetensors_types.h"

namespace forge {
namespace {

// Returns the position of a dtype in the reference's enum.
size_t rank_of(DType dtype) {
  for (size_t rank = 0; rank < std::size(kSafetensorsTypes); ++rank)
    if (kSafetensorsTypes[rank].dtype == dtype) return rank;
  FORGE_CHECK(false, "safetensors has no type " << name_of(dtype));
}

bool precedes(const TensorInfo& a, const TensorInfo& b) {
  size_t rank_a = rank_of(a.dtype), rank_b = rank_of(b.dtype);
  return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
}

// Returns length, JSON, and blanks up to a multiple of 8. They are built as text: nlohmann's
// ordered objects search linearly on insert.
std::string header_bytes(const std::vector<TensorInfo>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + dump_json(Json(metadata));
  int64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    const int64_t end = offset + bytes_of(tensor.dtype, tensor.count());
    if (text.size() > 1) text += ',';
    text += dump_json(Json(tensor.name)) + ":{\"dtype\":\"" +
            std::string(kSafetensorsTypes[rank_of(tensor.dtype)].name) +
            "\",\"shape\":" + dump_json(Json(tensor.shape)) + ",\"data_offsets\":[" + std::to_string(offset) +
            "," + std::to_string(end) + "]}";
    offset = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  uint64_t length = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + text;
}

void check_names(const std::vector<TensorInfo>& tensors) {
  std::set<std::string_view> names;
  for (const TensorInfo& tensor : tensors) {
    FORGE_CHECK(names.insert(tensor.name).second, "the tensor " << tensor.name << " is written twice");
    FORGE_CHECK(tensor.name != "__metadata__", "__metadata__ is not a name for a tensor");
  }
}

void write_tensors(OutputFile& file, const std::vector<TensorInfo>& tensors, const TensorPieces& write_tensor) {
  for (const TensorInfo& tensor : tensors) {
    int64_t written = 0;
    write_tensor(tensor, [&](std::string_view bytes) {
      written += static_cast<int64_t>(bytes.size());
      file.write(bytes);
    });
    FORGE_CHECK(written == bytes_of(tensor.dtype, tensor.count()),
                tensor.name << ": got " << written << " bytes for " << name_of(tensor.dtype) << " "
                            << format_shape(tensor.shape));
  }
}

}  // namespace

void write_safetensors_in_pieces(const std::string& path, std::vector<TensorInfo> tensors,
                                 const std::map<std::string, std::string>& metadata, const TensorPieces& write_tensor) {
  std::sort(tensors.begin(), tensors.end(), precedes);
  check_names(tensors);
  // The bytes are not written into `path` itself: its old content may be mapped, and may be their
  // source.
  write_file_durably(path, [&](OutputFile& file) {
    file.write(header_bytes(tensors, metadata));
    write_tensors(file, tensors, write_tensor);
  });
}

void write_safetensors(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorInfo> tensors;
  std::map<std::string_view, std::string_view> bytes;
  for (const SafetensorsEntry& entry : entries) {
    tensors.push_back(entry.info);
    bytes[entry.info.name] = entry.bytes;
  }
  write_safetensors_in_pieces(
      path, std::move(tensors), metadata,
      [&](const TensorInfo& tensor, const PieceSink& sink) { sink(bytes.at(tensor.name)); });
}

}  // namespace forge
