// Reads published config.json files, with keys that transformers never reads, and compares them
// with the table of settings that its classes read.
#include <filesystem>
#include <sstream>

#include "core/lib/base/file.h"
#include "core/lib/io/python_json.h"
#include "core/lib/io/safetensors.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/config_keys.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "core/model/families/modules.h"
#include "core/model/families/parameters.h"
#include "core/model/families/stored_file.h"
#include "tests/test.h"

namespace forge {
namespace {

const std::string kFolder = std::string(FORGE_SOURCE_DIR) + "/tests/plan/published/";

Json config_of(const std::string& name) {
  const std::string path = kFolder + name + ".json";
  return parse_python_json(read_file(path, 1 << 22, ErrorKind::internal), path);
}

Json tiny_llama(const Json& more = Json::object()) {
  Json config{{"model_type", "llama"}, {"vocab_size", 64}, {"hidden_size", 32}, {"intermediate_size", 64}, {"num_hidden_layers", 2}, {"num_attention_heads", 2}};
  config.update(more);
  return config;
}

ConfigNotes notes_with(const Json& more) { return read_config(tiny_llama(more), "c").notes; }

}  // namespace

TEST_CASE("every published config.json of a claimed family opens with its published parameters") {
  std::istringstream table(read_file(kFolder + "table.tsv", 1 << 20, ErrorKind::internal));
  std::string line, name, architecture, parameters;
  std::getline(table, line);
  int opened = 0;
  for (; std::getline(table, line); ++opened) {
    std::istringstream(line) >> name >> architecture >> parameters;
    INFO(name);
    const Json config = config_of(name);
    const std::string error = error_of([&] {
      const ModelSpec spec = model_spec_from_config(config, name);
      CHECK(spec.architecture == architecture);
      const int64_t total = count_parameters(base_parameters(spec)).total;
      if (parameters != "-") CHECK(total == std::stoll(parameters));
    });
    // "!alibi" names a feature that the file asks for and forge does not compute. The refusal must
    // name it.
    const bool refused = parameters.starts_with('!');
    CHECK((error == "no error") == !refused);
    if (refused) CHECK_THAT(error, Catch::Contains(parameters.substr(1)));
  }
  CHECK(opened > 60);
}

TEST_CASE("a base model's file, whose names lack the prefix, shows those of the language model") {
  TemporaryFolder folder;
  const ModelSpec spec = model_spec_from_config(tiny_llama({{"architectures", {"LlamaModel"}}}), "c");
  const std::string zeros(64 * 32 * 4, '\0');
  const auto entry = [&](const char* name) { return SafetensorsEntry{{name, {64, 32}, DType::f32}, zeros}; };
  write_safetensors(folder.path() + "/model.safetensors", {entry("embed_tokens.weight"), entry("norm.weight"), entry("lm_head.weight")}, {});
  const std::unique_ptr<TensorFile> bare = open_weights(spec, folder.path());
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}) CHECK(bare->find(name) >= 0);
  write_safetensors(folder.path() + "/model.safetensors", {entry("model.embed_tokens.weight")}, {});
  CHECK(open_weights(spec, folder.path())->find("model.embed_tokens.weight") >= 0);
}

TEST_CASE("the table has every family, by its class") {
  for (const Family& family : families()) {
    INFO(family.name);
    const ConfigKeys& keys = config_keys_of(family.name);
    CHECK(keys.architecture == family.architecture);
    CHECK(keys.reads.count("vocab_size") == 1);
  }
  CHECK(config_keys_of("qwen3_moe").aliases.at("num_experts") == "num_local_experts");
  CHECK(ignored_tensor(config_keys_of("gpt_neox"), "gpt_neox.layers.3.attention.masked_bias"));
  CHECK(ignored_tensor(config_keys_of("gpt_neox"), "gpt_neox.layers.3.attention.bias"));
  CHECK(!ignored_tensor(config_keys_of("gpt_neox"), "gpt_neox.layers.3.attention.dense.bias"));
  CHECK(ignored_tensor(config_keys_of("llama"), "model.layers.0.self_attn.rotary_emb.inv_freq"));
}

