#include "core/lib/io/gguf_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "core/lib/base/error.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/io/architectures.h"
#include "core/lib/io/faults.h"

namespace forge {
namespace {

// Conversion of a tensor of the file to the model's.
struct Change {
  size_t source = 0;              // index in Gguf::tensors()
  std::optional<size_t> further;  // a second one, whose rows follow
  GgufRows rows, columns;
  bool minus_one = false, rates = false;
  int64_t expert = 0, experts = 1;  // which part of `experts` equal ones it is
  int64_t below = -1;  // index in Gguf::tensors() of the lower halves of its matrices; −1: none
};

constexpr int64_t kMostExperts = 1 << 12;

// Indices in Gguf::tensors() of a matrix's gate and of what that lets through; −1: not there.
using Halves = std::array<int64_t, 2>;

// Returns a value that may be given once or per layer.
int64_t per_layer(const Gguf& gguf, const std::string& key, int64_t layer, int64_t otherwise) {
  const GgufValue* value = gguf.find(key);
  if (!value || value->type != GgufType::array) return gguf.get_int(key, otherwise);
  std::vector<int64_t> values = gguf.get_ints(key);
  return layer < static_cast<int64_t>(values.size()) ? values[static_cast<size_t>(layer)] : otherwise;
}

// Returns the heads of the file's model.
GgufHeads heads_of(const Gguf& gguf, int64_t layer) {
  const std::string attention = gguf.architecture() + ".attention.head_count", rule = gguf.architecture() + ".ssm.";
  GgufHeads of;
  of.heads = per_layer(gguf, attention, layer, 0);
  of.kv_heads = per_layer(gguf, attention + "_kv", layer, of.heads);
  of.delta_keys = gguf.get_int(rule + "group_count", 0);
  of.delta_values = gguf.get_int(rule + "time_step_rank", 0);
  of.key_dim = gguf.get_int(rule + "state_size", 0);
  of.value_dim = of.delta_values > 0 ? gguf.get_int(rule + "inner_size", 0) / of.delta_values : 0;
  return of;
}

// Returns the file's order of the rows of q, k or all three. Adds a fault if they do not split into
// heads.
GgufRows rows_of(const Gguf& gguf, const GgufArchitecture& architecture, const GgufName& name, const GgufTensor& tensor,
                 Faults& faults) {
  const std::string prefix = gguf.architecture() + ".attention.head_count";
  const GgufHeads of = heads_of(gguf, name.layer);
  const int64_t rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  const GgufRows order = gguf_rows(architecture, name.role, rows, of);
  const bool splits = order.head_rows > 0 && order.head_rows % 2 == 0;
  if (splits && (tensor.shape.size() > 1 || !is_quantized(tensor.dtype))) return order;
  faults.add("tensor " + show_name(tensor.name) + " " + format_shape(tensor.shape) + " does not split into " +
             std::to_string(name.role == GgufRole::key ? of.kv_heads : of.heads) + " heads (" + prefix + ")");
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
    for (const auto& [name, parts] : halves_) add_halves(name, parts, faults);
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
    return changes_.at(index).rows.head_rows == 0 && stores_rows(index);
  }
  int64_t file_bytes() const override { return gguf_.file_bytes(); }
  std::string header_hash() const override { return gguf_.header_hash(); }
  bool data_missing() const override { return gguf_.data_missing(); }

  void read_rows_f32(size_t index, int64_t begin, int64_t count, float* values) const override {
    const Change& change = changes_.at(index);
    const TensorInfo& tensor = tensors_[index];
    if (tensor.count() == 0) return;  // any number of rows
    const int64_t row = tensor.count() / tensor.rows();
    if (change.below >= 0) return read_halves(index, begin, count, values);
    if (change.rows.head_rows > 0)
      for (int64_t r = 0; r < count; ++r) read_file_row(change, change.rows.file_row(begin + r), row, values + r * row);
    else
      TensorFile::read_rows_f32(index, begin, count, values);
    if (change.columns.head_rows > 0) reorder_columns(change.columns, count, row, values);
    if (change.rates) take_logarithms(tensor.name, count, values);
    for (int64_t i = 0, all = change.minus_one ? count * row : 0; i < all; ++i) values[i] -= 1.0f;
  }

