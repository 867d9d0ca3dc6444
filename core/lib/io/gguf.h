#pragma once
// GGUF files (versions 2 and 3, little-endian): typed metadata and a table of tensors.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
//   Gguf gguf("model.gguf");
//   int64_t layers = gguf.get_int("llama.block_count", 0);
//   std::vector<std::string> tokens = gguf.require_strings("tokenizer.ggml.tokens");
//
// This is the file as it is, with llama.cpp's names and order of rows; gguf_tensors.h presents it
// as a model's weights. The constructor walks the whole header once and throws Error(environment)
// at the first fault: every count is compared with the bytes that are left before anything is
// allocated, keys and tensors are unique, alignment is a power of two, tensors have at most 4
// dimensions, lie one after the other and end within the file. Values stay in the mapped file and
// are decoded when asked for, so a header costs memory in proportion to its own size.
//
// The first part of a split GGUF (NAME-00001-of-0000N.gguf, llama-gguf-split) opens the others
// beside it: keys are the first part's, tensors those of all.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/lib/base/file.h"
#include "core/lib/io/tensor_file.h"

namespace forge {

// The numbers are the format's.
enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
const char* name_of(GgufType type);  // "uint8", …, "string", "array"

// One metadata value, still encoded.
struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;  // of an array
  int64_t count = 1;                // elements of an array
  std::string_view bytes;  // the value, or the elements of an array; strings with their 8-byte lengths
};

struct GgufTensor {
  std::string name;            // llama.cpp's: "blk.0.attn_q.weight"
  std::vector<int64_t> shape;  // outermost first, as in PyTorch (the file has it reversed)
  DType dtype = DType::f32;
  int64_t begin = 0, bytes = 0;  // of the data, from the file's first byte
  size_t part = 0;               // of a split GGUF, that holds it
};

class Gguf {
 public:
  explicit Gguf(const std::string& path, Data data = Data::required);

  const std::string& path() const { return file_.path(); }
  int64_t file_bytes() const;
  // Returns the paths of a split's parts after the first; none for a whole file.
  std::vector<std::string> further_parts() const;
  // Returns the hash of everything before the tensors' data, of all parts.
  const std::string& header_hash() const { return hash_; }
  bool data_missing() const { return data_missing_; }

  // Returns keys in the order of the file.
  const std::vector<std::string>& keys() const { return keys_; }
  bool has(const std::string& key) const { return values_.count(key) > 0; }
  const GgufValue* find(const std::string& key) const;

  // Return the value, or `otherwise` when the key is absent. Integers of every width convert (Error
  // when the value does not fit int64_t). Numbers may be asked for integers' values too. Any other
  // type is an Error naming key and types.
  int64_t get_int(const std::string& key, int64_t otherwise) const;
  double get_number(const std::string& key, double otherwise) const;
  bool get_bool(const std::string& key, bool otherwise) const;
  std::string get_string(const std::string& key, const std::string& otherwise) const;  // valid UTF-8
  std::vector<int64_t> get_ints(const std::string& key) const;                         // empty when absent
  std::vector<double> get_numbers(const std::string& key) const;
  std::vector<std::string> get_strings(
      const std::string& key) const;  // bytes as they are: tokens need not be UTF-8
  // Like the getters above, for keys that must be there. They throw Error(environment) naming the
  // missing key.
  double require_number(const std::string& key) const;
  std::string require_string(const std::string& key) const;
  std::vector<std::string> require_strings(const std::string& key) const;

  // Returns general.architecture, e.g. "llama".
  std::string architecture() const { return require_string("general.architecture"); }

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  std::string_view bytes(const GgufTensor& tensor) const;

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const;
  const GgufValue& require(const std::string& key) const;

  // Reads one file, without the other parts of a split.
  struct Alone {};
  Gguf(const std::string& path, Data data, Alone);
  // Opens the parts after the first and takes their tensors.
  void open_parts(Data data);
  void take_part(Gguf part, int64_t number, int64_t count);

  MappedFile file_;
  std::vector<Gguf> parts_;  // after the first
  bool data_missing_ = false;
  std::string hash_;
  std::vector<std::string> keys_;
  std::unordered_map<std::string, GgufValue> values_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace forge
