#include "core/model/families/drawn_weights.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/lib/base/error.h"
#include "core/lib/base/hash.h"
#include "core/lib/base/random.h"
#include "core/model/families/modules.h"

namespace forge {
namespace {

class DrawnWeights : public TensorFile {
 public:
  DrawnWeights(const ModelSpec& spec, int64_t seed) : spec_(spec), seed_(static_cast<uint64_t>(seed)), parameters_(base_parameters(spec)) {
    for (const Parameter& parameter : parameters_) tensors_.push_back({parameter.name, parameter.shape, DType::f32});
    for (const ModuleUse& module : modules_of(spec)) first_[weight_name(module)] = module.first;
  }

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::string_view bytes(size_t index) const override { FORGE_CHECK(false, tensors_[index].name << " is drawn, not read"); }
  bool bytes_are_values(size_t) const override { return false; }
  int64_t file_bytes() const override { return 0; }
  std::string header_hash() const override { return hash_hex(dump_json(Json(spec_)) + std::to_string(seed_)); }

  void read_rows_f32(size_t index, int64_t begin, int64_t count, float* values) const override {
    const Parameter& parameter = parameters_[index];
    const int64_t row = parameter.count() / tensors_[index].rows();
    const auto first = first_.find(parameter.name);
    if (first != first_.end() && first->second == FirstValues::ones) return (void)std::fill_n(values, count * row, 1.0f);
    if (first != first_.end() && first->second == FirstValues::log_rates) return draw_log_rates(parameter, begin, count, values);
    if (parameter.role == Role::norm) return (void)std::fill_n(values, count * row, static_cast<float>(1 - spec_.norm_offset));
    if (parameter.role == Role::bias) return (void)std::fill_n(values, count * row, 0.0f);
    const uint64_t stream = stream_of("init/" + parameter.name);
    for (int64_t i = 0; i < count * row; ++i)
      values[i] = static_cast<float>(spec_.initializer_range * normal(seed_, stream, static_cast<uint64_t>(begin * row + i)));
    const int64_t padding = frozen_embedding_row(spec_) - begin;
    if (parameter.name == embedding_name(spec_) && padding >= 0 && padding < count) std::fill_n(values + padding * row, row, 0.0f);
  }

 private:
  // Draws logarithms of numbers between 0.01 and 16, as transformers does.
  void draw_log_rates(const Parameter& parameter, int64_t begin, int64_t count, float* values) const {
    const uint64_t stream = stream_of("init/" + parameter.name);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(std::log(0.01 + 15.99 * uniform(seed_, stream, static_cast<uint64_t>(begin + i))));
  }

  ModelSpec spec_;
  uint64_t seed_;
  std::vector<Parameter> parameters_;
  std::map<std::string, FirstValues> first_;  // by tensor
  std::vector<TensorInfo> tensors_;
};

}  // namespace

std::unique_ptr<TensorFile> drawn_weights(const ModelSpec& spec, int64_t seed) { return std::make_unique<DrawnWeights>(spec, seed); }

}  // namespace forge
