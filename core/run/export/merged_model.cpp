#include "core/run/export/merged_model.h"

#include <algorithm>
#include <map>

#include "core/lib/base/error.h"
#include "core/lib/base/threads.h"
#include "core/model/families/modules.h"
#include "core/model/families/parameters.h"
#include "core/model/families/stored_file.h"
#include "core/run/export/low_rank.h"

namespace forge {
namespace {

constexpr int64_t kPieceValues = int64_t{16} << 20;

// Returns the transpose [columns, rows] of [rows, columns].
std::vector<float> transposed(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> turned(values.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      turned[static_cast<size_t>(column * rows + row)] = values[static_cast<size_t>(row * columns + column)];
  return turned;
}

bool finite(const float* values, int64_t count) {
  // x - x is zero for a finite x and not a number otherwise.
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += values[i] - values[i];
  return sum == 0;
}

}  // namespace

std::vector<float> whole_tensor(const TensorFile& file, size_t index) {
  std::vector<float> values(static_cast<size_t>(file.tensors()[index].count()));
  file.read_f32(index, values.data());
  return values;
}

struct MergedModel::Adapter {
  AdapterFile file;
  double weight = 1;
  std::vector<AdapterSite> sites;
  std::unique_ptr<TensorFile> tensors;
};

// The source of a tensor's rows.
struct MergedModel::Source {
  struct Delta {
    size_t adapter = 0;
    double scale = 1;
    int64_t rank = 0;
    size_t a = 0, b = 0;  // in the adapter's file
    int64_t magnitude = -1;
    bool turned = false;  // of the embedding: W + scale · (B A)ᵀ
  };
  struct Rows {  // of single tokens, in the adapter's file
    std::vector<int64_t> tokens;
    size_t adapter = 0, index = 0;
  };
  const TensorFile* file = nullptr;
  size_t index = 0;
  std::vector<Delta> deltas;
  bool replaced = false;
  std::vector<Rows> rows = {};
};

MergedModel::MergedModel(std::unique_ptr<TensorFile> base, const ModelSpec& spec, std::vector<WeightedAdapter> adapters)
    : base_(std::move(base)), spec_(spec) {
  add_base_tensors();
  for (WeightedAdapter& adapter : adapters) {
    adapters_.push_back({std::move(adapter.file), adapter.weight, {}, nullptr});
    if (spec_for(adapters_.back().file, spec).score_head != spec.score_head)
      throw Error(ErrorKind::environment, adapters_.back().file.folder + ": is a reward model's adapter, whose score the base has no place for")
          .hint("load base and adapter with PEFT, or score texts with forge score");
    adapters_.back().sites = sites_of(adapters_.back().file, spec);
    adapters_.back().tensors = open_adapter_weights(adapters_.back().file.folder, spec);
  }
  for (size_t i = 0; i < adapters_.size(); ++i) add_adapter(i);
}

MergedModel::~MergedModel() = default;

void MergedModel::add_base_tensors() {
  const auto add = [&](int64_t index) {
    tensors_.push_back(base_->tensors()[static_cast<size_t>(index)]);
    sources_.push_back({base_.get(), static_cast<size_t>(index), {}, false});
  };
  for (const Parameter& parameter : base_parameters(spec_)) {
    const int64_t index = base_->find(parameter.name);
    if (index < 0) throw Error(ErrorKind::environment, "the base model has no tensor " + parameter.name);
    add(index);
  }
  for (const TensorInfo& zeros : zero_buffers(spec_))
    if (const int64_t index = base_->find(zeros.name); index >= 0) add(index);
}

size_t MergedModel::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &TensorInfo::name);
  FORGE_CHECK(found != tensors_.end(), "the base model has no tensor " << name);
  return static_cast<size_t>(found - tensors_.begin());
}

// Makes the head a tensor of its own. A tied head shares the embedding's tensor unless an adapter
// trains one of the two; then both are written.
void MergedModel::untie() {
  if (!spec_.tie_word_embeddings) return;
  spec_.tie_word_embeddings = false;
  const size_t embedding = find(embedding_name(spec_));
  TensorInfo head = tensors_[embedding];
  head.name = head_name(spec_);
  tensors_.push_back(head);
  sources_.push_back(sources_[embedding]);
}

void MergedModel::replace(size_t tensor, size_t adapter, size_t index) {
  Source& source = sources_[tensor];
  if (source.replaced || !source.deltas.empty())
    throw Error(ErrorKind::environment,
                adapters_[adapter].file.folder + ": keeps " + tensors_[tensor].name + " whole, and another adapter changes it too")
        .hint("weights that were trained whole cannot be added up: merge only one of the adapters");
  if (adapters_[adapter].weight != 1)
    throw Error(ErrorKind::environment, adapters_[adapter].file.folder + ": keeps " + tensors_[tensor].name +
                                            " whole (modules_to_save), so its weight can only be 1");
  source = {adapters_[adapter].tensors.get(), index, {}, true};
}

