#include "core/run/export/gguf_model.h"

#include <map>
#include <vector>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/gguf.h"
#include "core/lib/io/gguf_names.h"
#include "core/model/families/wrapper.h"
#include "core/run/export/gguf_metadata.h"
#include "core/lib/io/gguf_tensors.h"
#include "core/lib/io/json.h"
#include "core/lib/io/safetensors.h"
#include "core/model/families/adapter_folder.h"

namespace forge {
namespace {

constexpr std::string_view kLoraA = ".lora_a", kLoraB = ".lora_b";

std::vector<float> values_of(const Gguf& gguf, const GgufTensor& tensor) {
  const std::string_view bytes = gguf.bytes(tensor);
  std::vector<float> values(static_cast<size_t>(tensor.shape[0] * tensor.shape[1]));
  decode_to_f32(tensor.dtype, bytes.data(), static_cast<int64_t>(values.size()), values.data());
  return values;
}

// Returns B's rows in Hugging Face's order, multiplied by the scale that llama.cpp gives the
// product: alpha / rank, or 1 for an alpha of 0.
std::vector<float> rows_by_scale(const std::vector<float>& file, int64_t rows, int64_t rank, const GgufRows& order, double alpha) {
  const auto scale = static_cast<float>(alpha != 0 ? alpha / static_cast<double>(rank) : 1);
  std::vector<float> values(file.size());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t from = order.head_rows > 0 ? order.file_row(row) : row;
    for (int64_t i = 0; i < rank; ++i)
      values[static_cast<size_t>(row * rank + i)] = scale * file[static_cast<size_t>(from * rank + i)];
  }
  return values;
}

// Returns A's columns in Hugging Face's order.
std::vector<float> columns_in_order(const std::vector<float>& file, int64_t columns, const GgufRows& order) {
  if (order.head_rows == 0) return file;
  std::vector<float> values(file.size());
  for (size_t row = 0; row < file.size(); row += static_cast<size_t>(columns))
    for (int64_t i = 0; i < columns; ++i) values[row + static_cast<size_t>(i)] = file[row + static_cast<size_t>(order.file_row(i))];
  return values;
}

}  // namespace

void write_adapter_of_gguf(const std::string& path, const ModelSpec& spec, const std::string& folder) {
  const Gguf gguf(path);
  const GgufArchitecture* architecture = gguf_architecture(gguf.architecture());
  const double alpha = gguf.require_number("adapter.lora.alpha");
  Json targets = Json::array(), ranks = Json::object();
  std::map<std::string, std::vector<float>> values;
  std::vector<SafetensorsEntry> entries;
  for (const GgufTensor& tensor : gguf.tensors()) {
    const bool a = ends_with(tensor.name, kLoraA), b = ends_with(tensor.name, kLoraB);
    const GgufName target = architecture ? hugging_face_name(*architecture, tensor.name.substr(0, tensor.name.size() - kLoraA.size())) : GgufName();
    if ((!a && !b) || !ends_with(target.name, ".weight") || tensor.shape.size() != 2)
      throw Error(ErrorKind::environment, path + ": tensor " + tensor.name + " is not a factor of a layer");
    const std::string module = wrapped_name(spec, target.name.substr(0, target.name.size() - std::string_view(".weight").size()));
    const int64_t rank = tensor.shape[a ? 0 : 1];
    std::vector<float> factor = values_of(gguf, tensor);
    if (b)
      factor = rows_by_scale(factor, tensor.shape[0], rank, gguf_rows(*architecture, target.role, tensor.shape[0], gguf_heads_of(spec)), alpha);
    else
      factor = columns_in_order(factor, tensor.shape[1], gguf_columns(*architecture, target.role, tensor.shape[1], gguf_heads_of(spec)));
    if (a) targets.push_back(module), ranks[module] = rank;
    const std::string name = peft_name(module + (a ? ".lora_A.weight" : ".lora_B.weight"));
    const std::vector<float>& kept = values[name] = std::move(factor);
    entries.push_back({{name, tensor.shape, DType::f32},
                       {reinterpret_cast<const char*>(kept.data()), kept.size() * sizeof(float)}});
  }
  const Json config{{"peft_type", "LORA"}, {"r", 1}, {"lora_alpha", 1}, {"target_modules", targets}, {"rank_pattern", ranks}, {"alpha_pattern", ranks}};
  write_file_durably(folder + "/adapter_config.json", dump_json(config));
  write_safetensors(folder + "/adapter_model.safetensors", entries, {{"format", "pt"}});
}

}  // namespace forge
