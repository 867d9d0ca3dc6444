#include "core/model/model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/plan/parameters.h"
#include "core/tensor/dtype.h"

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

at::Tensor embed(const Model& model, const at::Tensor& token_ids) {
  return at::embedding(model.embedding, token_ids).to(model.type);
}

at::Tensor head_weight(const Model& model) { return model.head.to(model.type); }

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

namespace {

QuantizeOptions options_of(const BaseStorage& storage) {
  const QuantizedFormat format = storage.quantization == Quantization::nf4   ? QuantizedFormat::nf4
                                 : storage.quantization == Quantization::fp4 ? QuantizedFormat::fp4
                                                                             : QuantizedFormat::int8;
  return {.format = format, .nested = storage.double_quantization};
}

// What of the base is held otherwise than in the compute type, by name.
struct Held {
  std::set<std::string> quantized, frozen;
};

Held held_names(const BaseStorage& storage) {
  Held held;
  for (const Parameter& parameter : storage.parameters) {
    if (parameter.quantized && storage.quantization != Quantization::none)
      held.quantized.insert(parameter.name);
    else if (storage.frozen && !parameter.trainable && parameter.shape.size() == 2)
      held.frozen.insert(parameter.name);
  }
  // A trained copy starts from the exact values.
  for (const Parameter& parameter : storage.parameters)
    if (parameter.trainable) held.frozen.erase(base_name(parameter));
  return held;
}

// A tensor of the file as it is held.
struct Loaded {
  at::Tensor plain;
  QuantizedWeight quantized;
};

at::Tensor narrowed(const at::Tensor& wide, const std::string& name, c10::ScalarType type, c10::Device device) {
  at::Tensor held = wide.to(type);
  if (!all_finite(held.to(at::kFloat)) && all_finite(wide))
    throw Error(ErrorKind::environment,
                name + ": holds a value past the range of " + name_of(dtype_of(type)) + ", in which weights are stored here")
        .hint("quantise the base (model.quantization: nf4), which scales every block");
  return held.to(device);
}

Loaded load_tensor(const TensorFile& file, const Parameter& parameter, c10::ScalarType type, c10::Device device,
                   const Held& held, const BaseStorage& storage) {
  const int64_t index = file.find(parameter.name);
  if (index < 0) throw Error(ErrorKind::environment, "the model has no tensor " + parameter.name);
  at::Tensor wide = at::empty(parameter.shape, at::kFloat);
  file.read_f32(static_cast<size_t>(index), wide.data_ptr<float>());
  if (held.frozen.count(parameter.name)) return {.plain = narrowed(wide, parameter.name, *storage.frozen, device)};
  if (!held.quantized.count(parameter.name)) return {.plain = wide.to(device, type)};
  if (!all_finite(wide))
    throw Error(ErrorKind::environment,
                parameter.name + ": holds a value that is not finite, and cannot be quantised")
        .hint("the model file is damaged, or its training diverged");
  return {.quantized = to_device(quantize(wide, options_of(storage)), device)};
}

}  // namespace

Model load_model(const ModelSpec& spec, const TensorFile& file, c10::ScalarType type, c10::Device device,
                 const BaseStorage& storage) {
  Model model{.spec = spec, .type = type, .device = device};
  model.layers.resize(static_cast<size_t>(spec.num_layers));
  const std::vector<Parameter> parameters = base_parameters(spec);
  const Held held = held_names(storage);
  std::vector<Loaded> loaded(parameters.size());
  // Decoding block types, converting and quantising cost more than reading: one tensor per task.
  at::parallel_for(0, static_cast<int64_t>(parameters.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t at = static_cast<size_t>(i);
      loaded[at] = load_tensor(file, parameters[at], type, device, held, storage);
    }
  });
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    if (loaded[i].plain.defined())
      *find_weight(model, name) = loaded[i].plain;
    else
      find_linear(model, name.substr(0, name.rfind('.')))->quantized = loaded[i].quantized;
  }
  if (!model.head.defined()) model.head = model.embedding;
  return model;
}

}  // namespace forge