void MergedModel::add_adapter(size_t number) {
  Adapter& adapter = adapters_[number];
  const TensorFile& weights = *adapter.tensors;
  const std::string& folder = adapter.file.folder;
  ModelSpec original = spec_;  // the module names the adapter was made for
  check_adapter_weights(weights, folder, trained_by(adapter.file, original));
  for (size_t i = 0; i < weights.tensors().size(); ++i) {
    const std::vector<float> values = whole_tensor(weights, i);
    if (!finite(values.data(), static_cast<int64_t>(values.size())))
      throw Error(ErrorKind::environment, folder + ": " + weights.tensors()[i].name + " holds values that are not finite")
          .hint("the training diverged or the file is damaged");
    weights.release(i);
  }
  const auto index_of = [&](const std::string& name) { return static_cast<size_t>(weights.find(peft_name(name))); };
  for (const Parameter& parameter : trained_by(adapter.file, original)) {
    const std::string name = base_name(parameter);
    if (name.empty()) continue;
    if (name == embedding_name(spec_) || name == head_name(spec_)) untie();
    replace(find(name), number, index_of(parameter.name));
  }
  refuse_joined_experts(adapter.sites, folder);
  for (const VocabularySite& site : vocabulary_sites_of(adapter.file, original)) add_vocabulary(number, site);
  for (const AdapterSite& site : adapter.sites) {
    Source& source = sources_[find(site.module + ".weight")];
    if (source.replaced || (!source.deltas.empty() && (adapter.file.config.use_dora || source.deltas[0].magnitude >= 0)))
      throw Error(ErrorKind::environment, folder + ": changes " + site.module + ", and so does another adapter of which one "
                                                   "is DoRA or keeps it whole")
          .hint("only plain low-rank adapters can be added up");
    Source::Delta delta{number, site.scale * adapter.weight, site.rank, index_of(site.module + ".lora_A.weight"),
                        index_of(site.module + ".lora_B.weight"), -1};
    if (adapter.file.config.use_dora) {
      if (adapter.weight != 1)
        throw Error(ErrorKind::environment, folder + ": is a DoRA adapter, whose weight can only be 1");
      delta.magnitude = static_cast<int64_t>(index_of(site.module + ".lora_magnitude_vector"));
    }
    source.deltas.push_back(delta);
  }
}

void MergedModel::add_vocabulary(size_t number, const VocabularySite& site) {
  Adapter& adapter = adapters_[number];
  const auto index_of = [&](const std::string& name) { return static_cast<size_t>(adapter.tensors->find(peft_name(name))); };
  if (site.tokens.empty()) {
    untie();
    sources_[find(site.module + ".weight")].deltas.push_back(
        {number, site.scale * adapter.weight, site.rank, index_of(site.a()), index_of(site.b()), -1, site.embedding});
    return;
  }
  Source& source = sources_[find(site.module + ".weight")];
  if (adapter.weight != 1)
    throw Error(ErrorKind::environment, adapter.file.folder + ": trains rows of single tokens, so its weight can only be 1");
  for (const Source::Rows& other : source.rows)
    for (const int64_t token : other.tokens)
      if (std::find(site.tokens.begin(), site.tokens.end(), token) != site.tokens.end())
        throw Error(ErrorKind::environment, adapter.file.folder + ": trains the row of token " + std::to_string(token) + ", and so does another adapter");
  source.rows.push_back({site.tokens, number, index_of(site.rows())});
}

DType MergedModel::stored_type() const {
  std::map<DType, int64_t> bytes;
  for (const TensorInfo& tensor : base_->tensors())
    if (tensor.shape.size() > 1) bytes[tensor.dtype] += tensor.count();
  const auto most = std::ranges::max_element(bytes, {}, &decltype(bytes)::value_type::second);
  return most == bytes.end() || most->second == 0 ? DType::f32 : most->first;
}

void MergedModel::read(size_t index, int64_t row_multiple, const TakeRows& take) const {
  const TensorInfo& tensor = tensors_[index];
  const Source& source = sources_[index];
  const int64_t rows = tensor.rows(), columns = rows > 0 ? tensor.count() / rows : 0;
  if (columns == 0) return;
  struct Factors {
    std::vector<float> a, b, magnitude;
    LowRank low_rank;
  };
  std::vector<Factors> factors;
  for (const Source::Delta& delta : source.deltas) {
    const TensorFile& weights = *adapters_[delta.adapter].tensors;
    Factors f{whole_tensor(weights, delta.a), whole_tensor(weights, delta.b), {}, {}};
    if (delta.turned) {
      std::swap(f.a, f.b);
      f.a = transposed(f.a, columns, delta.rank), f.b = transposed(f.b, delta.rank, rows);
    }
    if (delta.magnitude >= 0)
      f.magnitude = whole_tensor(weights, static_cast<size_t>(delta.magnitude));
    factors.push_back(std::move(f));
    Factors& held = factors.back();
    held.low_rank = {held.a.data(), held.b.data(), held.magnitude.empty() ? nullptr : held.magnitude.data(), delta.rank,
                     columns,       delta.scale};
  }
  const auto take_rows = [&](const Source::Rows& own, int64_t first, int64_t count, float* values) {
    for (size_t i = 0; i < own.tokens.size(); ++i)
      if (const int64_t row = own.tokens[i] - first; row >= 0 && row < count)
        adapters_[own.adapter].tensors->read_rows_f32(own.index, static_cast<int64_t>(i), 1, values + row * columns);
  };
  const int64_t piece = std::max(row_multiple, kPieceValues / columns / row_multiple * row_multiple);
  std::vector<float> values(static_cast<size_t>(std::min(piece, rows) * columns));
  for (int64_t first = 0; first < rows; first += piece) {
    const int64_t count = std::min(piece, rows - first);
    for_each_range(count, 16, [&](int64_t begin, int64_t end) {
      source.file->read_rows_f32(source.index, first + begin, end - begin, values.data() + begin * columns);
    });
    for (const Factors& f : factors) add_low_rank(f.low_rank, first, count, values.data());
    for (const Source::Rows& own : source.rows) take_rows(own, first, count, values.data());
    if (!finite(values.data(), count * columns))
      throw Error(ErrorKind::environment, tensor.name + ": holds values that are not finite")
          .hint("the model file is damaged, its training diverged, or an adapter's alpha or weight is too large");
    take(first, {values.data(), static_cast<size_t>(count * columns)});
    source.file->release(source.index);  // drops pages: later reads come from the file again
  }
}

}  // namespace forge
