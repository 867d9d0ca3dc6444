#include "core/plan/machine/rate_models.h"

#include "core/model/families/config_spec.h"

namespace forge {
namespace {

struct Shape {
  int64_t hidden, intermediate, heads, kv_heads, head_dim, vocabulary, tokens, length;
};
// Rows of 128 to 2,048, widths of 256 to 2,048, lengths of 32 to 1,024.
constexpr Shape kLlamas[] = {
    {256, 704, 4, 2, 64, 8192, 256, 32},        {256, 704, 4, 2, 64, 32000, 2048, 256},
    {576, 1536, 9, 3, 64, 49152, 256, 64},      {576, 1536, 9, 3, 64, 49152, 1024, 128},
    {576, 1536, 9, 3, 64, 8192, 2048, 1024},    {1024, 2816, 16, 8, 64, 32000, 512, 256},
    {1024, 3072, 8, 2, 128, 8192, 1024, 512},   {2048, 5632, 16, 4, 128, 8192, 256, 128},
    {896, 4864, 14, 2, 64, 32000, 1024, 64},    {128, 344, 4, 4, 32, 2048, 1024, 64},
};
// Shapes for families that have ops of their own.
constexpr Shape kOthers[] = {{256, 1024, 4, 4, 64, 8192, 512, 64}, {768, 3072, 12, 12, 64, 32000, 1024, 256}};

constexpr RateAdapter kLora[] = {RateAdapter::lora}, kLoraAndDora[] = {RateAdapter::lora, RateAdapter::dora};

// Returns a model of two layers. With one layer, the backward would compute no gradient of its
// input; a window and a full view take turns.
RateModel model(const char* architecture, const Shape& s, Json more = Json::object()) {
  Json config{{"architectures", {architecture}},
              {"vocab_size", s.vocabulary},
              {"hidden_size", s.hidden},
              {"intermediate_size", s.intermediate},
              {"num_hidden_layers", 2},
              {"num_attention_heads", s.heads},
              {"num_key_value_heads", s.kv_heads},
              {"head_dim", s.head_dim},
              {"max_position_embeddings", 2048},
              {"tie_word_embeddings", true}};
  for (const auto& [key, value] : more.items())
    if (value.is_null())
      config.erase(key);
    else
      config[key] = value;
  return {model_spec_from_config(config, architecture), s.tokens, s.length};
}

std::vector<RateModel> all_models() {
  std::vector<RateModel> models;
  for (const Shape& s : kLlamas) models.push_back(model("LlamaForCausalLM", s));
  for (const Shape& s : kOthers) {
    models.push_back(model("Gemma2ForCausalLM", s, {{"sliding_window", 1024}, {"query_pre_attn_scalar", s.head_dim}}));
    models.push_back(model("GPTNeoXForCausalLM", s, {{"head_dim", nullptr}, {"num_key_value_heads", nullptr}}));
    models.push_back(model("Starcoder2ForCausalLM", s, {{"head_dim", nullptr}}));
    models.push_back(model("GraniteForCausalLM", s, {{"head_dim", nullptr}, {"residual_multiplier", 0.22}}));
    models.push_back(model("Qwen2MoeForCausalLM", s,
                           {{"head_dim", nullptr},
                            {"num_experts", 8},
                            {"num_experts_per_tok", 2},
                            {"moe_intermediate_size", s.intermediate / 4},
                            {"shared_expert_intermediate_size", s.intermediate / 4}}));
    models.push_back(model("GptOssForCausalLM", s,
                           {{"intermediate_size", s.intermediate / 4},
                            {"num_local_experts", 8},
                            {"num_experts_per_tok", 2},
                            {"sliding_window", 1024}}));
    models.push_back(model("Llama4ForCausalLM", s,
                           {{"intermediate_size", s.intermediate / 4}, {"intermediate_size_mlp", s.intermediate}, {"num_local_experts", 8}}));
    models.push_back(model("Qwen3NextForCausalLM", s,
                           {{"layer_types", {"linear_attention", "full_attention"}},
                            {"linear_num_key_heads", s.heads},
                            {"linear_num_value_heads", 2 * s.heads},
                            {"linear_key_head_dim", s.head_dim},
                            {"linear_value_head_dim", s.head_dim},
                            {"num_experts", 8},
                            {"num_experts_per_tok", 2},
                            {"moe_intermediate_size", s.intermediate / 4},
                            {"shared_expert_intermediate_size", s.intermediate / 4}}));
    models.push_back(model("FalconH1ForCausalLM", s,
                           {{"mamba_d_ssm", s.hidden},
                            {"mamba_n_heads", s.heads},
                            {"mamba_d_head", s.hidden / s.heads},
                            {"mamba_d_state", s.head_dim},
                            {"mamba_rms_norm", true},
                            {"ssm_multipliers", {0.5, 0.5, 0.5, 0.5, 0.5}}}));
    models.push_back(model("Lfm2ForCausalLM", s, {{"head_dim", nullptr}, {"layer_types", {"conv", "full_attention"}}}));
    models.push_back(model("Gemma4ForCausalLM", s,
                           {{"global_head_dim", s.head_dim},
                            {"hidden_size_per_layer_input", 0},
                            {"enable_moe_block", true},
                            {"moe_intermediate_size", s.intermediate / 4},
                            {"num_experts", 8},
                            {"top_k_experts", 2}}));
    models.push_back(model("DeepseekV3ForCausalLM", s,
                           {{"head_dim", nullptr},
                            {"q_lora_rank", s.hidden / 4},
                            {"kv_lora_rank", s.hidden / 4},
                            {"qk_nope_head_dim", s.head_dim / 2},
                            {"qk_rope_head_dim", s.head_dim / 2},
                            {"v_head_dim", s.head_dim / 2},
                            {"first_k_dense_replace", 1},
                            {"moe_intermediate_size", s.intermediate / 4},
                            {"n_routed_experts", 8},
                            {"num_experts_per_tok", 2},
                            {"n_group", 4},
                            {"topk_group", 2}}));
  }
  return models;
}

}  // namespace

const std::vector<RateModel>& rate_models() {
  static const std::vector<RateModel> models = all_models();
  return models;
}

std::span<const RateAdapter> rate_adapters(const RateModel& model) {
  constexpr int64_t kDoraWidth = 256;  // the op's cost is that of its bytes: one width is enough
  const bool takes_dora = model.spec.num_experts == 0;  // fused has none of single experts
  if (model.spec.hidden_size == kDoraWidth && takes_dora) return kLoraAndDora;
  return kLora;
}

AdapterConfig adapter_config(RateAdapter adapter) {
  AdapterConfig config;
  config.type = adapter == RateAdapter::none ? AdapterType::none : AdapterType::lora;
  config.rank = 16;
  config.use_dora = adapter == RateAdapter::dora;
  return config;
}

}  // namespace forge
