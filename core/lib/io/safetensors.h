#pragma once
// Reads and writes safetensors files: named tensors after a JSON header
// (https://github.com/huggingface/safetensors, format section of the README). They are one file, or
// the shards named by a `*.index.json`.
//
//   auto file = open_safetensors("model/model.safetensors");
//   for (const TensorInfo& tensor : file->tensors()) …
//
//   write_safetensors("adapter_model.safetensors", {{{"a", {2, 2}, DType::f32}, bytes}}, {{"format", "pt"}});
//
// The reader enforces every rule of the format: header of at most 100 MB that begins with '{', no
// key twice, offsets that follow each other from 0 without hole or overlap, byte counts that equal
// shape times dtype, and a file that ends with its last tensor. Every fault is an
// Error(environment) naming file, tensor and sizes; all faults of a header are listed at once. NaN
// values, empty tensors and tensors without dimensions are allowed.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/lib/io/tensor_file.h"

namespace forge {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their data
  std::vector<int64_t> begins;      // of each tensor, from the file's first byte
  std::map<std::string, std::string> metadata;
  std::string hash;        // of the header's bytes
  int64_t file_bytes = 0;  // the length that the file must have
};

// Reads the header from a file's first bytes: the data need not be there. `name` is used in
// messages. Throws as described above.
SafetensorsHeader parse_safetensors_header(std::string_view file, const std::string& name);

class SafetensorsFile : public TensorFile {
 public:
  // Returns the header's `__metadata__`; for several shards, that of the first.
  virtual const std::map<std::string, std::string>& metadata() const = 0;
};

// Opens a .safetensors file, or a .index.json and its shards: names without a path, regular files
// inside the folder (or the blobs of a Hugging Face cache that the folder links to). Index and
// shards must agree on every tensor. With Data::optional a file that ends too early is accepted,
// see TensorFile::data_missing.
std::unique_ptr<SafetensorsFile> open_safetensors(const std::string& path, Data data = Data::required);
// Returns the shards that a .index.json names, each once, sorted.
std::vector<std::string> shard_names(const std::string& index_path);

// Files of a model or an adapter belong to their folder: a link may lead elsewhere in it, or, from
// snapshots/REVISION of a Hugging Face cache, to its blobs. Throws Error(environment) for one that
// leads out.
void require_link_inside(const std::string& path, const std::string& folder);

struct SafetensorsEntry {
  TensorInfo info;
  std::string_view bytes;
};

// Replaces `path` durably (temporary sibling, fsync, rename, fsync of the folder). The bytes equal
// those of the Python package: tensors by dtype, then name; header padded to 8 bytes; metadata keys
// sorted (Python's order is random when there are several). A reader may have the old file mapped.
// Throws Error(environment) if the disk refuses; block types, equal names and wrong byte counts are
// broken promises (FORGE_CHECK).
void write_safetensors(const std::string& path, const std::vector<SafetensorsEntry>& entries,
                       const std::map<std::string, std::string>& metadata = {});

// Like write_safetensors(), without holding all tensors: `write_tensor` is called once for each, in
// the order of the file, and hands its bytes to `sink`, from the first to the last.
void write_safetensors_in_pieces(const std::string& path, std::vector<TensorInfo> tensors,
                                 const std::map<std::string, std::string>& metadata, const TensorPieces& write_tensor);

}  // namespace forge