  bool stores_rows(size_t index) const override {
    const Change& change = changes_.at(index);
    return !change.minus_one && !change.rates && change.below < 0 && !change.further && change.columns.head_rows == 0;
  }
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
  // Reads a row in the file's order, of both tensors if there are two.
  void read_file_row(const Change& change, int64_t row, int64_t columns, float* values) const {
    const GgufTensor* tensor = &gguf_.tensors()[change.source];
    if (change.further && row >= tensor->shape[0]) {
      row -= tensor->shape[0];
      tensor = &gguf_.tensors()[*change.further];
    }
    decode_to_f32(tensor->dtype, gguf_.bytes(*tensor).data() + row * bytes_of(tensor->dtype, columns), columns, values);
  }

  static void reorder_columns(const GgufRows& order, int64_t count, int64_t columns, float* values) {
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t r = 0; r < count; ++r, values += columns) {
      std::copy_n(values, columns, row.data());
      for (int64_t i = 0; i < columns; ++i) values[i] = row[static_cast<size_t>(order.file_row(i))];
    }
  }

  void take_logarithms(const std::string& name, int64_t count, float* values) const {
    for (int64_t i = 0; i < count; ++i) {
      if (!(values[i] <= 0))
        throw Error(ErrorKind::environment, gguf_.path() + ": " + name + " is made of a positive rate (ssm_a); expected the negative ones of llama.cpp's converter")
            .hint("convert the model again, or use its Hugging Face folder");
      values[i] = std::log(-values[i]);
    }
  }

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
    if (name.role == GgufRole::gate_half || name.role == GgufRole::up_half) {
      halves_.try_emplace(name.name, Halves{-1, -1}).first->second[name.role == GgufRole::up_half] =
          static_cast<int64_t>(index);
      return;
    }
    if (name.role == GgufRole::delta_gate) return require_partner(tensor.name, "attn_gate", "attn_qkv", faults);
    if (name.role == GgufRole::delta_joined) return add_joined(architecture, name, index, faults);
    Change change{index};
    if (gguf_reorders(architecture, name.role)) change.rows = rows_of(gguf_, architecture, name, tensor, faults);
    if (of_delta(name.role)) return add_delta(architecture, std::move(name), index, faults);
    change.minus_one = architecture.norms_plus_one && name.role == GgufRole::norm && ends_with(name.name, ".weight");
    tensors_.push_back({std::move(name.name), tensor.shape, tensor.dtype});
    if (name.role == GgufRole::row && tensor.shape.size() == 1) tensors_.back().shape.insert(tensors_.back().shape.begin(), 1);
    changes_.push_back(change);
  }

  static bool of_delta(GgufRole role) {
    return role == GgufRole::delta_qkv || role == GgufRole::delta_filter || role == GgufRole::delta_values ||
           role == GgufRole::delta_heads || role == GgufRole::delta_rates || role == GgufRole::delta_out;
  }

  // Adds a tensor of a delta rule's layer, whose sizes must be those of the metadata's heads.
  void add_delta(const GgufArchitecture& architecture, GgufName name, size_t index, Faults& faults) {
    const GgufTensor& tensor = gguf_.tensors()[index];
    const GgufHeads of = heads_of(gguf_, name.layer);
    const int64_t values = of.delta_values * of.value_dim, mixed = 2 * of.delta_keys * of.key_dim + values;
    const bool columns = name.role == GgufRole::delta_out, mixes = name.role == GgufRole::delta_qkv || name.role == GgufRole::delta_filter;
    const bool heads = name.role == GgufRole::delta_heads || name.role == GgufRole::delta_rates;
    const int64_t expected = mixes ? mixed : heads ? of.delta_values : values;
    const int64_t found = tensor.shape.empty() ? 0 : columns ? tensor.shape.back() : tensor.shape.front();
    const bool divides = of.delta_keys > 0 && of.delta_values % of.delta_keys == 0;
    if (found != expected || !divides || (tensor.shape.size() == 1 && is_quantized(tensor.dtype)))
      return faults.add("tensor " + show_name(tensor.name) + " " + format_shape(tensor.shape) + " does not fit the heads of " + gguf_.architecture() +
                        ".ssm: " + std::to_string(of.delta_keys) + " of keys and " + std::to_string(of.delta_values) + " of values");
    Change change{.source = index, .rows = gguf_rows(architecture, name.role, found, of), .rates = name.role == GgufRole::delta_rates};
    if (columns) change.rows = {}, change.columns = gguf_columns(architecture, name.role, found, of);
    tensors_.push_back({std::move(name.name), tensor.shape, tensor.dtype});
    if (name.role == GgufRole::delta_filter) tensors_.back().shape.insert(tensors_.back().shape.begin() + 1, 1);
    changes_.push_back(change);
  }

  // Returns the place of the tensor with `part` in the place of `own` in its name; none without it.
  std::optional<size_t> partner_of(std::string name, std::string_view own, std::string_view part) const {
    name.replace(name.find(own), own.size(), part);
    for (size_t i = 0; i < gguf_.tensors().size(); ++i)
      if (gguf_.tensors()[i].name == name) return i;
    return std::nullopt;
  }
  void require_partner(const std::string& name, std::string_view own, std::string_view part, Faults& faults) const {
    if (!partner_of(name, own, part)) faults.add("tensor " + show_name(name) + " is without its " + std::string(part));
  }

  // Adds what a delta rule's layer projects, which the file holds in two tensors.
  void add_joined(const GgufArchitecture& architecture, const GgufName& name, size_t index, Faults& faults) {
    const GgufTensor& tensor = gguf_.tensors()[index];
    const std::optional<size_t> gate = partner_of(tensor.name, "attn_qkv", "attn_gate");
    if (!gate) return require_partner(tensor.name, "attn_qkv", "attn_gate", faults);
    const GgufHeads of = heads_of(gguf_, name.layer);
    const std::vector<int64_t>& second = gguf_.tensors()[*gate].shape;
    const int64_t values = of.delta_values * of.value_dim, mixed = 2 * of.delta_keys * of.key_dim + values;
    const bool matrices = tensor.shape.size() == 2 && second.size() == 2 && tensor.shape[1] == second[1];
    if (!matrices || of.delta_keys <= 0 || of.delta_values % of.delta_keys != 0 || tensor.shape[0] != mixed || second[0] != values)
      return faults.add("tensor " + show_name(tensor.name) + " " + format_shape(tensor.shape) + " and its attn_gate " + format_shape(second) +
                        " do not fit the heads of " + gguf_.architecture() + ".ssm");
    tensors_.push_back({name.name, {mixed + values, tensor.shape[1]}, tensor.dtype});
    changes_.push_back({.source = index, .further = gate, .rows = gguf_rows(architecture, name.role, mixed + values, of)});
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

  // Adds a tensor whose matrices are those of two tensors, one above the other.
  void add_halves(const std::string& name, const Halves& parts, Faults& faults) {
    if (parts[0] < 0 || parts[1] < 0)
      return faults.add("tensor " + show_name(tensor_at(std::max(parts[0], parts[1])).name) +
                        " is there without its other half");
    const GgufTensor &gate = tensor_at(parts[0]), &up = tensor_at(parts[1]);
    if (gate.shape != up.shape || gate.shape.size() < 2)
      return faults.add("tensors " + show_name(gate.name) + " " + format_shape(gate.shape) +
                        " and " + show_name(up.name) + " " + format_shape(up.shape) +
                        " are not matrices of one size");
    TensorInfo whole{name, gate.shape, DType::f32};
    whole.shape[whole.shape.size() - 2] *= 2;
    tensors_.push_back(std::move(whole));
    changes_.push_back({.source = static_cast<size_t>(parts[0]), .below = parts[1]});
  }

  void read_halves(size_t index, int64_t begin, int64_t count, float* values) const {
    const TensorInfo& tensor = tensors_[index];
    const int64_t columns = tensor.shape.back(), unit = tensor.count() / tensor.rows() / columns;
    const int64_t half = tensor.shape[tensor.shape.size() - 2] / 2;  // rows
    for (int64_t row = begin * unit; row < (begin + count) * unit; ++row, values += columns) {
      const bool lower = row / half % 2 != 0;
      const GgufTensor& part =
          tensor_at(lower ? changes_[index].below : static_cast<int64_t>(changes_[index].source));
      const int64_t own = row / (2 * half) * half + row % half;
      decode_to_f32(part.dtype, gguf_.bytes(part).data() + own * bytes_of(part.dtype, columns),
                    columns, values);
    }
  }

  const GgufTensor& tensor_at(int64_t index) const {
    return gguf_.tensors()[static_cast<size_t>(index)];
  }

  Gguf gguf_;
  std::map<std::string, Halves> halves_;
  std::vector<TensorInfo> tensors_;
  std::vector<Change> changes_;
};

}  // namespace

std::unique_ptr<GgufFile> open_gguf(const std::string& path, Data data) {
  return std::make_unique<MappedGguf>(Gguf(path, data));
}

}  // namespace forge
