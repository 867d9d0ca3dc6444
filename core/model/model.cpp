#include "core/model/model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/parameters.h"

namespace forge {

const std::vector<NamedLinear>& layer_linears() {
  static const std::vector<NamedLinear> kLinears{
      {"self_attn.q_proj", &LayerWeights::q_proj}, {"self_attn.k_proj", &LayerWeights::k_proj},
      {"self_attn.v_proj", &LayerWeights::v_proj}, {"self_attn.o_proj", &LayerWeights::o_proj},
      {"mlp.gate_proj", &LayerWeights::gate_proj}, {"mlp.up_proj", &LayerWeights::up_proj},
      {"mlp.down_proj", &LayerWeights::down_proj}};
  return kLinears;
}

namespace {

// "model.layers.12.self_attn.q_proj" → layer 12 and "self_attn.q_proj"; layer -1 when it is not in a layer.
std::pair<int64_t, std::string> split_layer(const std::string& name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!starts_with(name, kPrefix)) return {-1, name};
  size_t dot = name.find('.', kPrefix.size());
  if (dot == std::string::npos) return {-1, name};
  return {std::stoll(name.substr(kPrefix.size(), dot - kPrefix.size())), name.substr(dot + 1)};
}

LayerWeights* find_layer(Model& model, int64_t layer) {
  if (layer < 0 || layer >= static_cast<int64_t>(model.layers.size())) return nullptr;
  return &model.layers[static_cast<size_t>(layer)];
}

}  // namespace

LinearSpec* find_linear(Model& model, const std::string& module) {
  auto [layer, rest] = split_layer(module);
  LayerWeights* weights = find_layer(model, layer);
  if (!weights) return nullptr;
  for (const NamedLinear& linear : layer_linears())
    if (rest == linear.module) return &(weights->*linear.member);
  return nullptr;
}

at::Tensor* find_weight(Model& model, const std::string& name) {
  if (name == "model.embed_tokens.weight") return &model.embedding;
  if (name == "model.norm.weight") return &model.final_norm;
  if (name == "lm_head.weight") return &model.head;
  auto [layer, rest] = split_layer(name);
  LayerWeights* weights = find_layer(model, layer);
  if (!weights) return nullptr;
  if (rest == "input_layernorm.weight") return &weights->input_norm;
  if (rest == "post_attention_layernorm.weight") return &weights->post_attention_norm;
  size_t dot = name.rfind('.');
  LinearSpec* linear = find_linear(model, name.substr(0, dot));
  if (!linear) return nullptr;
  if (ends_with(name, ".weight")) return &linear->weight;
  return ends_with(name, ".bias") ? &linear->bias : nullptr;
}

Model load_model(const ModelSpec& spec, const TensorFile& file, c10::ScalarType type, c10::Device device) {
  Model model{.spec = spec, .type = type, .device = device};
  model.layers.resize(static_cast<size_t>(spec.num_layers));
  std::vector<Parameter> parameters = base_parameters(spec);
  std::vector<at::Tensor> tensors(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i)
    tensors[i] = at::empty(parameters[i].shape, at::TensorOptions().dtype(type).device(device));
  // Decoding block types and converting costs more than reading: one tensor per task.
  at::parallel_for(0, static_cast<int64_t>(parameters.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t index = file.find(parameters[i].name);
      if (index < 0) throw Error(ErrorKind::environment, "the model has no tensor " + parameters[i].name);
      if (type == at::kFloat && device.is_cpu()) {
        file.read_f32(static_cast<size_t>(index), tensors[i].data_ptr<float>());
        continue;
      }
      at::Tensor wide = at::empty(parameters[i].shape, at::kFloat);
      file.read_f32(static_cast<size_t>(index), wide.data_ptr<float>());
      tensors[i].copy_(wide);
    }
  });
  for (size_t i = 0; i < parameters.size(); ++i) *find_weight(model, parameters[i].name) = tensors[i];
  if (!model.head.defined()) model.head = model.embedding;
  return model;
}

}  // namespace forge
