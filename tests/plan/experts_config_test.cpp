// Tests config.json of families with experts: what their published forms say in another way, and
// what is refused, by its key.
#include <cmath>

#include "core/lib/base/file.h"
#include "core/lib/io/gguf_names.h"
#include "core/lib/io/python_json.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/modules.h"
#include "core/model/families/parameters.h"
#include "tests/test.h"

namespace forge {
namespace {

Json published(const std::string& name, const Json& more = Json::object()) {
  const std::string path =
      std::string(FORGE_SOURCE_DIR) + "/tests/plan/published/" + name + ".json";
  Json config = parse_python_json(read_file(path, 1 << 22, ErrorKind::internal), path);
  config.update(more);
  return config;
}

ModelSpec spec_with(const std::string& name, const Json& more = Json::object()) {
  return model_spec_from_config(published(name, more), "c");
}

// Returns the fault of a published config.json with other settings, or "no error".
std::string fault_of(const std::string& name, const Json& more) {
  return error_of([&] { spec_with(name, more); });
}

}  // namespace

TEST_CASE("settings of experts that forge does not compute are refused by their keys") {
  using Catch::Contains;
  CHECK_THAT(fault_of("OLMoE-1B-7B-0924", {{"clip_qkv", 8.0}}), Contains("clip_qkv"));
  CHECK_THAT(fault_of("OLMoE-1B-7B-0924", {{"head_dim", 64}}), Contains("head_dim"));
  CHECK_THAT(fault_of("OLMoE-1B-7B-0924", {{"num_experts_per_tok", 65}}),
             Contains("more than the number of experts, 64"));
  CHECK_THAT(fault_of("ERNIE-4.5-21B-A3B-PT", {{"use_bias", true}}), Contains("use_bias is true"));
  CHECK_THAT(fault_of("ERNIE-4.5-21B-A3B-PT", {{"moe_norm_min", 0.5}}),
             Contains("moe_norm_min is 0.5"));
  CHECK_THAT(fault_of("ERNIE-4.5-21B-A3B-PT", {{"output_router_logits", true}}),
             Contains("output_router_logits is true"));
  CHECK_THAT(fault_of("MiniMax-M2.7", {{"router_jitter_noise", 0.1}}),
             Contains("router_jitter_noise is 0.1"));
  CHECK_THAT(fault_of("MiniMax-M2.7", {{"rotary_dim", 129}}), Contains("rotary_dim is 129"));
  CHECK_THAT(fault_of("MiniMax-M2.7", {{"rotary_dim", 63}}), Contains("not an even number"));
  CHECK_THAT(fault_of("MiniMax-M2.7", {{"partial_rotary_factor", 0.25}}),
             Contains("rotary_dim is 64, and partial_rotary_factor turns 32 features"));
  CHECK_THAT(fault_of("dots.llm1.inst", {{"n_group", 3}}),
             Contains("n_group does not divide the experts"));
  CHECK_THAT(fault_of("dots.llm1.inst", {{"n_group", 128}, {"topk_group", 128}}),
             Contains("fewer than two experts to a group"));
  CHECK_THAT(fault_of("deepseek-moe-16b", {{"scoring_func", "sigmoid"}}),
             Contains("scoring_func is \"sigmoid\""));
  CHECK_THAT(fault_of("deepseek-moe-16b", {{"moe_layer_freq", 2}}),
             Contains("moe_layer_freq is 2"));
  CHECK_THAT(fault_of("granite-3.0-1b-a400m-instruct", {{"num_local_experts", 0}}),
             Contains("num_local_experts is 0"));
  CHECK_THAT(fault_of("granite-4.0-h-tiny", {{"num_experts_per_tok", 65}}),
             Contains("more than the number of experts, 64"));
  CHECK_THAT(fault_of("granite-4.0-h-tiny", {{"output_router_logits", true}}),
             Contains("output_router_logits is true"));
}

TEST_CASE("Mistral Small 4's positions must say what its heads are") {
  const auto fault_with = [](const char* key, const Json& value) {
    Json text = published("Mistral-Small-4-119B-2603").at("text_config");
    text["rope_parameters"][key] = value;
    return error_of([&] { model_spec_from_config(text, "c"); });
  };
  CHECK(fault_with("partial_rotary_factor", 0.5) == "no error");
  CHECK_THAT(fault_with("partial_rotary_factor", 0.25),
             Catch::Contains("rope_parameters.partial_rotary_factor is 0.25, and qk_rope_head_dim "
                             "is 0.5 of a head"));
  Json silent = published("Mistral-Small-4-119B-2603").at("text_config");
  silent.erase("rope_parameters");
  const ModelSpec spec = model_spec_from_config(silent, "c");
  CHECK((spec.rope.factor == 128 && spec.query_growth == 0.1));
  CHECK(spec.query_growth_period == 8192);
  silent["rope_theta"] = 20000.0;
  CHECK_THAT(error_of([&] { model_spec_from_config(silent, "c"); }),
             Catch::Contains("rope_theta is 20000"));
}

TEST_CASE("MPT's attention is refused where transformers computes another than its authors") {
  const auto fault_with = [](const char* key, const Json& value) {
    Json config = published("mpt-7b");
    config["attn_config"][key] = value;
    return error_of([&] { model_spec_from_config(config, "c"); });
  };
  const std::pair<const char*, Json> refused[]{
      {"alibi", false},     {"alibi_bias_max", 16}, {"qk_ln", true},
      {"prefix_lm", true},  {"attn_pdrop", 0.1},    {"attn_type", "multiquery_attention"}};
  for (const auto& [key, value] : refused)
    CHECK_THAT(fault_with(key, value), Catch::Contains(std::string("attn_config: ") + key + " is "));
  CHECK_THAT(fault_with("clip_qkv", -1), Catch::Contains("clip_qkv is -1"));
  for (const auto& [key, value] : {std::pair("expansion_ratio", Json(2)), {"no_bias", false}})
    CHECK_THAT(fault_of("mpt-7b", {{key, value}}), Catch::Contains(std::string(key) + " is "));
  CHECK_THAT(fault_of("mpt-7b", {{"attn_config", 3}}), Catch::Contains("attn_config is not an object"));
}

TEST_CASE("ERNIE's range of layers with experts says which have an MLP") {
  const Json range{{"num_hidden_layers", 8},
                   {"moe_layer_start_index", 2},
                   {"moe_layer_end_index", 6},
                   {"moe_layer_interval", 2}};
  CHECK(spec_with("ERNIE-4.5-21B-A3B-PT", range).dense_layers ==
        std::vector<int64_t>{0, 1, 2, 4, 6, 7});
  CHECK(spec_with("ERNIE-4.5-21B-A3B-PT", {{"moe_layer_end_index", -1}}).dense_layers ==
        std::vector<int64_t>{0});
  // The correction is a matrix of one row in the files, and never trained.
  for (const Parameter& parameter : base_parameters(spec_with("ERNIE-4.5-21B-A3B-PT")))
    if (parameter.name == "model.layers.1.mlp.moe_statics.e_score_correction_bias") {
      CHECK(parameter.shape == std::vector<int64_t>{1, 64});
      CHECK(parameter.constant);
    }
}

TEST_CASE("MiniMax's rotary_dim turns so many features, whatever the width of a head") {
  CHECK(spec_with("MiniMax-M2.7").rotary_dim() == 64);
  for (int64_t head_dim = 2; head_dim <= 256; head_dim += 2)
    for (int64_t turned = 2; turned <= head_dim; turned += 2)
      REQUIRE(spec_with("MiniMax-M2.7", {{"head_dim", head_dim}, {"rotary_dim", turned}})
                  .rotary_dim() == turned);
}

TEST_CASE("Hunyuan's alpha raises the base of the angles") {
  const ModelSpec spec = spec_with("Hunyuan-A13B-Instruct");
  CHECK(spec.rope.type == RopeType::standard);
  CHECK(spec.rope.theta == Approx(1e4 * std::pow(1000.0, 128.0 / 126)));
  CHECK(spec.experts_per_token == 8);
  // Other families scale dynamically by the factor alone.
  CHECK(spec_with("CodeLlama-7b-hf",
                  {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}, {"alpha", 1000.0}}}})
            .rope.type == RopeType::dynamic);
  using Catch::Contains;
  std::vector<int64_t> counts(32, 8);
  CHECK(fault_of("Hunyuan-A13B-Instruct", {{"moe_topk", counts}}) == "no error");
  counts[7] = 4;
  CHECK_THAT(fault_of("Hunyuan-A13B-Instruct", {{"moe_topk", counts}}),
             Contains("moe_topk differs between layers"));
  counts.pop_back();
  CHECK_THAT(fault_of("Hunyuan-A13B-Instruct", {{"moe_topk", counts}}),
             Contains("moe_topk is not a list of num_hidden_layers numbers"));
  CHECK_THAT(fault_of("Hunyuan-A13B-Instruct", {{"moe_topk", {8, "eight"}}}), Contains("moe_topk"));
  CHECK_THAT(fault_of("Hunyuan-A13B-Instruct",
                      {{"rope_scaling", {{"type", "dynamic"}, {"alpha", -1}, {"factor", 1.0}}}}),
             Contains("alpha is -1"));
}

