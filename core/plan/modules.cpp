#include "core/plan/modules.h"

#include "core/base/text.h"

namespace forge {
namespace {

void add_layer(const ModelSpec& spec, int64_t layer, std::vector<Module>& modules) {
  const int64_t hidden = spec.hidden_size, inner = spec.intermediate_size;
  const int64_t q = spec.num_heads * spec.head_dim, kv = spec.num_kv_heads * spec.head_dim;
  const std::string path = "model.layers." + std::to_string(layer) + ".";
  const auto linear = [&](const char* name, int64_t in, int64_t out, bool bias) {
    modules.push_back({path + name, Role::linear, layer, in, out, bias});
  };
  const auto norm = [&](const char* name) {
    modules.push_back({path + name, Role::norm, layer, hidden, hidden, false});
  };
  linear("self_attn.q_proj", hidden, q, spec.qkv_bias);
  linear("self_attn.k_proj", hidden, kv, spec.qkv_bias);
  linear("self_attn.v_proj", hidden, kv, spec.qkv_bias);
  linear("self_attn.o_proj", q, hidden, spec.o_bias);
  linear("mlp.gate_proj", hidden, inner, spec.mlp_bias);
  linear("mlp.up_proj", hidden, inner, spec.mlp_bias);
  linear("mlp.down_proj", inner, hidden, spec.mlp_bias);
  norm("input_layernorm");
  norm("post_attention_layernorm");
}

}  // namespace

std::vector<Module> modules_of(const ModelSpec& spec) {
  std::vector<Module> modules;
  modules.push_back({"model.embed_tokens", Role::embedding, -1, spec.hidden_size, spec.vocab_size, false});
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) add_layer(spec, layer, modules);
  modules.push_back({"model.norm", Role::norm, -1, spec.hidden_size, spec.hidden_size, false});
  modules.push_back({"lm_head", Role::head, -1, spec.hidden_size, spec.vocab_size, false});
  return modules;
}

std::vector<Module> saved_modules(const ModelSpec& spec, const AdapterConfig& adapter) {
  std::vector<Module> saved;
  std::vector<bool> used(adapter.modules_to_save.size(), false);
  for (const Module& module : modules_of(spec)) {
    bool wanted = false;
    for (size_t i = 0; i < adapter.modules_to_save.size(); ++i) {
      if (!ends_with(module.path, adapter.modules_to_save[i])) continue;
      used[i] = wanted = true;
    }
    if (wanted) saved.push_back(module);
  }
  std::vector<std::string> unknown;
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i]) unknown.push_back('"' + adapter.modules_to_save[i] + '"');
  if (unknown.empty()) return saved;
  throw Error(ErrorKind::job,
              "adapter.modules_to_save: " + join(unknown, ", ") + " names no module of this model")
      .hint(
          "modules with weights are embed_tokens, lm_head, norm, and those of a layer such as q_proj or "
          "input_layernorm");
}

}  // namespace forge
