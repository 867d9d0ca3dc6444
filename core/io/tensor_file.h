#pragma once
// What every weight file is to forge: named tensors with a shape, an element type and their raw bytes. Readers
// (safetensors.h, gguf.h) validate the whole header before anything is allocated, and never read past the file.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

enum class DType { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean, f8_e4m3, f8_e5m2,
                   q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

const char* name_of(DType dtype);  // "f32", "q4_1", …
// Bytes of `count` elements; a GGUF block type needs whole blocks (checked).
int64_t bytes_of(DType dtype, int64_t count);
bool is_quantized(DType dtype);

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;  // row major, outermost first, as in PyTorch ([out_features, in_features] for a linear)
  DType dtype = DType::f32;
  int64_t count() const;
};

// A model's weights, from one file or several shards. Tensor names are Hugging Face names ("model.layers.0.…"),
// whatever the file called them.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // Raw bytes of tensor `index`, mapped; valid as long as the file. Layout of block types: ggml-common.h of llama.cpp.
  virtual std::string_view bytes(size_t index) const = 0;
  // Bytes on disk of all shards, and a hash of the headers: the cheap identity of the model.
  virtual int64_t file_bytes() const = 0;
  virtual std::string header_hash() const = 0;
  // Index of a name, or -1.
  int64_t find(std::string_view name) const;
};

// Decodes `count` elements of any dtype (block types included; count is a multiple of the block) into float32.
void decode_to_f32(DType dtype, const void* source, int64_t count, float* destination);

}  // namespace forge
