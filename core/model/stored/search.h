#pragma once
// The search for matrices that a checkpoint holds in codes: each kind of file adds what it finds,
// and dequantised_file.h shows it.
//
//   StoredSearch search(file, scheme);
//   find_bitsandbytes(search);
//   search.raise(path);   // throws all faults at once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/lib/io/tensor_file.h"
#include "core/model/stored/stored_scheme.h"

namespace forge {

// A matrix in codes, of a file that is handed in.
class StoredMatrix {
 public:
  virtual ~StoredMatrix() = default;
  // Decodes rows [begin, begin + count) into `values`.
  virtual void read(const TensorFile& file, int64_t begin, int64_t count, float* values) const = 0;
  virtual std::optional<BookBlocks> book_blocks(const TensorFile&) const { return {}; }
};

class StoredSearch {
 public:
  struct Found {
    TensorInfo shown;
    std::shared_ptr<const StoredMatrix> matrix;
  };

  StoredSearch(const TensorFile& file, const StoredScheme& scheme);

  const TensorFile& file;
  const StoredScheme& scheme;

  const TensorInfo& at(size_t index) const { return file.tensors()[index]; }
  std::optional<size_t> find(const std::string& name) const;
  // Returns the tensor `stem` + `ending` if there is one, and hides it: it is no tensor of the
  // model.
  std::optional<size_t> part(const std::string& stem, std::string_view ending);
  // True if a tensor is shown as it is in the file, so far.
  bool plain(size_t index) const { return !hidden_[index] && found_.count(index) == 0; }
  void hide(size_t index) { hidden_[index] = true; }
  // Returns how config.json says that a module's weight is held; nothing if it does not say.
  std::optional<StoredGroup> group_of(const std::string& module) const {
    return scheme.group_of ? scheme.group_of(module) : std::nullopt;
  }
  // Shows `found` in the place of tensor `index`.
  void add(size_t index, Found found) { found_.emplace(index, std::move(found)); }
  void fault(const std::string& what);
  bool sound() const { return faults_.empty(); }
  // Throws Error(environment) for all faults, if there are any; `path` begins each line.
  void raise(const std::string& path) const;

  const std::map<size_t, Found>& found() const { return found_; }
  bool hidden(size_t index) const { return hidden_[index]; }
  bool empty() const;

 private:
  std::unordered_map<std::string_view, size_t> names_;
  std::map<size_t, Found> found_;
  std::vector<bool> hidden_;
  std::vector<std::string> faults_;
  int64_t more_ = 0;  // faults beyond those that are listed
};

// Rounds values to bf16 or f16, as a library does that decodes into that type. Others stay.
void round_to(DType dtype, int64_t count, float* values);
// Returns the whole tensor as float32.
std::vector<float> values_of(const TensorFile& file, size_t index);
// Returns the whole tensor as integers: i32 and i64 exactly.
std::vector<int64_t> integers_of(const TensorFile& file, size_t index);
// Returns the number of parts of `size` that hold `count`.
inline int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }
// Adds a fault if the tensor has another type or shape, and returns false. A shape of {} is not
// compared.
bool expect(StoredSearch& search, size_t index, const std::vector<DType>& types,
            const std::vector<int64_t>& shape);

}  // namespace forge
