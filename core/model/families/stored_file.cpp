#include "core/model/families/stored_file.h"

#include <algorithm>
#include <set>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/wrapped_file.h"
#include "core/model/families/family.h"
#include "core/model/families/joined_experts.h"
#include "core/model/families/modules.h"
#include "core/model/families/stored_config.h"
#include "core/model/families/wrapper.h"
#include "core/model/stored/dequantised_file.h"

namespace forge {
namespace {

// Returns the prefix of every name but the head's: "transformer.".
std::string prefix_of(const ModelSpec& spec) {
  const std::string embedding = outer_modules(spec).embedding;
  return embedding.substr(0, embedding.find('.') + 1);
}

// True for a file of the base model ("LlamaModel"), whose names lack the language model's prefix.
bool is_bare(const ModelSpec& spec, const TensorFile& file) {
  const std::string prefix = prefix_of(spec);
  return !prefix.empty() && file.find(embedding_name(spec)) < 0 && file.find(embedding_name(spec).substr(prefix.size())) >= 0;
}

// True for a tensor that is not part of the base model.
bool beside_base(const ModelSpec& spec, const std::string& name) {
  const auto begins = [&](std::string_view module) { return starts_with(name, module); };
  return begins(head_name(spec)) || begins("lm_head.") || begins("score.") ||
         begins("final_logits_bias");
}

class StoredFile : public WrappedFile {
 public:
  StoredFile(const ModelSpec& spec, std::unique_ptr<TensorFile> file) : WrappedFile(std::move(file)) {
    const std::string prefix = prefix_of(spec);
    const bool bare = is_bare(spec, *file_);
    std::set<std::string> turned;
    for (const Parameter& parameter : base_parameters(spec))
      if (stored_transposed(spec, parameter)) turned.insert(parameter.name);
    for (TensorInfo tensor : file_->tensors()) {
      if (bare && !beside_base(spec, tensor.name)) tensor.name = prefix + tensor.name;
      const size_t sides = tensor.shape.size();
      turned_.push_back((sides == 2 || sides == 3) && turned.count(tensor.name) > 0);
      if (turned_.back()) std::swap(tensor.shape[sides - 2], tensor.shape[sides - 1]);
      tensors_.push_back(std::move(tensor));
    }
  }

 protected:
  bool makes(size_t index) const override { return turned_[index]; }
  void make_rows(size_t index, int64_t begin, int64_t count, float* values) const override {
    if (tensors_[index].shape.size() == 3) return make_experts(index, begin, count, values);
    const int64_t rows = tensors_[index].shape[0], columns = tensors_[index].shape[1];
    std::vector<float> stored(static_cast<size_t>(rows * columns));  // [columns, rows]
    file_->read_f32(index, stored.data());
    for (int64_t row = 0; row < count; ++row)
      for (int64_t column = 0; column < columns; ++column)
        values[row * columns + column] = stored[static_cast<size_t>(column * rows + begin + row)];
  }

 private:
  // Turns each expert's matrix by itself.
  void make_experts(size_t index, int64_t begin, int64_t count, float* values) const {
    const int64_t rows = tensors_[index].shape[1], columns = tensors_[index].shape[2], size = rows * columns;
    std::vector<float> stored(static_cast<size_t>(size));  // [columns, rows]
    for (int64_t expert = 0; expert < count; ++expert) {
      file_->read_rows_f32(index, begin + expert, 1, stored.data());
      for (int64_t i = 0; i < size; ++i)
        values[expert * size + i] = stored[static_cast<size_t>(i % columns * rows + i / columns)];
    }
  }

  std::vector<bool> turned_;
};

// A file whose tensors have other names than the model's.
class RenamedFile : public WrappedFile {
 public:
  RenamedFile(const Family& family, std::unique_ptr<TensorFile> file)
      : WrappedFile(std::move(file)) {
    tensors_ = file_->tensors();
    for (TensorInfo& tensor : tensors_)
      for (const auto& [stored, name] : family.stored_names)
        if (ends_with(tensor.name, stored))
          tensor.name.replace(tensor.name.size() - stored.size(), stored.size(), name);
  }

