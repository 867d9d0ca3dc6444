#include "core/plan/files/model_file.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/lib/base/text.h"
#include "core/model/families/config_keys.h"
#include "core/model/families/family.h"
#include "core/model/families/modules.h"
#include "core/model/families/stored_file.h"
#include "core/model/families/wrapper.h"

namespace forge {
namespace {

bool computed_anyway(const ModelSpec& spec, const std::string& name) {
  const ConfigKeys* keys = find_config_keys(family_of(spec).name);
  return (keys && ignored_tensor(*keys, name)) || ends_with(name, ".inv_freq") ||
         ends_with(name, ".masked_bias");
}

// True for tensors of an encoder-decoder that are not parameters: further copies of its table, as
// files of older tools hold it; BART's bias of the logits; and T5's bias by distance of a layer
// that has none.
bool of_both_stacks(const ModelSpec& spec, const std::string& name) {
  return spec.reads_source() && (ends_with(name, "encoder.embed_tokens.weight") || ends_with(name, "decoder.embed_tokens.weight") ||
                                 name == kLogitsBias || ends_with(name, "EncDecAttention.relative_attention_bias.weight"));
}

// True for DeepSeek-V3's prediction of the token after the next, which training leaves out as
// transformers does.
bool of_further_layer(const ModelSpec& spec, const std::string& name) {
  const std::string prefix = outer_modules(spec).layers;
  if (!family_of(spec).further_layers || !starts_with(name, prefix)) return false;
  return std::atoll(name.c_str() + prefix.size()) >= spec.num_layers;
}

// Returns the tower that a file of a class with towers must have and lacks; else an empty text.
std::string missing_tower(const ModelSpec& spec, const TensorFile& file) {
  const Wrapper* wrapper = wrapper_of(spec);
  if (!wrapper) return "";
  const std::string tower = wrapper->towers.front();
  const bool held = std::ranges::any_of(file.tensors(), [&](const TensorInfo& tensor) {
    return of_towers(spec, tensor.name) && ("." + tensor.name).find("." + tower + ".") != std::string::npos;
  });
  return held ? "" : tower;
}

// True for a bias of zeros beside a matrix in codes: older quantisers wrote one for every layer.
bool of_quantiser(const TensorFile& file, size_t index) {
  constexpr std::string_view kBias = ".bias";
  const TensorInfo& tensor = file.tensors()[index];
  if (!ends_with(tensor.name, kBias) || file.data_missing()) return false;
  const int64_t weight =
      file.find(tensor.name.substr(0, tensor.name.size() - kBias.size()) + ".weight");
  if (weight < 0 || file.bytes_are_values(static_cast<size_t>(weight))) return false;
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  file.read_f32(index, values.data());
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

// Adds the first few of many similar faults, so that the report for a file of another model stays
// readable.
void add_some(const std::vector<std::string>& faults, std::vector<std::string>& all) {
  constexpr size_t kShown = 20;
  for (size_t i = 0; i < faults.size() && i < kShown; ++i) all.push_back(faults[i]);
  if (faults.size() > kShown)
    all.push_back("… and " + std::to_string(faults.size() - kShown) + " more of this kind");
}

}  // namespace

void check_model_file(const ModelSpec& spec, const TensorFile& file, const std::string& path) {
  std::map<std::string, std::vector<int64_t>> wanted;
  for (const Parameter& parameter : base_parameters(spec)) wanted[parameter.name] = parameter.shape;
  if (starts_score_head(spec)) wanted.erase(head_name(spec));
  const auto shown = [&](const std::string& name) { return with_stored_ending(family_of(spec).stored_names, name); };
  std::vector<std::string> wrong, extra, missing;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const TensorInfo& tensor = file.tensors()[i];
    const auto found = wanted.find(tensor.name);
    if (found == wanted.end()) {
      const bool other_head = ((spec.tie_word_embeddings || spec.score_head) && tensor.name == logits_head_name(spec)) ||
                              (spec.score_head && tensor.name == head_bias_name(spec));
      if (!other_head && !of_towers(spec, tensor.name) && !computed_anyway(spec, tensor.name) &&
          !of_both_stacks(spec, tensor.name) && !of_further_layer(spec, tensor.name) &&
          !of_quantiser(file, i))
        extra.push_back(path + ": tensor " + tensor.name + " is not part of a " + spec.architecture +
                        " with these settings");
      continue;
    }
    if (tensor.shape != found->second)
      wrong.push_back(path + ": tensor " + shown(tensor.name) + " has shape " +
                      format_shape(tensor.shape) + ", expected " + format_shape(found->second));
    wanted.erase(found);
  }
  if (const std::string tower = missing_tower(spec, file); !tower.empty())
    missing.push_back(path + ": no tensor of " + tower + ", which a " + spec.architecture + " has beside its language model");
  for (const auto& [name, shape] : wanted)
    missing.push_back(path + ": tensor " + shown(name) + " " + format_shape(shape) + " is missing");
  std::vector<std::string> faults;
  add_some(wrong, faults);
  add_some(missing, faults);
  add_some(extra, faults);
  if (!faults.empty())
    throw Error(ErrorKind::environment, join(faults, "\n"))
        .hint("the weights and config.json belong to different models");
}

void refuse_another_head(const ModelSpec& spec, const TensorFile& file, const std::string& path) {
  if (const int64_t bias = file.find(kLogitsBias); spec.reads_source() && bias >= 0) {
    std::vector<float> values(static_cast<size_t>(file.tensors()[static_cast<size_t>(bias)].count()));
    file.read_f32(static_cast<size_t>(bias), values.data());
    if (std::any_of(values.begin(), values.end(), [](float value) { return value != 0; }))
      throw Error(ErrorKind::environment, path + ": " + kLogitsBias + " is not zero, and forge adds nothing to the logits")
          .hint("published checkpoints hold zeros there");
  }
  const int64_t head = file.find(head_name(spec)), embedding = file.find(embedding_name(spec));
  if (!spec.tie_word_embeddings || head < 0 || embedding < 0) return;
  if (file.bytes(static_cast<size_t>(head)) == file.bytes(static_cast<size_t>(embedding))) return;
  throw Error(ErrorKind::environment, path + ": config.json ties the head to the embedding (tie_word_embeddings), but "
                                             "the file holds two that differ")
      .hint("set tie_word_embeddings: false if the file's " + head_name(spec) + " is to be used, or remove that tensor");
}

}  // namespace forge