TEST_CASE("what a class never reads is named and ignored, what it reads and forge does not compute is refused") {
  CHECK(notes_with({{"full_attn_mod", 1}, {"license", "mit"}, {"off", false}, {"pretraining_tp", 1}}).ignored ==
        std::vector<std::string>{"full_attn_mod (1)"});
  CHECK(notes_with({{"pretraining_tp", 2}}).ignored == std::vector<std::string>{"pretraining_tp (2)"});
  CHECK_THAT(error_of([] { notes_with({{"per_layer_config", {{"0", {{"head_dim", 8}}}}}}); }),
             Catch::Contains("which LlamaForCausalLM reads and forge does not compute"));
  CHECK_THAT(error_of([] { notes_with({{"is_causal", false}}); }), Catch::Contains("is_causal is false"));
}

TEST_CASE("two names of one setting must agree") {
  Json config = config_of("Qwen3-30B-A3B-FP8");
  const int64_t experts = config.at("num_experts");
  config["num_local_experts"] = experts;
  CHECK(model_spec_from_config(config, "c").num_experts == experts);
  config.erase("num_experts");
  config["num_local_experts"] = 5;
  config["num_experts_per_tok"] = 2;
  CHECK(model_spec_from_config(config, "c").num_experts == 5);
  config["num_experts"] = 6;
  CHECK_THAT(error_of([&] { model_spec_from_config(config, "c"); }), Catch::Contains("two names of one setting"));
}

TEST_CASE("dropout inside the base model is left out alike in every family, and said") {
  CHECK(notes_with({{"attention_dropout", 0.1}}).dropouts == std::vector<std::string>{"attention_dropout 0.1"});
  CHECK(notes_with({{"attention_dropout", 0.0}}).dropouts.empty());
  CHECK(read_config(config_of("starcoder2-7b"), "c").notes.dropouts.size() == 3);
  CHECK(read_config(config_of("gpt2"), "c").notes.dropouts.size() == 3);
  TemporaryFolder folder;
  folder.write("config.json", tiny_llama({{"attention_dropout", 0.1}}).dump());
  ModelConfig model{.path = folder.path()};
  CHECK(config_notes(model).dropouts.size() == 1);
  model.dropout = BaseDropout::config;
  CHECK_THAT(error_of([&] { config_notes(model); }), Catch::Contains("attention_dropout 0.1: forge computes no dropout inside the base model"));
  folder.write("config.json", tiny_llama().dump());
  CHECK(error_of([&] { config_notes(model); }) == "no error");
}

TEST_CASE("model_type decides what is built, as in transformers") {
  const ModelSpec bare = model_spec_from_config(tiny_llama(), "c");
  CHECK((bare.family == "llama" && bare.architecture == "LlamaForCausalLM"));
  CHECK(model_spec_from_config(tiny_llama({{"architectures", {"LlamaModel"}}}), "c").architecture == "LlamaForCausalLM");
  const ReadConfig gemma = read_config(tiny_llama({{"model_type", "gemma"}, {"architectures", {"LlamaForCausalLM"}}, {"num_key_value_heads", 2}}), "c");
  CHECK((gemma.spec.family == "gemma" && gemma.spec.norm_offset == 1));
  CHECK(gemma.notes.built == "config.json names LlamaForCausalLM together with model_type gemma: built as GemmaForCausalLM, as transformers does");
  try {
    read_config(tiny_llama({{"model_type", "gemma"}, {"architectures", {"LlamaForCausalLM"}}, {"num_key_value_heads", 2}, {"hidden_act", "silu"}}), "c");
    FAIL("Gemma computes no silu");
  } catch (const Error& error) {
    CHECK_THAT(error.hint(), Catch::StartsWith("config.json names LlamaForCausalLM together with model_type gemma: built as GemmaForCausalLM"));
  }
  Json untyped = tiny_llama({{"architectures", {"LlamaForCausalLM"}}});
  untyped.erase("model_type");
  CHECK_THAT(read_config(untyped, "c").notes.built, Catch::Contains("no model_type, without which transformers refuses it: built as LlamaForCausalLM"));
  const ReadConfig unknown = read_config(tiny_llama({{"model_type", "own"}, {"architectures", {"LlamaForCausalLM"}}}), "c");
  CHECK_THAT(unknown.notes.built, Catch::Contains("model_type \"own\" is unknown here: built as LlamaForCausalLM"));
  const ModelSpec scores = model_spec_from_config(tiny_llama({{"architectures", {"LlamaForSequenceClassification"}}, {"num_labels", 1}}), "c");
  CHECK((scores.score_head && scores.architecture == "LlamaForSequenceClassification"));
  CHECK_THAT(error_of([] { model_spec_from_config({{"vocab_size", 5}}, "c"); }), Catch::Contains("no architecture is named"));
}

