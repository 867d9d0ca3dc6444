#include "core/model/families/model_spec.h"

#include <cmath>
#include <cstring>
#include <set>

#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "core/model/families/gguf_spec.h"
#include "tests/fixtures/variants.h"
#include "tests/test.h"

namespace forge {
namespace {

std::string model(const std::string& name) {
  return std::string(FORGE_SOURCE_DIR) + "/tests/plan/models/" + name;
}

Json llama_config() {
  return Json{{"architectures", {"LlamaForCausalLM"}},
              {"vocab_size", 100},
              {"hidden_size", 64},
              {"intermediate_size", 128},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 4}};
}

ModelSpec spec_with(const std::string& key, const Json& value) {
  Json config = llama_config();
  config[key] = value;
  return model_spec_from_config(config, "config.json");
}

std::string fault_with(const std::string& key, const Json& value) {
  return error_of([&] { spec_with(key, value); });
}

}  // namespace

TEST_CASE("a Llama 3.1 config.json is read with its rope scaling and several end tokens") {
  const ModelSpec spec = read_model_spec(model("llama-3.1-8b"));
  CHECK(spec.family == "llama");
  CHECK(spec.num_layers == 32);
  CHECK(spec.num_kv_heads == 8);
  CHECK(spec.head_dim == 128);
  CHECK_FALSE(spec.tie_word_embeddings);
  CHECK(spec.rope.type == RopeType::llama3);
  CHECK(spec.rope.theta == 500000);
  CHECK(spec.rope.factor == 8);
  CHECK(spec.rope.original_max_position_embeddings == 8192);
  CHECK(spec.eos_token_ids == std::vector<int64_t>{128001, 128008, 128009});
}

TEST_CASE("rope_parameters of transformers 5 and rope_theta of transformers 4 mean the same") {
  const ModelSpec five = read_model_spec(model("llama-3.2-1b"));
  CHECK(five.rope.type == RopeType::llama3);
  CHECK(five.rope.theta == 500000);
  CHECK(five.rope.factor == 32);
  CHECK(read_model_spec(model("smollm2-135m")).rope.theta == 100000);
  CHECK(read_model_spec(model("llama-2-7b")).rope.theta == 10000);
}

TEST_CASE("silent settings take the defaults of transformers") {
  const ModelSpec spec = model_spec_from_config(llama_config(), "config.json");
  CHECK(spec.num_kv_heads == 4);
  CHECK(spec.head_dim == 16);
  CHECK(spec.rms_norm_eps == 1e-6);
  CHECK(spec.max_position_embeddings == 2048);
  CHECK_FALSE(spec.qkv_bias);
}

TEST_CASE("biases and an explicit head_dim") {
  Json config = llama_config();
  config["attention_bias"] = true;
  config["mlp_bias"] = true;
  config["head_dim"] = 32;
  const ModelSpec spec = model_spec_from_config(config, "config.json");
  CHECK((spec.qkv_bias && spec.o_bias && spec.mlp_bias));
  CHECK(spec.head_dim == 32);
}

