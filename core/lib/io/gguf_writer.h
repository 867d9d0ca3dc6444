#pragma once
// Writes GGUF files, version 3, little-endian
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
//
//   GgufMetadata metadata;
//   metadata.text("general.architecture", "llama");
//   metadata.integer("llama.block_count", 30);
//   write_gguf("model.gguf", metadata, tensors, [&](const TensorInfo& tensor, const PieceSink& sink) { … });
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/lib/io/gguf.h"
#include "core/lib/io/tensor_file.h"

namespace forge {

// Metadata of a file. Keys are in the order in which they were first set; setting one again
// replaces its value.
class GgufMetadata {
 public:
  void text(const std::string& key, const std::string& value);
  void integer(const std::string& key, int64_t value);  // uint32; must fit
  void number(const std::string& key, double value);    // float32
  void flag(const std::string& key, bool value);
  void texts(const std::string& key, const std::vector<std::string>& values);
  void integers(const std::string& key, const std::vector<int32_t>& values);  // int32
  void numbers(const std::string& key, const std::vector<float>& values);     // float32
  // Sets a key to the value that another file has.
  void copy(const std::string& key, const GgufValue& value);
  void remove(const std::string& key);
  bool has(const std::string& key) const;

  // Return the number of keys, and all of them as the file holds them.
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  std::string encoded() const;

 private:
  void set(const std::string& key, std::string bytes);
  std::vector<std::pair<std::string, std::string>> entries_;  // key, type and value
};

// Replaces `path` durably. Tensors have llama.cpp's names, PyTorch's order of dimensions and a type
// that ggml knows; they are written in the given order, each at a multiple of 32 bytes. Throws
// Error(environment) if the disk refuses.
void write_gguf(const std::string& path, const GgufMetadata& metadata, const std::vector<TensorInfo>& tensors,
                const TensorPieces& write_tensor);

// Like write_gguf(), with the data of the first `whole` tensors alone: a file of headers, which a
// reader with Data::optional opens. It is for reading back at once and not durable.
void write_gguf_headers(const std::string& path, const GgufMetadata& metadata, const std::vector<TensorInfo>& tensors,
                        size_t whole, const TensorPieces& write_tensor);

}  // namespace forge
