#include "core/run/export/write_model.h"


#include <cmath>
#include <map>
#include <set>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/threads.h"
#include "core/lib/io/encode.h"
#include "core/lib/io/json.h"
#include "core/lib/io/safetensors.h"
#include "core/model/families/stored_file.h"

namespace forge {
namespace {

struct Shard {
  std::vector<TensorInfo> tensors;
  int64_t bytes = 0;
};

std::set<std::string> transposed_names(const ModelSpec& spec) {
  std::set<std::string> names;
  for (const Parameter& parameter : base_parameters(spec))
    if (stored_transposed(spec, parameter)) names.insert(parameter.name);
  return names;
}

// Passes a matrix of `model`, or each expert's, transposed, which is its form in the file.
using TakeValues = std::function<void(std::span<const float> values)>;
void read_transposed(const MergedModel& model, size_t index, const TakeValues& take) {
  const TensorInfo& tensor = model.tensors()[index];
  const int64_t rows = tensor.shape[tensor.shape.size() - 2], columns = tensor.shape.back(), size = rows * columns;
  const int64_t row = tensor.count() / tensor.rows();  // elements of a row as read() counts them
  std::vector<float> turned(static_cast<size_t>(tensor.count()));
  model.read(index, 1, [&](int64_t first, std::span<const float> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t at = first * row + static_cast<int64_t>(i), inside = at % size;
      turned[static_cast<size_t>(at - inside + inside % columns * rows + inside / columns)] = values[i];
    }
  });
  take(turned);
}

std::vector<Shard> shards_of(const MergedModel& model, const KeptTensors& kept,
                             const std::set<std::string>& transposed, const WriteOptions& options) {
  std::vector<Shard> shards(1);
  const auto add = [&](TensorInfo tensor) {
    const int64_t bytes = bytes_of(tensor.dtype, tensor.count());
    if (shards.back().bytes > 0 && shards.back().bytes + bytes > options.shard_bytes) shards.emplace_back();
    shards.back().tensors.push_back(std::move(tensor));
    shards.back().bytes += bytes;
  };
  for (const KeptTensors::Tensor& tensor : kept.tensors()) add(tensor.info);
  for (TensorInfo tensor : model.tensors()) {
    if (transposed.count(tensor.name)) std::swap(tensor.shape.back(), tensor.shape[tensor.shape.size() - 2]);
    add({kept.stored_name(tensor.name), tensor.shape, options.dtype});
  }
  return shards;
}

std::string shard_name(size_t number, size_t count) {
  if (count == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, count);
}

}  // namespace

void encode_values(const TensorInfo& tensor, std::span<const float> values,
                   std::vector<char>& bytes, const std::string& prefix) {
  constexpr int64_t kGrain = 4096;  // whole blocks of every type
  constexpr float kPastHalf = 65520;
  if (tensor.dtype == DType::f16)
    for (const float value : values)
      if (std::fabs(value) >= kPastHalf)
        throw Error(ErrorKind::environment, tensor.name + ": holds " + std::to_string(value) + ", past the range of " + prefix + "16")
            .hint("write bf16 or " + prefix + "32");
  const auto count = static_cast<int64_t>(values.size());
  bytes.resize(static_cast<size_t>(bytes_of(tensor.dtype, count)));
  for_each_range(count, kGrain, [&](int64_t begin, int64_t end) {
    encode_from_f32(tensor.dtype, values.data() + begin, end - begin, bytes.data() + bytes_of(tensor.dtype, begin));
  });
}

int64_t bytes_of_model(const MergedModel& model, DType dtype) {
  int64_t bytes = 0;
  for (const TensorInfo& tensor : model.tensors()) bytes += bytes_of(dtype, tensor.count());
  return bytes;
}

void write_weights(const MergedModel& model, const KeptTensors& kept, const WriteOptions& options, const std::string& folder,
                   const Written& written) {
  const std::set<std::string> transposed = transposed_names(model.spec());
  const std::vector<Shard> shards = shards_of(model, kept, transposed, options);
  std::map<std::string, size_t> numbers;  // by the name in the file
  for (size_t i = 0; i < model.tensors().size(); ++i) numbers[kept.stored_name(model.tensors()[i].name)] = i;
  std::map<std::string, std::string_view> kept_bytes;
  for (const KeptTensors::Tensor& tensor : kept.tensors()) kept_bytes[tensor.info.name] = tensor.bytes;
  const auto total = static_cast<double>(bytes_of_model(model, options.dtype) + kept.bytes());
  int64_t done = 0;
  std::vector<char> bytes;
  Json map = Json::object();
  for (size_t s = 0; s < shards.size(); ++s) {
    const std::string name = shard_name(s, shards.size());
    write_safetensors_in_pieces(
        folder + "/" + name, shards[s].tensors, {{"format", "pt"}}, [&](const TensorInfo& tensor, const PieceSink& sink) {
          written(static_cast<double>(done) / total);
          done += bytes_of(tensor.dtype, tensor.count());
          if (const auto found = kept_bytes.find(tensor.name); found != kept_bytes.end()) return sink(found->second);
          const auto write = [&](std::span<const float> values) {
            encode_values(tensor, values, bytes, "fp");
            sink({bytes.data(), bytes.size()});
          };
          const size_t number = numbers.at(tensor.name);
          if (transposed.count(model.tensors()[number].name))
            read_transposed(model, number, write);
          else
            model.read(number, 1, [&](int64_t, std::span<const float> values) { write(values); });
        });
    for (const TensorInfo& tensor : shards[s].tensors) append_member(map, tensor.name, name);
  }
  if (shards.size() > 1)
    write_file_durably(folder + "/model.safetensors.index.json",
                       Json{{"metadata", {{"total_size", static_cast<int64_t>(total)}}}, {"weight_map", map}}.dump(2) + "\n");
  written(1);
}

}  // namespace forge
