#pragma once
// Interface of every weight file: named tensors with a shape, an element type and their raw bytes.
// Readers (safetensors.h, gguf.h) validate the whole header before anything is allocated, and never
// read past the file.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/lib/io/book_blocks.h"

namespace forge {

enum class DType {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u8,
  boolean,
  f8_e4m3,
  f8_e5m2,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k,
  mxfp4,
  f8_e8m0
};

const char* name_of(DType dtype);  // "f32", "q4_1", …
// Return the elements that share one block (1 for plain types) and the bytes of a block.
int64_t block_elements(DType dtype);
int64_t block_bytes(DType dtype);
// Returns the bytes of `count` elements; a GGUF block type needs whole blocks (checked).
int64_t bytes_of(DType dtype, int64_t count);
bool is_quantized(DType dtype);

// Multiplies *product by factor; false when the result would not fit int64_t. All factors are >= 0.
inline bool multiply_checked(int64_t* product, int64_t factor) {
  return !__builtin_mul_overflow(*product, factor, product);
}
// Returns "[576, 49152]", for messages.
std::string format_shape(const std::vector<int64_t>& shape);

struct TensorInfo {
  std::string name;
  std::vector<int64_t>
      shape;  // row major, outermost first, as in PyTorch ([out_features, in_features] for a linear)
  DType dtype = DType::f32;
  int64_t count() const;
  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
};

// Data that a reader demands of a file: everything, or the headers alone, so that a plan can be
// made without weights.
enum class Data { required, optional };

// A model's weights, from one file or several shards. Tensor names are Hugging Face names
// ("model.layers.0.…"), whatever the file called them.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // Returns the raw bytes of tensor `index`, mapped; valid as long as the file. Layout of block
  // types: ggml-common.h of llama.cpp. They are the tensor itself only if bytes_are_values(index):
  // a GGUF may hold rows in another order. Throws Error(environment) when the file was opened for
  // its headers only and the data is not there.
  virtual std::string_view bytes(size_t index) const = 0;
  // True if bytes(index), decoded one after the other, is the Hugging Face tensor.
  virtual bool bytes_are_values(size_t) const { return true; }
  // Reads the whole Hugging Face tensor as float32 into `values` [count()]. Any number of threads
  // may read at once.
  void read_f32(size_t index, float* values) const;
  // Reads rows [begin, begin + count) alone, [count, the rest of the shape]; a vector's rows are
  // its values.
  virtual void read_rows_f32(size_t index, int64_t begin, int64_t count, float* values) const;
  // True if a matrix's rows are in the file as bytes of their own, in whatever order. read_stored()
  // reads all of them, in the model's order.
  virtual bool stores_rows(size_t index) const { return bytes_are_values(index); }
  virtual void read_stored(size_t index, char* bytes) const;
  // Returns the codes of a matrix that the file holds in blocks of a 4-bit book; nothing for
  // others.
  virtual std::optional<BookBlocks> book_blocks(size_t) const { return {}; }
  // Lets the tensor's pages leave memory. A caller that walks a model larger than memory calls it
  // after each tensor.
  void release(size_t index) const;
  // Return the bytes on disk of all shards, and a hash of the headers: the cheap identity of the
  // model.
  virtual int64_t file_bytes() const = 0;
  virtual std::string header_hash() const = 0;
  // True if some of the tensors' data is not there (only when opened with Data::optional). Such a
  // file is good for planning alone.
  virtual bool data_missing() const { return false; }
  // Returns the index of a name, or -1.
  int64_t find(std::string_view name) const;
};

// Functions that give writers tensors that are larger than what should be in memory at once.
using PieceSink = std::function<void(std::string_view bytes)>;
using TensorPieces = std::function<void(const TensorInfo& tensor, const PieceSink& sink)>;

// Decodes `count` elements of any dtype (block types included; count is a multiple of the block)
// into float32. Exact for every type but f64, i64 and i32, which round to nearest. `source` needs
// no alignment.
void decode_to_f32(DType dtype, const void* source, int64_t count, float* destination);

}  // namespace forge