TEST_CASE("an empty rope_scaling is none, and two that differ are refused by name") {
  const Json yarn{{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}};
  const Json scaled{{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}};
  const RopeSpec rope = model_spec_from_config(tiny_llama({{"rope_scaling", Json::object()}, {"rope_parameters", scaled}}), "c").rope;
  CHECK((rope.type == RopeType::linear && rope.theta == 5e5));
  CHECK_THAT(error_of([&] { model_spec_from_config(tiny_llama({{"rope_scaling", yarn}, {"rope_parameters", scaled}}), "c"); }),
             Catch::Contains("rope_scaling is {") && Catch::Contains("and rope_parameters {"));
  Json old = yarn;
  old.erase("rope_type"), old["type"] = "yarn";
  CHECK(model_spec_from_config(tiny_llama({{"rope_scaling", old}, {"rope_parameters", yarn}}), "c").rope.type == RopeType::yarn);
  CHECK_THAT(error_of([&] { model_spec_from_config(tiny_llama({{"rope_theta", 1e6}, {"rope_parameters", scaled}}), "c"); }),
             Catch::Contains("rope_theta is 1000000 and rope_parameters.rope_theta 500000"));
}

TEST_CASE("the language model of a class with towers is that of its text_config, with its class's defaults") {
  const ModelSpec gemma = model_spec_from_config(config_of("gemma-3-4b-it"), "c");
  CHECK((gemma.family == "gemma3_text" && gemma.wrapper == "gemma3"));
  CHECK((gemma.vocab_size == 262208 && gemma.num_heads == 8 && gemma.num_kv_heads == 4 && gemma.head_dim == 256));
  CHECK((gemma.tie_word_embeddings && gemma.pad_token_id == 0 && gemma.eos_token_ids == std::vector<int64_t>{1, 106}));
  CHECK((gemma.rope.type == RopeType::linear && gemma.rope.theta == 1e6 && gemma.window_rope_theta == 1e4 && gemma.sliding_window == 1024));
  CHECK(embedding_name(gemma) == "model.language_model.embed_tokens.weight");
  const ModelSpec alone = model_spec_from_config(config_of("gemma-3-4b-text-export"), "c");
  CHECK(count_parameters(base_parameters(gemma)).total == count_parameters(base_parameters(alone)).total);
  const ModelSpec mistral = model_spec_from_config(config_of("Mistral-Small-3.2-24B-2506"), "c");
  CHECK((mistral.family == "mistral" && mistral.sliding_window == 0 && !mistral.tie_word_embeddings));
  const ModelSpec least = model_spec_from_config({{"model_type", "gemma3"}, {"text_config", Json::object()}}, "c");
  CHECK((least.num_layers == 26 && least.hidden_size == 2304 && least.sliding_window == 4096));
}

TEST_CASE("a class with towers is judged by its own keys, its text_config by the language model's") {
  Json config = config_of("gemma-3-4b-it");
  config["mm_pooling"] = "mean";
  config["text_config"]["flavour"] = 3;
  config["text_config"]["final_logit_softcapping"] = 30.0;
  const ReadConfig read = read_config(config, "c");
  CHECK(read.notes.ignored == std::vector<std::string>{"mm_pooling (\"mean\")", "text_config.flavour (3)", "text_config.final_logit_softcapping (30.0)"});
  CHECK(read.spec.logit_softcap == 0);
  config["text_config"]["use_bidirectional_attention"] = true;
  CHECK_THAT(error_of([&] { read_config(config, "c"); }), Catch::Contains("c: text_config: use_bidirectional_attention is true"));
  Json mistral = config_of("Mistral-Small-3.2-24B-2506");
  mistral["text_config"]["model_type"] = "mistral5";
  CHECK_THAT(error_of([&] { read_config(mistral, "c"); }),
             Catch::Contains("text_config is of model_type \"mistral5\"") && Catch::Contains("only around a mistral or a ministral3 or a mistral4"));
  mistral["text_config"] = nullptr;
  CHECK_THAT(error_of([&] { read_config(mistral, "c"); }), Catch::Contains("text_config is null, expected an object"));
  mistral = config_of("Mistral-Small-3.2-24B-2506");
  mistral["quantization_config"] = {{"quant_method", "hqq"}};
  CHECK_THAT(error_of([&] { read_config(mistral, "c"); }), Catch::Contains("already quantised"));
  mistral.erase("quantization_config");
  mistral["tie_word_embeddings"] = true;
  CHECK(read_config(mistral, "c").spec.tie_word_embeddings);
}

