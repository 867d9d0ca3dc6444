#include "core/lib/io/gguf_tensors.h"

#include <cstring>

#include "core/lib/base/error.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/io/architectures.h"
#include "core/lib/io/faults.h"

namespace forge {
namespace {

// Conversion of a tensor of the file to the model's.
struct Change {
  size_t source = 0;  // index in Gguf::tensors()
  GgufRows rows;
  bool minus_one = false;
  int64_t expert = 0, experts = 1;  // which part of `experts` equal ones it is
};

constexpr int64_t kMostExperts = 1 << 12;

// Returns a value that may be given once or per layer.
int64_t per_layer(const Gguf& gguf, const std::string& key, int64_t layer, int64_t otherwise) {
  const GgufValue* value = gguf.find(key);
  if (!value || value->type != GgufType::array) return gguf.get_int(key, otherwise);
  std::vector<int64_t> values = gguf.get_ints(key);
  return layer < static_cast<int64_t>(values.size()) ? values[static_cast<size_t>(layer)] : otherwise;
}

bool reorders(const GgufArchitecture& architecture, GgufRole role) {
  if (role == GgufRole::grouped_qkv) return true;
  return architecture.permutes_heads && (role == GgufRole::query || role == GgufRole::key);
}

// Returns the file's order of the rows of q, k or all three. Adds a fault if they do not split into
// heads.
GgufRows rows_of(const Gguf& gguf, const GgufArchitecture& architecture, const GgufName& name, const GgufTensor& tensor,
                 Faults& faults) {
  const std::string prefix = gguf.architecture() + ".attention.head_count";
  const int64_t heads = per_layer(gguf, prefix, name.layer, 0);
  const int64_t kv_heads = per_layer(gguf, prefix + "_kv", name.layer, heads);
  const int64_t rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  const GgufRows order = gguf_rows(architecture, name.role, rows, heads, kv_heads);
  const bool splits = order.head_rows > 0 && order.head_rows % 2 == 0;
  if (splits && (tensor.shape.size() > 1 || !is_quantized(tensor.dtype))) return order;
  faults.add("tensor " + show_name(tensor.name) + " " + format_shape(tensor.shape) + " does not split into " +
             std::to_string(name.role == GgufRole::key ? kv_heads : heads) + " heads (" + prefix + ")");
  return {};
}

class MappedGguf : public GgufFile {
 public:
  explicit MappedGguf(Gguf gguf) : gguf_(std::move(gguf)) {
    const GgufArchitecture* architecture = gguf_architecture(gguf_.architecture());
    if (!architecture)
      throw Error(ErrorKind::job, gguf_.path() + ": the architecture " + show_name(gguf_.architecture()) +
                                      architecture_refusal(gguf_.architecture(), gguf_architectures()))
          .hint("forge reads GGUF files of " + join(gguf_architectures(), ", "));
    Faults faults(gguf_.path());
    for (size_t i = 0; i < gguf_.tensors().size(); ++i) add(*architecture, i, faults);
    faults.raise(ErrorKind::environment);
  }