TEST_CASE("every rope type") {
  CHECK(spec_with("rope_scaling", {{"type", "linear"}, {"factor", 2.0}}).rope.type == RopeType::linear);
  const RopeSpec dynamic = spec_with("rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4.0}}).rope;
  CHECK(dynamic.type == RopeType::dynamic);
  CHECK(dynamic.original_max_position_embeddings == 2048);
  const RopeSpec yarn = spec_with("rope_scaling", {{"rope_type", "yarn"},
                                                   {"factor", 4.0},
                                                   {"original_max_position_embeddings", 512},
                                                   {"beta_fast", 16},
                                                   {"truncate", false}})
                            .rope;
  CHECK(yarn.type == RopeType::yarn);
  CHECK(yarn.original_max_position_embeddings == 512);
  CHECK(yarn.beta_fast == 16);
  CHECK(yarn.beta_slow == 1);
  CHECK_FALSE(yarn.truncate);
  CHECK(spec_with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}).rope.theta == 5e5);
  CHECK_THAT(fault_with("rope_scaling", {{"rope_type", "longrope"}, {"factor", 4.0}}),
             Catch::Contains("rope_scaling: short_factor is missing, expected 8 numbers"));
  CHECK_THAT(fault_with("rope_scaling", {{"rope_type", "ntk"}, {"factor", 4.0}}),
             Catch::Contains("rope_scaling: rope_type is \"ntk\", forge computes default, linear"));
  CHECK_THAT(fault_with("rope_scaling", {{"rope_type", "llama3"}, {"factor", 4.0}}),
             Catch::Contains("rope_scaling: low_freq_factor is missing"));
  CHECK(fault_with("rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}, {"odd", 1}}) == "no error");
  CHECK_THAT(fault_with("rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}, {"full_attention", {{"factor", 8.0}}}}),
             Catch::Contains("full_attention is {\"factor\":8.0}, settings that forge does not know"));
}

TEST_CASE("a rope setting that stands in two places with two values is refused") {
  CHECK_THAT(fault_with("rope_scaling", {{"type", "linear"}, {"rope_type", "dynamic"}, {"factor", 4.0}}),
             Catch::Contains("type is \"linear\" and rope_type \"dynamic\": keep the one that is meant"));
  CHECK(fault_with("rope_scaling", {{"type", "linear"}, {"rope_type", "linear"}, {"factor", 4.0}}) == "no error");
  Json neox = llama_config();
  neox["architectures"] = {"GPTNeoXForCausalLM"};
  neox["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}};
  const auto fault = [](const Json& config) { return error_of([&] { model_spec_from_config(config, "c"); }); };
  CHECK(fault(neox) == "no error");
  neox["rotary_pct"] = 0.25;
  CHECK_THAT(fault(neox), Catch::Contains("rotary_pct is 0.25 and rope_parameters.partial_rotary_factor 0.5: keep the one that is meant"));
  neox["rotary_pct"] = 0.5;
  CHECK(fault(neox) == "no error");
  neox["rotary_emb_base"] = 5e4;
  CHECK_THAT(fault(neox), Catch::Contains("rotary_emb_base is 50000 and rope_parameters.rope_theta 10000"));
}

TEST_CASE("Gemma 3's two tables of rope settings") {
  Json config = llama_config();
  config["architectures"] = {"Gemma3ForCausalLM"};
  const auto read = [&](const Json& tables) {
    config["rope_parameters"] = tables;
    return model_spec_from_config(config, "c");
  };
  const auto fault = [&](const Json& tables) { return error_of([&] { read(tables); }); };
  const Json full{{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}, windows{{"rope_type", "default"}, {"rope_theta", 2e4}};
  const ModelSpec both = read({{"full_attention", full}, {"sliding_attention", windows}});
  CHECK((both.rope.factor == 8 && both.rope.theta == 1e6 && both.window_rope_theta == 2e4));
  CHECK(read({{"full_attention", full}}).window_rope_theta == 1e4);
  CHECK(read({{"sliding_attention", windows}}).rope.type == RopeType::standard);
  CHECK_THAT(fault({{"full_attention", full}, {"sliding_attention", windows}, {"factor", 4.0}}),
             Catch::Contains("rope_parameters has factor next to full_attention and sliding_attention"));
  config["rope_local_base_freq"] = 3e4;
  CHECK(read({{"full_attention", full}}).window_rope_theta == 3e4);
  CHECK_THAT(fault({{"full_attention", full}, {"sliding_attention", windows}}),
             Catch::Contains("rope_local_base_freq is 30000 and rope_parameters.sliding_attention.rope_theta 20000"));
}

TEST_CASE("settings that would change the computation are refused, harmless ones are not") {
  CHECK_THAT(fault_with("hidden_act", "gelu"),
             Catch::Contains("hidden_act is \"gelu\", forge computes only \"silu\""));
  CHECK_THAT(fault_with("partial_rotary_factor", 0.5), Catch::Contains("partial_rotary_factor is 0.5"));
  CHECK_THAT(fault_with("quantization_config", {{"bits", 4}}), Catch::Contains("already quantised"));
  CHECK(fault_with("attention_dropout", 0) == "no error");
  CHECK(fault_with("unsloth_version", "2024.9") == "no error");
  CHECK(fault_with("new_flag_that_is_off", false) == "no error");
}

TEST_CASE("all faults of a config.json are reported together, broken ones with exit code 5") {
  Json config = llama_config();
  config["hidden_size"] = "64";
  config.erase("vocab_size");
  config["num_key_value_heads"] = 3;
  config["hidden_act"] = "relu";
  const std::string faults = error_of([&] { model_spec_from_config(config, "config.json"); });
  CHECK_THAT(faults, Catch::Contains("config.json: vocab_size is missing"));
  CHECK_THAT(faults, Catch::Contains("hidden_size is \"64\", expected an integer from 1 to"));
  CHECK_THAT(faults, Catch::Contains("4 is not a multiple of num_key_value_heads 3"));
  CHECK_THAT(faults, Catch::Contains("hidden_act is \"relu\""));
  try {
    model_spec_from_config(config, "config.json");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
  }
}

TEST_CASE("an unknown architecture is a fault of the job and names the known ones") {
  Json config = llama_config();
  config["architectures"] = {"LlamaForCasualLM"};
  try {
    model_spec_from_config(config, "config.json");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::job);
    CHECK_THAT(error.what(),
               Catch::StartsWith("config.json: the architecture LlamaForCasualLM is not known (did you mean "
                                 "\"LlamaForCausalLM\"?); forge knows LlamaForCausalLM, MistralForCausalLM, "));
    for (const Family& family : families()) CHECK_THAT(error.what(), Catch::Contains(family.architecture));
  }
}

TEST_CASE("mistral and qwen2 are Llama decoders with a sliding window") {
  CHECK(read_model_spec(model("mistral-7b")).family == "mistral");
  CHECK(read_model_spec(model("qwen2.5-0.5b")).qkv_bias);
  CHECK_FALSE(read_model_spec(model("qwen2.5-0.5b")).o_bias);
  CHECK(read_model_spec(model("qwen2.5-0.5b")).sliding_window == 0);  // use_sliding_window is false
  Json config = llama_config();
  config["num_key_value_heads"] = 4;
  config["max_position_embeddings"] = 32768;
  const auto window = [&] { return model_spec_from_config(config, "c").sliding_window; };
  config["architectures"] = {"MistralForCausalLM"};
  CHECK(window() == 4096);  // what a missing key means there
  config["sliding_window"] = nullptr;
  CHECK(window() == 0);
  config["sliding_window"] = 512;
  CHECK(window() == 512);
  config["sliding_window"] = "wide";
  CHECK_THAT(error_of(window), Catch::Contains("sliding_window is \"wide\""));
  config["sliding_window"] = 512;
  config["architectures"] = {"Qwen2ForCausalLM"};
  CHECK(window() == 0);
  config["use_sliding_window"] = true;
  config["max_window_layers"] = config["num_hidden_layers"];  // the layers from this one on have it
  CHECK(window() == 0);
  const auto windows = [&] {
    const ModelSpec spec = model_spec_from_config(config, "c");
    std::vector<int64_t> found;
    for (int64_t layer = 0; layer < spec.num_layers; ++layer) found.push_back(spec.window(layer));
    return found;
  };
  config["max_window_layers"] = 1;
  CHECK(windows() == std::vector<int64_t>{0, 512});
  config["max_window_layers"] = 0;
  CHECK(windows() == std::vector<int64_t>{512, 512});
  config["layer_types"] = {"sliding_attention", "full_attention"};
  CHECK(windows() == std::vector<int64_t>{512, 0});
  config["layer_types"] = {"full_attention", "chunked_attention"};
  CHECK_THAT(error_of(window), Catch::Contains("layer_types has \"chunked_attention\""));
  config["layer_types"] = {"full_attention"};
  CHECK_THAT(error_of(window), Catch::Contains("layer_types is not a list of num_hidden_layers names"));
  config["architectures"] = {"LlamaForCausalLM"};
  for (const char* key : {"use_sliding_window", "max_window_layers", "sliding_window"}) config.erase(key);
  config["layer_types"] = {"full_attention", "sliding_attention"};
  CHECK(window() == 0);  // transformers' Llama reads no layer_types
}

TEST_CASE("Gemma 2's settings, those that its file leaves out, and its GGUF") {
  Json config = llama_config();
  config["architectures"] = {"Gemma2ForCausalLM"};
  config["num_key_value_heads"] = 2;
  ModelSpec spec = model_spec_from_config(config, "c");
  CHECK(spec.head_dim == 256);
  CHECK(spec.tie_word_embeddings);
  CHECK(spec.attention_scale == 1.0 / 16);
  CHECK(spec.embedding_scale == 8);
  CHECK(spec.norm_offset == 1);
  CHECK(spec.attention_softcap == 50);
  CHECK(spec.logit_softcap == 30);
  CHECK(spec.window(0) == 4096);
  CHECK(spec.window(1) == 0);
  config["attn_logit_softcapping"] = nullptr;
  config["final_logit_softcapping"] = 5;
  config["hidden_act"] = config["hidden_activation"] = "gelu_pytorch_tanh";
  spec = model_spec_from_config(config, "c");
  CHECK(spec.attention_softcap == 0);
  CHECK(spec.logit_softcap == 5);
  CHECK(Json(Json(spec).get<ModelSpec>()) == Json(spec));
  config["use_bidirectional_attention"] = true;
  config["hidden_activation"] = "gelu";
  const std::string faults = error_of([&] { model_spec_from_config(config, "c"); });
  CHECK_THAT(faults, Catch::Contains("use_bidirectional_attention is true") &&
                         Catch::Contains("hidden_activation is \"gelu\""));
}

TEST_CASE("an end of text lies in the vocabulary") {
  Json config = llama_config();
  const int64_t size = config["vocab_size"];
  const auto read = [&](Json ids) {
    config["eos_token_id"] = std::move(ids);
    return error_of([&] { model_spec_from_config(config, "c"); });
  };
  CHECK(read(size - 1) == "no error");
  CHECK_THAT(read(size), Catch::Contains("is outside the vocabulary"));
  CHECK_THAT(read({0, -3}), Catch::Contains("eos_token_id -3 is outside the vocabulary"));
}

TEST_CASE("a spec survives JSON") {
  for (const char* name : {"llama-3.1-8b", "llama-3.2-1b", "qwen2.5-0.5b", "mistral-7b"}) {
    const Json json = read_model_spec(model(name));
    CHECK(Json(json.get<ModelSpec>()) == json);
  }
}

TEST_CASE("missing and broken model folders") {
  TemporaryFolder folder;
  CHECK_THAT(error_of([&] { read_model_spec(folder.path("nothing")); }), Catch::Contains("no such model"));
  CHECK_THAT(error_of([&] { read_model_spec(folder.path()); }), Catch::Contains("without config.json"));
  folder.write("config.json", "{\"vocab_size\": ");
  CHECK_THAT(error_of([&] { read_model_spec(folder.path()); }), Catch::Contains("config.json:1:"));
  folder.write("config.json", "[]");
  CHECK_THAT(error_of([&] { read_model_spec(folder.path()); }), Catch::Contains("expected a JSON object"));
}

namespace {

// The tensors on which settings depend, without values.
struct Tensors : TensorFile {
  std::vector<TensorInfo> list{{"model.embed_tokens.weight", {100, 64}, DType::f32}};
  const std::vector<TensorInfo>& tensors() const override { return list; }
  std::string_view bytes(size_t) const override { return {}; }
  int64_t file_bytes() const override { return 0; }
  std::string header_hash() const override { return ""; }
};

Json llama_metadata() {
  return Json{{"general.architecture", "llama"},
              {"general.name", "x"},
              {"llama.block_count", 2},
              {"llama.embedding_length", 64},
              {"llama.feed_forward_length", 128},
              {"llama.attention.head_count", 4},
              {"llama.attention.head_count_kv", 2},
              {"llama.context_length", 2048},
              {"llama.rope.dimension_count", 16},
              {"llama.attention.layer_norm_rms_epsilon", 1e-5},
              {"tokenizer.ggml.eos_token_id", 2}};
}

}  // namespace

TEST_CASE("a GGUF's metadata and tensors give the spec") {
  Tensors tensors;
  Json metadata = llama_metadata();
  ModelSpec spec = model_spec_from_gguf(metadata, tensors, {}, "m.gguf");
  CHECK(spec.vocab_size == 100);
  CHECK(spec.num_kv_heads == 2);
  CHECK(spec.tie_word_embeddings);
  CHECK_FALSE(spec.qkv_bias);
  CHECK(spec.eos_token_ids == std::vector<int64_t>{2});
  tensors.list.push_back({"lm_head.weight", {100, 64}, DType::f32});
  tensors.list.push_back({"model.layers.0.self_attn.q_proj.bias", {64}, DType::f32});
  spec = model_spec_from_gguf(metadata, tensors, {}, "m.gguf");
  CHECK_FALSE(spec.tie_word_embeddings);
  CHECK(spec.qkv_bias);
  metadata["llama.rope.scaling.type"] = "linear";
  metadata["llama.rope.scaling.factor"] = 4.0;
  CHECK(model_spec_from_gguf(metadata, tensors, {}, "m.gguf").rope.factor == 4);
  metadata["llama.expert_count"] = 8;
  metadata["llama.rope.scaling.type"] = "twisted";
  const std::string faults = error_of([&] { model_spec_from_gguf(metadata, tensors, {}, "m.gguf"); });
  CHECK_THAT(faults, Catch::Contains("llama.expert_used_count") &&
                         Catch::Contains("rope.scaling.type is \"twisted\""));
  metadata["general.architecture"] = "gpt9";
  CHECK(error_of([&] { model_spec_from_gguf(metadata, tensors, {}, "m.gguf"); }) ==
        "m.gguf: the architecture gpt9 is not known; forge knows llama, qwen2, qwen2vl, qwen3, qwen3vl, phi3, gemma, gemma2, gemma3, smollm3, "
        "granite, olmo2, chatglm, glm4, command-r, cohere2, starcoder2, gptneox, falcon, stablelm, gpt2, qwen2moe, qwen3moe, qwen3vlmoe, "
        "mistral3, phi2, seed_oss, exaone4, ernie4_5, hunyuan-dense, arcee, olmo, nemotron, bloom, mpt, glm4moe, olmoe, granitemoe, "
        "ernie4_5-moe, minimax-m2, dots1, hunyuan-moe, deepseek, qwen3next, qwen35, qwen35moe");
}

TEST_CASE("a GGUF of Llama's architecture that counts experts is Mixtral's, others have none or must") {
  Tensors tensors;
  Json metadata = llama_metadata();
  metadata["llama.expert_count"] = 8;
  metadata["llama.expert_used_count"] = 2;
  const ModelSpec spec = model_spec_from_gguf(metadata, tensors, {}, "m.gguf");
  CHECK(spec.family == "mixtral");
  CHECK(spec.num_experts == 8);
  CHECK(spec.experts_per_token == 2);
  CHECK(spec.expert_size == spec.intermediate_size);
  CHECK(spec.normalise_experts);
  const auto problem = [&](Json changed) { return error_of([&] { model_spec_from_gguf(changed, tensors, {}, "m.gguf"); }); };
  metadata["llama.expert_used_count"] = 9;
  CHECK_THAT(problem(metadata), Catch::Contains("llama.expert_used_count"));
  const auto renamed = [&](const std::string& architecture, bool experts) {
    const Json llama = llama_metadata();
    Json other;
    for (const auto& [key, value] : llama.items())
      other[key.starts_with("llama.") ? architecture + "." + key.substr(6) : key] = value;
    other["general.architecture"] = architecture;
    if (experts) other[architecture + ".expert_count"] = 8;
    return other;
  };
  CHECK_THAT(problem(renamed("qwen2", true)), Catch::Contains("qwen2.expert_count is 8, this family has one feed-forward layer"));
  CHECK_THAT(problem(renamed("qwen3moe", false)), Catch::Contains("qwen3moe.expert_count"));
}

TEST_CASE("a GGUF of Gemma 2 says its caps and its window, and its size the scale of its scores") {
  Tensors tensors;
  const Json llama = llama_metadata();
  Json metadata;
  for (const auto& [key, value] : llama.items())
    metadata[key.starts_with("llama.") ? "gemma2." + key.substr(6) : key] = value;
  metadata["general.architecture"] = "gemma2";
  metadata["gemma2.attn_logit_softcapping"] = 40.0;
  metadata["gemma2.attention.sliding_window"] = 12;
  metadata["gemma2.attention.key_length"] = metadata["gemma2.attention.value_length"] = 16;
  ModelSpec spec = model_spec_from_gguf(metadata, tensors, {}, "m.gguf");
  CHECK(spec.attention_softcap == 40);
  CHECK(spec.logit_softcap == 30);
  CHECK(spec.window(0) == 12);
  CHECK(spec.window(1) == 0);
  CHECK(spec.attention_scale == 0);  // of the head's width
  CHECK(spec.embedding_scale == 8);
  metadata["gemma2.block_count"] = 46;
  metadata["gemma2.embedding_length"] = 100;
  CHECK(model_spec_from_gguf(metadata, tensors, {}, "m.gguf").attention_scale == 1.0 / 5);
}

// Returns `config` without the settings that its family does not have.
Json known_to_family(Json config) {
  for (;;) {
    const std::string error = error_of([&] { model_spec_from_config(config, "c"); });
    const size_t end = error.find(" is ");
    if (error.find("reads and forge does not compute") == std::string::npos && error.find("other settings") == std::string::npos) return config;
    if (config.erase(error.substr(3, end - 3)) == 0) return config;
  }
}

TEST_CASE("a T5 config.json says which of its two MLPs and heads it has, and both depths") {
  Json config{{"architectures", {"T5ForConditionalGeneration"}}, {"model_type", "t5"}, {"vocab_size", 32128}, {"d_model", 512}, {"d_kv", 64},
              {"d_ff", 2048}, {"num_layers", 6}, {"num_heads", 8}, {"is_encoder_decoder", true}, {"decoder_start_token_id", 0}, {"pad_token_id", 0},
              {"eos_token_id", 1}, {"n_positions", 512}, {"dropout_rate", 0.1}, {"layer_norm_epsilon", 1e-6}, {"initializer_factor", 1.0}};
  const ModelSpec small = model_spec_from_config(config, "c");
  CHECK((small.encoder_layers == 6 && small.num_layers == 6 && small.head_dim == 64 && small.hidden_size == 512));
  CHECK((small.tie_word_embeddings && !small.gated_mlp && small.position_buckets == 32 && small.position_distance == 128));
  CHECK(small.logit_scale == Approx(1 / std::sqrt(512.0)));
  CHECK((small.attention_scale == 1 && small.decoder_start_id == 0 && small.rotary_dim() == 0));
  config["num_decoder_layers"] = 2, config["feed_forward_proj"] = "gated-gelu", config["tie_word_embeddings"] = false;
  const ModelSpec flan = model_spec_from_config(config, "c");
  CHECK((flan.num_layers == 2 && flan.gated_mlp && !flan.tie_word_embeddings && flan.logit_scale == 1));
  // This is the form in which transformers 5 writes the same model.
  config["tie_word_embeddings"] = true, config["scale_decoder_outputs"] = false, config["is_gated_act"] = true, config["dense_act_fn"] = "gelu_new";
  CHECK(model_spec_from_config(config, "c").logit_scale == 1);
  config["feed_forward_proj"] = "gated-silu";
  CHECK_THAT(error_of([&] { model_spec_from_config(config, "c"); }), Catch::Contains("forge computes relu and gated-gelu"));
  config["feed_forward_proj"] = "relu", config["relative_attention_max_distance"] = 8;
  CHECK_THAT(error_of([&] { model_spec_from_config(config, "c"); }), Catch::Contains("is at most half of"));
  config["relative_attention_max_distance"] = 128, config["decoder_start_token_id"] = 40000;
  CHECK_THAT(error_of([&] { model_spec_from_config(config, "c"); }), Catch::Contains("decoder_start_token_id 40000 is not a token"));
}

TEST_CASE("a BART config.json is read, and refused where its stacks differ or norms stand elsewhere") {
  Json config{{"architectures", {"BartForConditionalGeneration"}}, {"vocab_size", 50264}, {"d_model", 1024}, {"encoder_layers", 12},
              {"decoder_layers", 6}, {"num_hidden_layers", 12}, {"encoder_attention_heads", 16}, {"decoder_attention_heads", 16},
              {"encoder_ffn_dim", 4096}, {"decoder_ffn_dim", 4096}, {"max_position_embeddings", 1024}, {"is_encoder_decoder", true},
              {"attention_dropout", 0.1}, {"dropout", 0.1}, {"activation_function", "gelu"}, {"forced_eos_token_id", 2}, {"normalize_before", false},
              {"normalize_embedding", true}, {"init_std", 0.02}, {"extra_pos_embeddings", 2}};
  const ModelSpec spec = model_spec_from_config(config, "c");
  CHECK((spec.encoder_layers == 12 && spec.num_layers == 6 && spec.head_dim == 64 && spec.position_offset == 2));
  CHECK((spec.decoder_start_id == 2 && spec.pad_token_id == 1 && spec.eos_token_ids == std::vector<int64_t>{2} && spec.embedding_scale == 1));
  const auto fault = [&](const char* key, const Json& value) {
    Json other = config;
    other[key] = value;
    return error_of([&] { model_spec_from_config(other, "c"); });
  };
  CHECK_THAT(fault("encoder_ffn_dim", 2048), Catch::Contains("encoder_ffn_dim") && Catch::Contains("both stacks to have one shape"));
  CHECK_THAT(fault("is_encoder_decoder", false), Catch::Contains("an encoder-decoder"));
}

TEST_CASE("an alpha of Hunyuan's dynamic scaling is a larger base at every length, of other families it is nothing") {
  Json config = llama_config();
  config["num_key_value_heads"] = 2, config["head_dim"] = 16;
  config["rope_scaling"] = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}, {"beta_fast", 32}, {"mscale", 1.0}};
  const auto rope_of = [&](const char* architecture) {
    config["architectures"] = {architecture};
    return model_spec_from_config(config, "c").rope;
  };
  const RopeSpec hunyuan = rope_of("HunYuanDenseV1ForCausalLM");
  CHECK(hunyuan.type == RopeType::standard);
  CHECK(hunyuan.theta == Approx(10000 * std::pow(1000.0, 16.0 / 14)));
  CHECK((rope_of("LlamaForCausalLM").type == RopeType::dynamic && rope_of("LlamaForCausalLM").theta == 10000));
  config["rope_scaling"]["alpha"] = 0.0;
  CHECK(rope_of("HunYuanDenseV1ForCausalLM").type == RopeType::dynamic);
  config["rope_scaling"]["alpha"] = "1000";
  CHECK_THAT(error_of([&] { rope_of("HunYuanDenseV1ForCausalLM"); }), Catch::Contains("alpha"));
}

TEST_CASE("EXAONE 4 has rotary positions where it has a window, or everywhere if it has none") {
  Json config = llama_config();
  config["architectures"] = {"Exaone4ForCausalLM"}, config["num_key_value_heads"] = 2, config["num_hidden_layers"] = 4;
  const auto spec = [&] { return model_spec_from_config(config, "c"); };
  CHECK((spec().sliding_window == 4096 && spec().no_rope_layers == std::vector<int64_t>{3} && spec().full_layers == spec().no_rope_layers));
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention", "sliding_attention"};
  config["sliding_window_pattern"] = "LLLG", config["sliding_window"] = 16;
  CHECK((spec().sliding_window == 16 && spec().no_rope_layers == std::vector<int64_t>{1, 2}));
  config["layer_types"] = std::vector<std::string>(4, "full_attention");
  CHECK((spec().sliding_window == 0 && spec().no_rope_layers == std::vector<int64_t>{0, 1, 2, 3}));
  config["sliding_window"] = nullptr, config["sliding_window_pattern"] = nullptr;
  CHECK((spec().sliding_window == 0 && spec().no_rope_layers.empty()));
  config.erase("layer_types");
  config["sliding_window"] = 16, config["sliding_window_pattern"] = "LLLG";
  CHECK_THAT(error_of(spec), Catch::Contains("sliding_window_pattern"));
  config["sliding_window"] = 0, config["sliding_window_pattern"] = 4;
  CHECK_THAT(error_of(spec), Catch::Contains("sliding_window is 0"));
}

TEST_CASE("decoders of one page are refused for what the page does not compute, by name") {
  const auto fault = [](const char* architecture, Json more) {
    Json config = llama_config();
    config["architectures"] = {architecture}, config["num_key_value_heads"] = 2;
    config.update(more);
    return error_of([&] { model_spec_from_config(config, "c"); });
  };
  CHECK_THAT(fault("PhiForCausalLM", {{"qk_layernorm", true}}), Catch::Contains("qk_layernorm is true, forge computes only false"));
  CHECK_THAT(fault("OlmoForCausalLM", {{"clip_qkv", 0}}), Catch::Contains("clip_qkv is 0"));
  CHECK_THAT(fault("OlmoForCausalLM", {{"clip_qkv", "8"}}), Catch::Contains("clip_qkv"));
  CHECK_THAT(fault("ArceeForCausalLM", {{"hidden_act", "silu"}}), Catch::Contains("hidden_act is \"silu\""));
  const Json dense{{"num_local_experts", 0}, {"layer_types", {"attention", "attention"}}};
  const auto granite = [&](Json more) {
    Json all = dense;
    all.update(more);
    return fault("GraniteMoeHybridForCausalLM", all);
  };
  CHECK(granite(Json::object()) == "no error");
  CHECK(granite({{"layer_types", {"attention", "mamba"}}}) == "no error");
  CHECK_THAT(granite({{"layer_types", {"attention", "mlp"}}}), Catch::Contains("layer_types has \"mlp\", forge computes mamba and attention here"));
  CHECK_THAT(granite({{"layer_types", nullptr}, {"mamba_n_heads", 3}}), Catch::Contains("mamba_n_heads times mamba_d_head is"));
  CHECK_THAT(granite({{"layer_types", nullptr}, {"time_step_limit", {0, 0.1}}}), Catch::Contains("time_step_limit bounds steps at 0.1"));
  CHECK_THAT(fault("NemotronHForCausalLM", {{"hybrid_override_pattern", "MX"}}), Catch::Contains("hybrid_override_pattern has \"X\", expected M, *, - or E"));
  CHECK_THAT(granite({{"layer_types", {"attention"}}}), Catch::Contains("is not a list of num_hidden_layers names"));
  CHECK_THAT(granite({{"num_local_experts", 2}, {"num_experts_per_tok", 3}}), Catch::Contains("num_experts_per_tok is more than the number of experts, 2"));
  CHECK_THAT(granite({{"position_embedding_type", "alibi"}}), Catch::Contains("position_embedding_type is \"alibi\""));
  const Json opt{{"ffn_dim", 128}};
  const auto with_opt = [&](const char* key, const Json& value) {
    Json all = opt;
    all[key] = value;
    return fault("OPTForCausalLM", all);
  };
  CHECK(with_opt("dropout", 0.1) == "no error");
  CHECK_THAT(with_opt("do_layer_norm_before", false), Catch::Contains("do_layer_norm_before is false"));
  CHECK_THAT(with_opt("word_embed_proj_dim", 32), Catch::Contains("word_embed_proj_dim is 32"));
  CHECK_THAT(with_opt("_remove_final_layer_norm", true), Catch::Contains("_remove_final_layer_norm is true"));
  CHECK_THAT(fault("GPTJForCausalLM", {{"rotary_dim", nullptr}}), Catch::Contains("rotary_dim is null"));
  CHECK_THAT(fault("GPTJForCausalLM", {{"rotary_dim", 20}}), Catch::Contains("rotary_dim is more than a head has, 16"));
  CHECK_THAT(fault("BloomForCausalLM", {{"n_embed", 32}}), Catch::Contains("two names of one setting"));
  CHECK_THAT(fault("FalconForCausalLM", {{"num_ln_in_parallel_attn", 2}}), Catch::Contains("num_ln_in_parallel_attn is not 1"));
}

TEST_CASE("LFM2's config.json says in two ways which layers attend and how wide an MLP is") {
  Json config = variant_config("lfm2-older");
  const auto spec_with = [&](const char* key, const Json& value) {
    Json other = config;
    other[key] = value;
    return model_spec_from_config(other, "c");
  };
  const ModelSpec spec = model_spec_from_config(config, "c");
  CHECK((spec.delta_layers == std::vector<int64_t>{0, 1} && spec.attention_layers() == 1));
  CHECK((spec.intermediate_size == 80 && spec.conv_channels() == spec.hidden_size && spec.conv_width == 4));
  CHECK((!spec.tie_word_embeddings && spec_with("tie_embedding", true).tie_word_embeddings));
  CHECK(spec_with("block_auto_adjust_ff_dim", false).intermediate_size == 100);
  CHECK(spec_with("block_ffn_dim_multiplier", 1.25).intermediate_size == 96);
  CHECK(spec_with("full_attn_idxs", nullptr).delta_layers.empty());
  CHECK(spec_with("layer_types", {"conv", "full_attention", "conv"}).delta_layers == std::vector<int64_t>{0, 2});
  CHECK(config_of_spec(spec).at("intermediate_size") == 80);
  CHECK(model_spec_from_config(config_of_spec(spec), "c").intermediate_size == 80);
  const auto refused = [&](const char* key, const Json& value) { return error_of([&] { spec_with(key, value); }); };
  CHECK_THAT(refused("layer_types", {"conv", "mamba", "conv"}), Catch::Contains("layer_types has \"mamba\", forge computes full_attention and conv here"));
  CHECK_THAT(refused("layer_types", {"conv"}), Catch::Contains("layer_types is not a list of num_hidden_layers names"));
  CHECK_THAT(refused("conv_L_cache", 9), Catch::Contains("conv_L_cache is 9"));
  CHECK_THAT(refused("num_attention_heads", 5), Catch::Contains("num_attention_heads does not divide hidden_size"));
}

TEST_CASE("a config.json with a delta rule says which layers have it, and is refused where it does not fit") {
  Json config = variant_config("qwen3-next-mixed");
  const ModelSpec spec = model_spec_from_config(config, "c");
  CHECK(spec.delta_layers == std::vector<int64_t>{0, 1});
  CHECK(spec.attention_layers() == 1);
  CHECK((!spec.attends(0) && !spec.attends(1) && spec.attends(2)));
  CHECK(spec.dense_layers == std::vector<int64_t>{1});
  CHECK((spec.recurrent() && spec.attention_gate && spec.norm_offset == 1 && spec.rotary_dim() == 4));
  CHECK(spec.conv_channels() == 2 * 3 * 12 + 3 * 16);
  const auto refused = [&](const char* key, const Json& value) {
    Json other = config;
    other[key] = value;
    return error_of([&] { model_spec_from_config(other, "c"); });
  };
  CHECK_THAT(refused("linear_num_value_heads", 4),
             Catch::Contains("linear_num_value_heads is 4, no multiple of linear_num_key_heads, 3"));
  CHECK_THAT(refused("linear_conv_kernel_dim", 9), Catch::Contains("linear_conv_kernel_dim"));
  CHECK_THAT(refused("layer_types", Json::array({"linear_attention", "full_attention"})),
             Catch::Contains("layer_types is not a list of num_hidden_layers names"));
  CHECK_THAT(refused("layer_types", Json::array({"linear_attention", "full_attention", "chunked"})),
             Catch::Contains("layer_types has \"chunked\""));
  config["layer_types"] = Json::array({"full_attention", "full_attention", "full_attention"});
  CHECK_FALSE(model_spec_from_config(config, "c").recurrent());
}

TEST_CASE("every decoder's settings survive being written as config.json") {
  std::set<std::string> windowed;
  for (const Family& family : families()) {
    if (family.stacks) continue;  // neither a GGUF nor a random start has one
    Json config = llama_config();
    config["architectures"] = {family.architecture};
    config["num_key_value_heads"] = 2;
    config["sliding_window"] = 7;
    config["use_sliding_window"] = true;
    config["max_window_layers"] = 1;
    if (family.name == "opt") config["ffn_dim"] = 128;
    if (family.name == "nemotron_h") config["hybrid_override_pattern"] = "M*";
    if (family.name == "gptj") config["rotary_dim"] = 8;  // transformers assumes more than these heads have
    if (family.name == "granitemoehybrid") {  // transformers assumes Mamba and experts
      config["layer_types"] = std::vector<std::string>(config.at("num_hidden_layers"), "full_attention");
      config["num_local_experts"] = 0;
    }
    // transformers assumes none
    if (family.name == "deepseek_v2" || family.name == "deepseek" || family.name == "dots1")
      config["num_experts_per_tok"] = 2;
    if (family.name == "deepseek" || family.name == "dots1")
      config.update(
          {{"n_routed_experts", 8}, {"n_shared_experts", 1}, {"moe_intermediate_size", 24}});
    config = known_to_family(config);
    INFO(family.name << " " << dump_json(config));
    const ModelSpec spec = model_spec_from_config(config, "c");
    if (spec.sliding_window > 0) windowed.insert(family.name);
    INFO(dump_json(config_of_spec(spec)));
    CHECK(Json(model_spec_from_config(config_of_spec(spec), "written")) == Json(spec));
  }
  for (const char* name : {"mistral", "qwen2", "qwen3", "phi3", "gemma2", "gemma3_text", "olmo3", "cohere2", "exaone4"}) CHECK(windowed.count(name) == 1);
  CHECK(windowed.count("llama") == 0);
}

// Returns transformers' llama3 inverse frequencies, as divisors: head_dim 16, low 1, high 4.
std::vector<float> divisors_of(double theta, double factor, double context) {
  std::vector<float> divisors;
  for (int i = 0; i < 8; ++i) {
    const double wavelength = 2 * M_PI * std::pow(theta, i / 8.0), smooth = (context / wavelength - 1) / 3;
    const double between = 1 / ((1 - smooth) / factor + smooth);
    divisors.push_back(static_cast<float>(wavelength < context / 4 ? 1 : wavelength > context ? factor : between));
  }
  return divisors;
}

TEST_CASE("a GGUF's rope_freqs.weight is the scaling of Llama 3.1, or any other divisors as they are") {
  Tensors tensors;
  Json metadata = llama_metadata();
  metadata["llama.rope.freq_base"] = 500000.0;
  const auto rope = [&](const GgufRopeFactors& factors) { return model_spec_from_gguf(metadata, tensors, factors, "m.gguf").rope; };
  const auto problem = [&](const GgufRopeFactors& factors) { return error_of([&] { rope(factors); }); };
  for (const double factor : {8.0, 32.0}) {
    const RopeSpec spec = rope({.always = divisors_of(500000, factor, 8192)});
    CHECK(spec.type == RopeType::llama3);
    CHECK(spec.factor == factor);
    CHECK(spec.original_max_position_embeddings == 8192);
  }
  const std::vector<float> other = divisors_of(500000, 8, 4096);
  const RopeSpec any = rope({.always = other});
  CHECK(any.type == RopeType::longrope);
  CHECK(any.attention_factor == 1);
  CHECK(any.short_factors == std::vector<double>(other.begin(), other.end()));
  CHECK(any.long_factors == any.short_factors);
  CHECK(rope({.always = std::vector<float>(8, 1)}).type == RopeType::standard);
  CHECK_THAT(problem({.always = {1, 8}}), Catch::Contains("rope_freqs.weight has 2 values, expected 8"));
  CHECK_THAT(problem({.always = {1, 1, 1, 1, 1, 1, 1, 0}}), Catch::Contains("not between"));
  CHECK_THAT(problem({.always = other, .up_to = other}), Catch::Contains("appears together with the factors of longrope"));
  CHECK_THAT(problem({.up_to = other}), Catch::Contains("rope_factors_long.weight has 0 values"));
  metadata["llama.rope.scaling.type"] = "linear";
  metadata["llama.rope.scaling.factor"] = 2.0;
  CHECK_THAT(problem({.always = other}), Catch::Contains("together with rope.scaling.type \"linear\""));
}

TEST_CASE("a GGUF's factors by length are longrope") {
  Tensors tensors;
  Json metadata = llama_metadata();
  metadata["llama.rope.scaling.original_context_length"] = 512;
  metadata["llama.rope.scaling.attn_factor"] = 1.25;
  const GgufRopeFactors factors{.up_to = std::vector<float>(8, 1.5f), .past = std::vector<float>(8, 4)};
  const RopeSpec rope = model_spec_from_gguf(metadata, tensors, factors, "m.gguf").rope;
  CHECK(rope.type == RopeType::longrope);
  CHECK(rope.original_max_position_embeddings == 512);
  CHECK(rope.attention_factor == 1.25);
  CHECK((rope.short_factors[0] == 1.5 && rope.long_factors[7] == 4));
  CHECK_THAT(error_of([&] { model_spec_from_gguf(metadata, tensors, {}, "m.gguf"); }), Catch::Contains("rope.scaling.attn_factor is 1.25"));
  metadata["llama.rope.scaling.type"] = "longrope";
  CHECK(model_spec_from_gguf(metadata, tensors, factors, "m.gguf").rope == rope);
  CHECK_THAT(error_of([&] { model_spec_from_gguf(metadata, tensors, {}, "m.gguf"); }), Catch::Contains("the file has no factors"));
}

TEST_CASE("a key of a GGUF's architecture that nothing reads is refused by name") {
  Tensors tensors;
  const auto problem = [&](const std::string& key, const Json& value) {
    Json metadata = llama_metadata();
    metadata[key] = value;
    return error_of([&] { model_spec_from_gguf(metadata, tensors, {}, "m.gguf"); });
  };
  // Keys that llama.cpp reads for this architecture or another, and that a future reader may read.
  for (const char* key : {"llama.attention.clamp_kqv", "llama.attn_logit_softcapping", "llama.rope.scaling.alpha", "llama.logit_scale",
                          "llama.expert_group_count", "llama.attention.scale", "llama.new_words"})
    CHECK_THAT(problem(key, 2), Catch::Contains(std::string(key) + " is 2"));
  CHECK_THAT(problem("llama.attention.causal", false), Catch::Contains("llama.attention.causal is false"));
  CHECK_THAT(problem("llama.rope.freq_base_swa", 5.0), Catch::Contains("llama.rope.freq_base_swa"));
  CHECK_THAT(problem("llama.attention.head_count", Json::array({4, 2})), Catch::Contains("llama.attention.head_count is [4,2]"));
  Json new_words = llama_metadata();
  new_words["llama.new_words"] = 2;
  try {
    model_spec_from_gguf(new_words, tensors, {}, "m.gguf");
    FAIL("llama.new_words is passed over");
  } catch (const Error& error) {
    CHECK_THAT(error.hint(), Catch::Contains("another GGUF"));
  }
  for (const char* key : {"llama.vocab_size", "llama.rope.scaling.finetuned", "general.size_label", "tokenizer.ggml.pre", "mine.own"})
    CHECK(problem(key, 3) == "no error");
  // Without a type llama.cpp treats a factor as linear.
  Json metadata = llama_metadata();
  metadata["llama.rope.scaling.factor"] = 4.0;
  CHECK(model_spec_from_gguf(metadata, tensors, {}, "m.gguf").rope.type == RopeType::linear);
  metadata["llama.rope.scaling.type"] = "none";
  CHECK(model_spec_from_gguf(metadata, tensors, {}, "m.gguf").rope.type == RopeType::standard);
}

TEST_CASE("a GGUF may say which layers have a window") {
  Tensors tensors;
  Json metadata;
  const Json llama = llama_metadata();
  for (const auto& [key, value] : llama.items())
    metadata[key.starts_with("llama.") ? "gemma2." + key.substr(6) : key] = value;
  metadata["general.architecture"] = "gemma2";
  metadata["gemma2.block_count"] = 4;
  metadata["gemma2.attention.key_length"] = metadata["gemma2.attention.value_length"] = 16;
  const auto full = [&](const Json& pattern) {
    metadata["gemma2.attention.sliding_window_pattern"] = pattern;
    return model_spec_from_gguf(metadata, tensors, {}, "m.gguf").full_layers;
  };
  CHECK(full(3) == std::vector<int64_t>{2});
  CHECK(full({true, false, false, true}) == std::vector<int64_t>{1, 2});
  CHECK(full(true).empty());
  CHECK(full(false) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK_THAT(error_of([&] { full({true, false}); }), Catch::Contains("one entry for each of 4 layers"));
}

}  // namespace forge