TEST_CASE("Ministral 3 grows its queries, alone and in a class with towers") {
  Json config = config_of("Ministral-3-3B-2512");
  const ReadConfig read = read_config(config, "c");
  CHECK((read.spec.wrapper == "mistral3" && read.spec.family == "ministral3" && read.spec.tie_word_embeddings));
  CHECK((read.spec.query_growth == 0.1 && read.spec.query_growth_period == 16384 && read.spec.rope.type == RopeType::yarn));
  CHECK(rope_attention_factor(read.spec.rope) == 1);
  CHECK_THAT(read.notes.built, Catch::Contains("model_type \"ministral3\" is that of its text_config: built as Mistral3ForConditionalGeneration"));
  Json alone = config["text_config"];
  CHECK(model_spec_from_config(alone, "c").query_growth == 0.1);
  alone["rope_parameters"].erase("llama_4_scaling_beta");
  CHECK_THAT(error_of([&] { read_config(alone, "c"); }), Catch::Contains("rope_parameters: llama_4_scaling_beta is missing, expected a number"));
  alone["rope_parameters"] = {{"rope_type", "default"}, {"llama_4_scaling_beta", 0.1}};
  CHECK_THAT(error_of([&] { read_config(alone, "c"); }), Catch::Contains("original_max_position_embeddings is missing"));
  alone.erase("rope_parameters");
  const ModelSpec silent = model_spec_from_config(alone, "c");
  CHECK((silent.rope.theta == 1e6 && silent.rope.factor == 16 && silent.query_growth_period == 16384 && silent.pad_token_id == 11));
}

TEST_CASE("the language model of a Qwen-VL is Qwen's, in both forms of config.json") {
  const Json flat = config_of("Qwen2.5-VL-7B-Instruct");
  const ReadConfig read = read_config(flat, "c");
  CHECK((read.spec.wrapper == "qwen2_5_vl" && read.spec.family == "qwen2" && read.spec.qkv_bias && !read.spec.tie_word_embeddings));
  CHECK((read.spec.rope.type == RopeType::standard && read.spec.rope_sections == std::vector<int64_t>{16, 24, 24}));
  Json nested = flat, text = Json::object();
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "rope_scaling",
                          "rope_theta", "vocab_size", "rms_norm_eps", "max_position_embeddings", "max_window_layers", "sliding_window",
                          "use_sliding_window", "hidden_act", "initializer_range", "bos_token_id", "eos_token_id", "attention_dropout"}) {
    text[key] = flat.at(key);
    nested.erase(key);
  }
  text["model_type"] = "qwen2_5_vl_text";
  nested["text_config"] = text;
  CHECK(read_config(nested, "c").spec == read.spec);
  // The class reads its text_config alone where there is one.
  nested["hidden_size"] = 64;
  CHECK(read_config(nested, "c").spec == read.spec);
  CHECK_THAT(error_of([&] {
               Json other = flat;
               other["rope_scaling"]["mrope_section"] = {16, 24};
               read_config(other, "c");
             }),
             Catch::Contains("rope_scaling.mrope_section is [16,24], expected three numbers"));
  CHECK_THAT(error_of([&] {
               Json other = flat;
               other["rope_scaling"]["mrope_section"] = {16, 24, 23};
               read_config(other, "c");
             }),
             Catch::Contains("mrope_section divides 63 frequencies, expected 64"));
  CHECK_THAT(error_of([&] {
               Json other = nested;
               other["text_config"]["model_type"] = "qwen3";
               read_config(other, "c");
             }),
             Catch::Contains("only around a qwen2_5_vl_text"));
}

TEST_CASE("Qwen3-VL has neither windows nor weights that are not normalised") {
  Json dense = config_of("Qwen3-VL-8B-Instruct");
  const ModelSpec spec = model_spec_from_config(dense, "c");
  CHECK((spec.family == "qwen3" && spec.qk_norm && spec.head_dim == 128 && spec.rope.theta == 5e6 && spec.image_layers == 3));
  dense["text_config"]["sliding_window"] = 512;
  dense["text_config"].erase("rope_theta");
  const ReadConfig read = read_config(dense, "c");
  CHECK((read.spec.sliding_window == 0 && read.spec.rope.theta == 5e5));
  CHECK(read.notes.ignored == std::vector<std::string>{"text_config.sliding_window (512)"});
  Json mixture = config_of("Qwen3-VL-30B-A3B-Instruct");
  mixture["text_config"]["norm_topk_prob"] = false;
  mixture["text_config"]["num_local_experts"] = mixture["text_config"]["num_experts"];  // as transformers 5.17 writes it
  mixture["text_config"].erase("num_experts");
  const ModelSpec experts = model_spec_from_config(mixture, "c");
  CHECK((experts.joined_experts && experts.normalise_experts && experts.num_experts == 128));
}