  const Gguf& gguf() const override { return gguf_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::string_view bytes(size_t index) const override {
    const Change& change = changes_.at(index);
    const std::string_view all = gguf_.bytes(gguf_.tensors()[change.source]);
    const size_t part = all.size() / static_cast<size_t>(change.experts);
    return all.substr(static_cast<size_t>(change.expert) * part, part);
  }
  bool bytes_are_values(size_t index) const override {
    return changes_.at(index).rows.head_rows == 0 && !changes_[index].minus_one;
  }
  int64_t file_bytes() const override { return gguf_.file_bytes(); }
  std::string header_hash() const override { return gguf_.header_hash(); }
  bool data_missing() const override { return gguf_.data_missing(); }

  void read_rows_f32(size_t index, int64_t begin, int64_t count, float* values) const override {
    const Change& change = changes_.at(index);
    const TensorInfo& tensor = tensors_[index];
    if (tensor.count() == 0) return;  // any number of rows
    const int64_t row = tensor.count() / tensor.rows();
    if (change.rows.head_rows > 0) {
      const int64_t row_bytes = bytes_of(tensor.dtype, row);
      for (int64_t r = begin; r < begin + count; ++r, values += row)
        decode_to_f32(tensor.dtype, bytes(index).data() + change.rows.file_row(r) * row_bytes, row, values);
      return;
    }
    TensorFile::read_rows_f32(index, begin, count, values);
    if (!change.minus_one) return;
    for (int64_t i = 0, all = count * row; i < all; ++i) values[i] -= 1.0f;
  }

  bool stores_rows(size_t index) const override { return !changes_.at(index).minus_one; }
  void read_stored(size_t index, char* to) const override {
    const GgufRows& rows = changes_.at(index).rows;
    if (rows.head_rows == 0) return TensorFile::read_stored(index, to);
    const TensorInfo& tensor = tensors_[index];
    const int64_t row_bytes = bytes_of(tensor.dtype, tensor.count() / tensor.rows());
    for (int64_t r = 0; r < tensor.rows(); ++r, to += row_bytes)
      std::memcpy(to, bytes(index).data() + rows.file_row(r) * row_bytes, static_cast<size_t>(row_bytes));
  }

  GgufRopeFactors rope_factors() const override {
    return {vector_of("rope_freqs.weight"), vector_of("rope_factors_short.weight"), vector_of("rope_factors_long.weight")};
  }

 private:
  // Returns a plain vector of the file by llama.cpp's name, which add() has checked; empty if there
  // is none.
  std::vector<float> vector_of(std::string_view name) const {
    for (const GgufTensor& tensor : gguf_.tensors()) {
      if (tensor.name != name) continue;
      const std::string_view data = gguf_.bytes(tensor);
      std::vector<float> values(data.size() / static_cast<size_t>(block_bytes(tensor.dtype)));
      decode_to_f32(tensor.dtype, data.data(), static_cast<int64_t>(values.size()), values.data());
      return values;
    }
    return {};
  }

  void add(const GgufArchitecture& architecture, size_t index, Faults& faults) {
    const GgufTensor& tensor = gguf_.tensors()[index];
    GgufName name = hugging_face_name(architecture, tensor.name);
    if (name.role == GgufRole::ignored) return;
    if (name.role == GgufRole::unknown)
      return faults.add("tensor " + show_name(tensor.name) + " is not one of architecture " +
                        std::string(architecture.name));
    if (name.role == GgufRole::rope_factors) {
      if (is_quantized(tensor.dtype) || tensor.shape.size() != 1)
        faults.add("tensor " + show_name(tensor.name) + " is not a plain vector");
      return;
    }
    if (name.role == GgufRole::experts) return add_experts(name.name, index, faults);
    Change change{index};
    if (reorders(architecture, name.role)) change.rows = rows_of(gguf_, architecture, name, tensor, faults);
    change.minus_one = architecture.norms_plus_one && name.role == GgufRole::norm;
    tensors_.push_back({std::move(name.name), tensor.shape, tensor.dtype});
    if (name.role == GgufRole::row && tensor.shape.size() == 1) tensors_.back().shape.insert(tensors_.back().shape.begin(), 1);
    changes_.push_back(change);
  }

  // Adds each expert's matrix by itself. Its rows are whole blocks, so that it begins at one.
  void add_experts(const std::string& name, size_t index, Faults& faults) {
    const GgufTensor& tensor = gguf_.tensors()[index];
    if (tensor.shape.size() != 3 || tensor.shape[0] < 1 || tensor.shape[0] > kMostExperts)
      return faults.add("tensor " + show_name(tensor.name) + " " + format_shape(tensor.shape) + " does not hold the matrices of 1 to " +
                        std::to_string(kMostExperts) + " experts");
    for (int64_t expert = 0; expert < tensor.shape[0]; ++expert) {
      tensors_.push_back({name_of_expert(name, expert), {tensor.shape[1], tensor.shape[2]}, tensor.dtype});
      changes_.push_back({.source = index, .expert = expert, .experts = tensor.shape[0]});
    }
  }

  Gguf gguf_;
  std::vector<TensorInfo> tensors_;
  std::vector<Change> changes_;
};

}  // namespace

int64_t GgufRows::file_row(int64_t row) const {
  if (groups == 0) {
    const int64_t in_head = row % head_rows, half = head_rows / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
  }
  const int64_t queries = heads / groups * head_rows;  // of a group
  const int64_t group = row / (queries + 2 * head_rows), at = row % (queries + 2 * head_rows);
  if (at < queries) return group * queries + at;
  const int64_t before = at < queries + head_rows ? heads : heads + groups;
  return (before + group) * head_rows + at % head_rows;
}

GgufRows gguf_rows(const GgufArchitecture& architecture, GgufRole role, int64_t rows, int64_t heads, int64_t kv_heads) {
  if (!reorders(architecture, role)) return {};
  const bool grouped = role == GgufRole::grouped_qkv;
  const int64_t all = grouped ? heads + 2 * kv_heads : role == GgufRole::key ? kv_heads : heads;
  if (heads <= 0 || kv_heads <= 0 || all > rows || rows % all != 0 || (grouped && heads % kv_heads != 0)) return {};
  return {rows / all, grouped ? heads : 0, grouped ? kv_heads : 0};
}

std::unique_ptr<GgufFile> open_gguf(const std::string& path, Data data) {
  return std::make_unique<MappedGguf>(Gguf(path, data));
}

}  // namespace forge