TEST_CASE("an indexer limits the length of texts, and its tensors are not trained") {
  const ModelSpec spec = spec_with("DeepSeek-V3.2");
  CHECK(spec.index_topk == 2048);
  CHECK(spec.max_position_embeddings == 2048);
  CHECK(spec_with("GLM-5", {{"index_topk", 1 << 20}}).max_position_embeddings == 202752);
  int64_t held = 0;
  for (const Parameter& parameter :
       run_parameters(spec, {.type = AdapterType::none}, Quantization::none))
    if (parameter.name.find(".indexer.") != std::string::npos) {
      INFO(parameter.name);
      CHECK_FALSE(parameter.trainable);
      CHECK_FALSE(parameter.quantizable);
      ++held;
    }
  CHECK(held == 61 * 5);
  for (const ModuleUse& module : modules_of(spec))
    if (module.path.find(".indexer.") != std::string::npos) CHECK_FALSE(adaptable(module));
  // GLM-5.2 has an indexer in the first three layers and in every fourth after them.
  const ModelSpec shared = spec_with("GLM-5.2");
  CHECK(shared.shared_index_layers.size() == 78 - 3 - 18);
  Json config = published("GLM-5.2");
  config.erase("indexer_types");
  CHECK(model_spec_from_config(config, "c").shared_index_layers == shared.shared_index_layers);
  using Catch::Contains;
  CHECK_THAT(fault_of("GLM-5.2", {{"indexer_types", {"full"}}}),
             Contains("indexer_types does not say"));
  CHECK_THAT(fault_of("GLM-5", {{"index_skip_topk_offset", -1}, {"index_topk_freq", 4}}),
             Contains("beginning with full"));
  CHECK_THAT(fault_of("GLM-5", {{"q_lora_rank", nullptr}}), Contains("q_lora_rank is null"));
  CHECK_THAT(fault_of("GLM-5", {{"index_head_dim", 32}}), Contains("index_head_dim is less than"));
  CHECK_THAT(fault_of("DeepSeek-V3.2", {{"mlp_layer_types", {"dense"}}}),
             Contains("mlp_layer_types is not a list of num_hidden_layers names"));
  CHECK_THAT(fault_of("DeepSeek-V3.2", {{"layer_types", {"full_attention"}}}),
             Contains("layer_types has other names"));
}