TEST_CASE("Llama 4 attends within chunks where it turns, and has experts in every so many layers") {
  const Json config = config_of("Llama-4-Maverick-17B-128E-Instruct");
  const ModelSpec spec = model_spec_from_config(config, "c");
  CHECK((spec.wrapper == "llama4" && spec.family == "llama4_text" && spec.joined_experts && spec.rope.interleaved && !spec.unit_norms));
  CHECK((spec.chunk(0) == 8192 && spec.chunk(3) == 0 && spec.turns(0) && !spec.turns(3)));
  CHECK((spec.dense(0) && !spec.dense(1) && spec.intermediate_size == 16384 && spec.expert_size == 8192));
  CHECK((spec.query_growth == 0.1 && spec.query_growth_period == 8192 && spec.growth_of_unturned));
  CHECK(outer_modules(spec).head == std::string("language_model.lm_head"));
  const Json text = config["text_config"];
  const auto refusal = [&](const Json& more) {
    Json other = text;
    other.update(more);
    return error_of([&] { model_spec_from_config(other, "c"); });
  };
  CHECK(refusal(Json::object()) == "no error");
  CHECK_THAT(refusal({{"num_experts_per_tok", 2}}), Catch::Contains("num_experts_per_tok is 2, forge computes only 1"));
  CHECK_THAT(refusal({{"attention_chunk_size", nullptr}}), Catch::Contains("attention_chunk_size is null"));
  CHECK_THAT(refusal({{"no_rope_layers", {1, 0}}}), Catch::Contains("no_rope_layers has fewer entries than num_hidden_layers"));
  Json types = Json::array();
  for (int layer = 0; layer < 48; ++layer) types.push_back("full_attention");
  CHECK(refusal({{"layer_types", types}}) == "no error");
  types[5] = "sliding_attention";
  CHECK_THAT(refusal({{"layer_types", types}}), Catch::Contains("forge computes full_attention and chunked_attention here"));
}

TEST_CASE("Gemma 4 has other heads in layers without a window, by either spelling") {
  const Json config = config_of("gemma-4-31B");
  const ModelSpec spec = model_spec_from_config(config, "c");
  CHECK((spec.wrapper == "gemma4" && spec.family == "gemma4_text" && spec.attention_scale == 1 && spec.keys_as_values));
  CHECK((spec.windowed(0) && spec.head_width(0) == 256 && spec.kv_heads(0) == 16));
  CHECK((!spec.windowed(5) && spec.head_width(5) == 512 && spec.kv_heads(5) == 4));
  CHECK((spec.rope.type == RopeType::proportional && spec.rotary_dim() == 512 && spec.window_rotary_dim() == 256));
  CHECK(spec.angles() == 768);
  const Json text = config["text_config"];
  const auto with = [&](const Json& more) {
    Json other = text;
    other.update(more);
    for (const auto& [key, value] : more.items())
      if (value == "absent") other.erase(key);
    return other;
  };
  const auto refusal = [&](const Json& more) {
    return error_of([&] { model_spec_from_config(with(more), "c"); });
  };
  Json layers = Json::object();
  for (int layer = 5; layer < 60; layer += 6)
    layers[std::to_string(layer)] = {{"head_dim", 512}, {"num_key_value_heads", 4}};
  const Json by_layer = {{"per_layer_config", layers}, {"global_head_dim", "absent"}, {"num_global_key_value_heads", "absent"}};
  ModelSpec alone = model_spec_from_config(with(by_layer), "c");
  CHECK(alone == model_spec_from_config(text, "c"));
  CHECK(refusal(Json::object()) == "no error");
  layers["11"]["head_dim"] = 256;
  CHECK_THAT(refusal({{"per_layer_config", layers}}), Catch::Contains("has other heads in layer 11 than in an earlier one"));
  layers["11"]["head_dim"] = 512, layers["0"] = layers["11"];
  CHECK_THAT(refusal({{"per_layer_config", layers}}), Catch::Contains("has an entry for layer 0"));
  layers.erase("0"), layers.erase("5");
  CHECK_THAT(refusal({{"per_layer_config", layers}}), Catch::Contains("does not have one entry for each layer without a window"));
  CHECK_THAT(refusal({{"use_bidirectional_attention", "all"}}), Catch::Contains("use_bidirectional_attention is \"all\""));
  CHECK_THAT(refusal({{"num_global_key_value_heads", 5}}), Catch::Contains("is not a multiple of num_global_key_value_heads 5"));
  CHECK_THAT(refusal({{"global_head_dim", 511}}), Catch::Contains("global_head_dim 511 is not an even number"));
  Json llama = tiny_llama({{"rope_scaling", {{"rope_type", "proportional"}}}});
  CHECK_THAT(error_of([&] { model_spec_from_config(llama, "c"); }), Catch::Contains("\"proportional\", forge computes default"));
}

