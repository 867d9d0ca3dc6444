#include "core/model/stored/search.h"

#include <algorithm>
#include <cstring>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/lib/io/encode.h"

namespace forge {
namespace {

constexpr size_t kShownFaults = 10;

std::string names_of_types(const std::vector<DType>& types) {
  std::vector<std::string> names;
  for (const DType type : types) names.emplace_back(name_of(type));
  return join(names, " or ");
}

}  // namespace

StoredSearch::StoredSearch(const TensorFile& file, const StoredScheme& scheme)
    : file(file), scheme(scheme), hidden_(file.tensors().size()) {
  for (size_t i = 0; i < file.tensors().size(); ++i) names_.emplace(file.tensors()[i].name, i);
}

std::optional<size_t> StoredSearch::find(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<size_t> StoredSearch::part(const std::string& stem, std::string_view ending) {
  const std::optional<size_t> index = find(stem + std::string(ending));
  if (index) hide(*index);
  return index;
}

bool StoredSearch::empty() const {
  return found_.empty() && std::find(hidden_.begin(), hidden_.end(), true) == hidden_.end();
}

void StoredSearch::fault(const std::string& what) {
  faults_.size() < kShownFaults ? faults_.push_back(what) : void(++more_);
}

void StoredSearch::raise(const std::string& path) const {
  if (faults_.empty()) return;
  std::vector<std::string> lines;
  for (const std::string& fault : faults_)
    lines.push_back((path.empty() ? "" : path + ": ") + fault);
  if (more_ > 0) lines.push_back("… and " + std::to_string(more_) + " more");
  throw Error(ErrorKind::environment, join(lines, "\n"))
      .hint(
          "the checkpoint is damaged or cut, or its config.json is another one's: download the "
          "whole "
          "model again");
}

void round_to(DType dtype, int64_t count, float* values) {
  if (dtype != DType::bf16 && dtype != DType::f16) return;
  uint16_t (*const narrow)(float) = dtype == DType::bf16 ? bf16_of : half_of;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = narrow(values[i]);
    decode_to_f32(dtype, &bits, 1, values + i);
  }
}

std::vector<float> values_of(const TensorFile& file, size_t index) {
  std::vector<float> values(static_cast<size_t>(file.tensors()[index].count()));
  file.read_f32(index, values.data());
  return values;
}

std::vector<int64_t> integers_of(const TensorFile& file, size_t index) {
  const TensorInfo& tensor = file.tensors()[index];
  const char* bytes = file.bytes(index).data();
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (tensor.dtype == DType::i64) {
      int64_t value = 0;
      std::memcpy(&value, bytes + 8 * i, 8);
      values.push_back(value);
    } else {
      int32_t value = 0;
      FORGE_CHECK(tensor.dtype == DType::i32, tensor.name << " does not hold integers");
      std::memcpy(&value, bytes + 4 * i, 4);
      values.push_back(value);
    }
  }
  return values;
}

bool expect(StoredSearch& search, size_t index, const std::vector<DType>& types,
            const std::vector<int64_t>& shape) {
  const TensorInfo& tensor = search.at(index);
  const bool typed = std::find(types.begin(), types.end(), tensor.dtype) != types.end();
  if (typed && (shape.empty() || tensor.shape == shape)) return true;
  search.fault("tensor " + tensor.name + " is " + name_of(tensor.dtype) + " " +
               format_shape(tensor.shape) + ", expected " + names_of_types(types) +
               (shape.empty() ? "" : " " + format_shape(shape)));
  return false;
}

}  // namespace forge
