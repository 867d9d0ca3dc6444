#pragma once
// A base model with adapters merged into its weights, row by row while they are read. Only the
// adapter's own small tensors are ever whole in memory, so a model of any size is merged in the
// same memory.
//
//   MergedModel merged(open_model(path), spec, {{read_adapter_config(folder), 1.0}});
//   merged.read(index, 1, [&](int64_t row, std::span<const float> values) { … });
//
// Computes in float32, like PEFT's merge_and_unload (Hu et al., LoRA, 2021; Liu et al., DoRA,
// 2024):
//
//   LoRA                    W + Σ weight · scale · B A
//   DoRA                    m / ‖W + scale · B A‖ (by row) · (W + scale · B A)
//   modules_to_save         the trained tensor itself; of trainable_token_indices the rows
//   LoRA of the embedding   W + Σ weight · scale · (B A)ᵀ
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/lib/io/tensor_file.h"
#include "core/model/families/adapter_folder.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/model_spec.h"

namespace forge {

// Returns all values of a tensor.
std::vector<float> whole_tensor(const TensorFile& file, size_t index);

struct WeightedAdapter {
  AdapterFile file;
  double weight = 1;
};

class MergedModel {
 public:
  // Throws Error(environment) for adapters whose tensors do not fit the model or hold values that
  // are not finite, and for adapters that cannot be added (DoRA with others; a module that two of
  // them keep whole).
  MergedModel(std::unique_ptr<TensorFile> base, const ModelSpec& spec, std::vector<WeightedAdapter> adapters);
  ~MergedModel();

  // Returns the base's spec, except that a tied head is no longer tied if an adapter trained one of
  // the two.
  const ModelSpec& spec() const { return spec_; }
  // Returns the type that most of the base's matrices are stored in.
  DType stored_type() const;

  // Returns the tensors in the order of a Hugging Face checkpoint; `dtype` is the base's.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  // Passes all rows of a tensor in order, in pieces of whole multiples of `row_multiple` rows (or
  // the whole tensor), some 64 MiB each. `first_row` is the number of the piece's first row. Throws
  // Error(environment) for values that are not finite.
  using TakeRows = std::function<void(int64_t first_row, std::span<const float> values)>;
  void read(size_t index, int64_t row_multiple, const TakeRows& take) const;

 private:
  struct Adapter;
  struct Source;
  void add_base_tensors();
  void add_adapter(size_t number);
  void add_vocabulary(size_t number, const VocabularySite& site);
  void replace(size_t tensor, size_t adapter, size_t index);
  void untie();
  size_t find(const std::string& name) const;

  std::unique_ptr<TensorFile> base_;
  ModelSpec spec_;
  std::vector<Adapter> adapters_;
  std::vector<TensorInfo> tensors_;
  std::vector<Source> sources_;
};

}  // namespace forge