TEST_CASE("Gemma 4's small models have layers that share keys, and an embedding for each layer") {
  const Json config = config_of("gemma-4-E2B");
  const ModelSpec spec = model_spec_from_config(config, "c");
  CHECK((spec.layer_input_size == 256 && spec.layer_input_vocab == 262144 && spec.wide_shared_mlps && !spec.keys_as_values));
  CHECK((spec.kv_layer(14) == 14 && spec.kv_layer(15) == 13 && spec.kv_layer(19) == 14 && spec.kv_layer(34) == 14));
  Json text = config["text_config"];
  text["num_kv_shared_layers"] = 31;
  CHECK_THAT(error_of([&] { model_spec_from_config(text, "c"); }), Catch::Contains("no layer of layer 4's type is before those that share"));
  text["num_kv_shared_layers"] = 20, text["vocab_size_per_layer_input"] = 1000;
  CHECK_THAT(error_of([&] { model_spec_from_config(text, "c"); }), Catch::Contains("vocab_size_per_layer_input is less than vocab_size"));
  const ModelSpec mixture = model_spec_from_config(config_of("gemma-4-26B-A4B"), "c");
  CHECK((mixture.num_experts == 128 && mixture.experts_per_token == 8 && mixture.joined_experts && mixture.normalise_experts));
}

TEST_CASE("joined experts that a target names beside linear layers are passed over, as in PEFT") {
  const ModelSpec spec = model_spec_from_config(config_of("Qwen3-VL-30B-A3B-Instruct"), "c");
  AdapterConfig adapter;
  adapter.type = AdapterType::lora;
  adapter.target_modules = {"q_proj", "down_proj"};
  CHECK_THAT(error_of([&] { adapter_sites(spec, adapter); }), Catch::Contains("mlp.experts.down_proj is not a linear layer"));
  adapter.init_from = "an adapter of PEFT, which knows its own layers";
  CHECK(error_of([&] { adapter_sites(spec, adapter); }) == "no error");
  adapter.init_from.reset();
  const ModelSpec llama = model_spec_from_config(config_of("Llama-4-Maverick-17B-128E-Instruct"), "c");
  CHECK(adapter_sites(llama, adapter).size() == 48 + 48);  // q; down of MLPs and of shared experts
  adapter.target_parameters = {"feed_forward.experts.down_proj"};
  CHECK_THAT(error_of([&] { adapter_sites(llama, adapter); }), Catch::Contains("has its A and B in each other's places in PEFT's files"));
}

TEST_CASE("config.json may have Python's NaN and Infinity") {
  TemporaryFolder folder;
  std::string text = tiny_llama().dump();
  text.back() = ',';
  folder.write("config.json", text + R"("time_step_limit":[0.0,Infinity],"low":-Infinity,"none":NaN,"said":"NaN, \"Infinity\""})");
  CHECK(error_of([&] { read_model_spec(folder.path()); }) == "no error");
  const ConfigNotes notes = config_notes({.path = folder.path()});
  CHECK(notes.ignored == std::vector<std::string>{"time_step_limit ([0.0,Infinity])", "low (-Infinity)", "none (NaN)", "said (\"NaN, \\\"Infinity\\\"\")"});
  CHECK_THAT(error_of([] { parse_json("{\"a\": Infinity}", "rows.jsonl", ErrorKind::data); }), Catch::Contains("rows.jsonl:1"));
}

}  // namespace forge