TEST_CASE("tensors of experts have their names in a GGUF, both ways") {
  const auto both = [](const char* architecture, const std::string& gguf, const std::string& name) {
    const GgufArchitecture& known = *gguf_architecture(architecture);
    INFO(architecture << " " << gguf);
    CHECK(hugging_face_name(known, gguf).name == name);
    CHECK(gguf_name(known, name) == gguf);
  };
  both("glm4moe", "blk.3.exp_probs_b.bias", "model.layers.3.mlp.gate.e_score_correction_bias");
  both("glm4moe", "blk.3.post_attention_norm.weight",
       "model.layers.3.post_attention_layernorm.weight");
  both("dots1", "blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight");
  both("minimax-m2", "blk.0.exp_probs_b.bias",
       "model.layers.0.block_sparse_moe.e_score_correction_bias");
  both("ernie4_5-moe", "blk.0.exp_probs_b.bias",
       "model.layers.0.mlp.moe_statics.e_score_correction_bias");
  both("hunyuan-moe", "blk.0.attn_q_norm.weight",
       "model.layers.0.self_attn.query_layernorm.weight");
  both("granitemoe", "blk.0.ffn_gate_exps.weight",
       "model.layers.0.block_sparse_moe.experts.gate_up_proj");
  both("granitemoe", "blk.0.ffn_down_exps.weight",
       "model.layers.0.block_sparse_moe.experts.down_proj");
  both("granitemoe", "blk.0.ffn_gate_shexp.weight",
       "model.layers.0.shared_mlp.input_linear.weight");
  CHECK(hugging_face_name(*gguf_architecture("granitemoe"), "blk.0.ffn_up_exps.weight").role ==
        GgufRole::up_half);
  CHECK(hugging_face_name(*gguf_architecture("glm4moe"), "blk.46.nextn.enorm.weight").role ==
        GgufRole::ignored);
}

}  // namespace forge