 protected:
  bool makes(size_t) const override { return false; }
  void make_rows(size_t, int64_t, int64_t, float*) const override {}
};

// A file whose embedding and head have more rows than are stored.
class ExtendedFile : public WrappedFile {
 public:
  ExtendedFile(const ModelSpec& spec, std::unique_ptr<TensorFile> file) : WrappedFile(std::move(file)), rows_(spec.added_rows) {
    for (TensorInfo tensor : file_->tensors()) {
      extended_.push_back((tensor.name == embedding_name(spec) || tensor.name == logits_head_name(spec)) && tensor.rows() == spec.base_vocab_size);
      if (extended_.back()) tensor.shape[0] = spec.vocab_size;
      tensors_.push_back(std::move(tensor));
    }
  }

 protected:
  bool makes(size_t index) const override { return extended_[index]; }
  void make_rows(size_t index, int64_t begin, int64_t count, float* values) const override {
    const int64_t stored = file_->tensors()[index].rows(), columns = tensors_[index].count() / tensors_[index].rows();
    const int64_t held = std::clamp<int64_t>(stored - begin, 0, count);
    if (held > 0) file_->read_rows_f32(index, begin, held, values);
    std::fill(values + held * columns, values + count * columns, 0.0f);
    for (const AddedRow& row : rows_) {
      if (row.id < begin || row.id >= begin + count) continue;
      const std::vector<float> mean = mean_of(index, row.from, stored, columns);
      std::copy(mean.begin(), mean.end(), values + (row.id - begin) * columns);
    }
  }

 private:
  // Returns the mean of the rows `from`, or of all rows if it is empty, computed in fp64.
  std::vector<float> mean_of(size_t index, const std::vector<int64_t>& from, int64_t rows, int64_t columns) const {
    std::vector<double> sums(static_cast<size_t>(columns));
    std::vector<float> piece;
    const auto add = [&](int64_t begin, int64_t count) {
      piece.resize(static_cast<size_t>(count * columns));
      file_->read_rows_f32(index, begin, count, piece.data());
      for (size_t i = 0; i < piece.size(); ++i) sums[i % sums.size()] += static_cast<double>(piece[i]);
    };
    constexpr int64_t kRows = 1024;
    for (const int64_t row : from) add(row, 1);
    for (int64_t begin = 0; from.empty() && begin < rows; begin += kRows) add(begin, std::min(kRows, rows - begin));
    const auto count = static_cast<double>(from.empty() ? rows : static_cast<int64_t>(from.size()));
    std::vector<float> mean;
    for (const double sum : sums) mean.push_back(static_cast<float>(sum / count));
    return mean;
  }

  std::vector<AddedRow> rows_;
  std::vector<bool> extended_;
};

}  // namespace

std::unique_ptr<TensorFile> open_weights(const ModelSpec& spec, const std::string& path, Data data) {
  std::unique_ptr<TensorFile> file = open_model(path, data);
  if (is_directory(path)) file = dequantised(std::move(file), stored_scheme_in(path), path);
  if (!spec.wrapper.empty() || *outer_modules(spec).stored_head) file = current_names(spec, std::move(file));
  if (!family_of(spec).stored_names.empty() && model_format(path) != ModelFormat::gguf)
    file = std::make_unique<RenamedFile>(family_of(spec), std::move(file));
  file = experts_apart(spec, std::move(file));
  const bool renamed = stores_transposed(spec) || stores_experts_turned(spec) || is_bare(spec, *file);
  if (renamed && model_format(path) != ModelFormat::gguf) file = std::make_unique<StoredFile>(spec, std::move(file));
  if (spec.base_vocab_size == 0) return file;
  return std::make_unique<ExtendedFile>(spec, std::move(file));
}

std::string with_stored_ending(const std::vector<std::pair<std::string, std::string>>& stored_names,
                               const std::string& name) {
  for (const auto& [stored, own] : stored_names)
    if (ends_with(name, own)) return name.substr(0, name.size() - own.size()) + stored;
  return name;
}

bool stored_transposed(const ModelSpec& spec, const Parameter& parameter) {
  return (stores_transposed(spec) && parameter.role == Role::linear) ||
         (stores_experts_turned(spec) && parameter.role == Role::experts);
}

bool stores_experts_turned(const ModelSpec& spec) { return spec.num_experts > 0 && family_of(spec).turned_experts; }

bool stores_transposed(const ModelSpec& spec) { return family_of(spec).transposed_linears; }

std::vector<TensorInfo> zero_buffers(const ModelSpec& spec) {
  if (spec.family != "bart") return {};
  return {{kLogitsBias, {1, spec.vocab_size}, DType::f32}};
}

}  // namespace forge
