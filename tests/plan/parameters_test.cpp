#include "core/model/families/adapter_sites.h"
#include "core/model/families/parameters.h"

#include "core/lib/base/file.h"
#include "core/lib/io/python_json.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/modules.h"
#include "core/plan/files/model_file.h"
#include "tests/test.h"

namespace forge {
namespace {

ModelSpec model(const std::string& name) {
  return read_model_spec(std::string(FORGE_SOURCE_DIR) + "/tests/plan/models/" + name);
}

AdapterConfig lora(int64_t rank, std::vector<std::string> targets = {"all-linear"}) {
  AdapterConfig adapter;
  adapter.type = AdapterType::lora;
  adapter.rank = rank;
  adapter.target_modules = std::move(targets);
  return adapter;
}

int64_t trainable(const ModelSpec& spec, const AdapterConfig& adapter) {
  return count_parameters(run_parameters(spec, adapter, Quantization::none)).trainable;
}

std::string fault_of(const AdapterConfig& adapter) {
  return error_of([&] { run_parameters(model("tinyllama-1.1b"), adapter, Quantization::none); });
}

}  // namespace

// The counts are from transformers 5.17 and peft 0.21 for the same config.json.
TEST_CASE("parameter counts equal those of transformers and PEFT") {
  struct Row {
    const char* name;
    int64_t total, r16, r64, qv16;
  };
  const Row rows[] = {{"llama-3.1-8b", 8030261248, 41943040, 167772160, 6815744},
                      {"tinyllama-1.1b", 1100048384, 12615680, 50462720, 2252800},
                      {"llama-2-7b", 6738415616, 39976960, 159907840, 8388608},
                      {"llama-3.2-1b", 1235814400, 11272192, 45088768, 1703936},
                      {"mistral-7b", 7248023552, 41943040, 167772160, 6815744},
                      {"qwen2.5-0.5b", 494032768, 8798208, 35192832, 1081344},
                      {"smollm2-135m", 134515008, 4884480, 19537920, 921600}};
  for (const Row& row : rows) {
    INFO(row.name);
    const ModelSpec spec = model(row.name);
    CHECK(count_parameters(base_parameters(spec)).total == row.total);
    CHECK(trainable(spec, lora(16)) == row.r16);
    CHECK(trainable(spec, lora(64)) == row.r64);
    CHECK(trainable(spec, lora(16, {"q_proj", "v_proj"})) == row.qv16);
  }
}

// The counts are from transformers 5.23 and peft 0.21. V3's e_score_correction_bias, a buffer
// there, is a parameter that is never trained here.
TEST_CASE("models with experts and latent attention have transformers' and PEFT's counts") {
  struct Row {
    const char* name;
    int64_t total, constant, o16;
  };
  const Row rows[] = {{"gpt-oss-20b", 20914757184, 0, 2678784},
                      {"deepseek-v3", 671026404352, 14848, 22986752},
                      {"deepseek-v2-lite", 15706484224, 0, 1769472}};
  for (const Row& row : rows) {
    INFO(row.name);
    const ModelSpec spec = model(row.name);
    CHECK(count_parameters(base_parameters(spec)).total == row.total + row.constant);
    CHECK(trainable(spec, {}) == row.total);
    CHECK(trainable(spec, lora(16, {"o_proj"})) == row.o16);
    for (const Parameter& p : run_parameters(spec, lora(16), Quantization::nf4)) {
      INFO(p.name);
      if (p.name.find("mlp.gate.") != p.name.npos || p.name.find("router") != p.name.npos) CHECK_FALSE(p.quantized);
    }
  }
  const ModelSpec oss = model("gpt-oss-20b");
  CHECK(trainable(oss, lora(16)) == 7962624);
  AdapterConfig joined = lora(16);
  joined.target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  CHECK(trainable(oss, joined) == 184909824);
}

// The counts are those of peft 0.21.2's all-linear on transformers 5.17's model of the config.json.
TEST_CASE("all-linear of a mixture is counted beside PEFT's, to which experts and routers are no linear layers") {
  struct Row {
    const char* name;
    int64_t modules, parameters;
    bool differs;
  };
  const Row rows[] = {{"Mixtral-8x7B-v0.1", 128, 13631488, true},    {"Qwen1.5-MoE-A2.7B", 192, 15925632, true},
                      {"Qwen3-30B-A3B-FP8", 192, 13369344, true},    {"DeepSeek-V2-Lite", 189, 13799424, true},
                      {"gpt-oss-120b", 144, 11943936, false},        {"Qwen3-Coder-480B-A35B-Instruct", 248, 50790400, true}};
  for (const Row& row : rows) {
    INFO(row.name);
    const std::string path = std::string(FORGE_SOURCE_DIR) + "/tests/plan/published/" + row.name + ".json";
    const ModelSpec spec = model_spec_from_config(parse_python_json(read_file(path, 1 << 22, ErrorKind::internal), path), path);
    const TargetMatch match = target_matches(spec, lora(16)).at(0);
    CHECK(match.peft_modules == row.modules);
    CHECK(match.peft_parameters == row.parameters);
    CHECK(match.parameters == trainable(spec, lora(16)));
    CHECK((match.parameters != match.peft_parameters) == row.differs);
    for (const TargetMatch& named : target_matches(spec, lora(16, {"q_proj", "o_proj"}))) CHECK(named.parameters == named.peft_parameters);
  }
}

TEST_CASE("adapters of joined experts are named and refused as PEFT does") {
  const ModelSpec spec = model("gpt-oss-20b");
  AdapterConfig adapter = lora(4, {"q_proj"});
  const auto names_of = [&](std::vector<std::string> targets) {
    adapter.target_parameters = std::move(targets);
    std::vector<std::string> names;
    for (const AdapterSite& site : adapter_sites(spec, adapter))
      if (site.layer == 0 && site.experts > 0) names.push_back(site.adapter);
    return names;
  };
  const std::string holder = "model.layers.0.mlp.experts";
  CHECK(names_of({"experts.down_proj", "experts.gate_up_proj"}) == std::vector<std::string>{holder + ".base_layer", holder});
  CHECK(names_of({"mlp.experts.gate_up_proj"}) == std::vector<std::string>{holder});
  adapter.target_parameters = {"mlp.experts.up_proj"};
  CHECK(error_of([&] { adapter_sites(spec, adapter); }).find("names no tensor that holds all experts") != std::string::npos);
  adapter.target_parameters = {"mlp.experts.down_proj"};
  adapter.dropout = 0.1;
  CHECK(error_of([&] { adapter_sites(spec, adapter); }).find("adapter.dropout") != std::string::npos);
}

TEST_CASE("the linear weights of an 8B decoder are those that quantise") {
  int64_t quantized = 0;
  for (const Parameter& p : run_parameters(model("llama-3.1-8b"), lora(16), Quantization::nf4))
    if (p.quantized) quantized += p.count();
  CHECK(quantized == 6979321856);
}

TEST_CASE("full fine-tuning trains every tensor, and norms and biases never decay") {
  const ModelSpec spec = model("qwen2.5-0.5b");
  const auto parameters = run_parameters(spec, AdapterConfig(), Quantization::none);
  CHECK(parameters.front().name == "model.embed_tokens.weight");
  CHECK(parameters.back().name == "model.norm.weight");  // the head is the embedding
  for (const Parameter& p : parameters) {
    CHECK(p.trainable);
    CHECK(p.weight_decay == (p.role != Role::norm && p.role != Role::bias));
  }
}

TEST_CASE("targets match as PEFT matches them") {
  const ModelSpec spec = model("tinyllama-1.1b");
  CHECK(adapter_sites(spec, lora(8)).size() == 22 * 7);
  CHECK(adapter_sites(spec, lora(8, {"self_attn.q_proj"})).size() == 22);
  CHECK(adapter_sites(spec, lora(8, {"model.layers.3.mlp.up_proj"})).size() == 1);
  CHECK(adapter_sites(spec, lora(8, {"q_proj", "down_proj"})).size() == 44);
  AdapterConfig regex = lora(8, {".*layers\\.(0|1)\\..*(q|v)_proj"});
  regex.target_is_regex = true;
  CHECK(adapter_sites(spec, regex).size() == 4);
  AdapterConfig layers = lora(8, {"q_proj"});
  layers.layers_to_transform = {0, 21};
  CHECK(adapter_sites(spec, layers).size() == 2);
  AdapterConfig excluded = lora(8);
  excluded.exclude_modules = {"mlp.up_proj", "k_proj"};
  CHECK(adapter_sites(spec, excluded).size() == 22 * 5);
  CHECK(target_matches(spec, lora(8, {"q_proj", "down_proj"}))[0].modules == 22);
}

TEST_CASE("rank and alpha patterns, rslora") {
  AdapterConfig adapter = lora(16, {"q_proj", "v_proj"});
  adapter.alpha = 32;
  adapter.rank_pattern = {{{"layers.1.self_attn.q_proj", 4}, {"v_proj", 64}}};
  adapter.alpha_pattern = {{{"layers\\.[01]\\.self_attn\\.v_proj", 128}}};
  const auto sites = adapter_sites(model("tinyllama-1.1b"), adapter);
  CHECK(sites[0].scale == 2);
  CHECK(sites[2].rank == 4);  // layer 1 q
  CHECK(sites[2].scale == 8);
  CHECK(sites[3].rank == 64);  // layer 1 v
  CHECK(sites[3].alpha == 128);
  CHECK(sites[5].alpha == 32);
  // "layers.1" ends on a dot boundary before it: layer 11 and 21 keep their rank.
  CHECK(sites[2 * 11].rank == 16);
  adapter.use_rslora = true;
  CHECK(adapter_sites(model("tinyllama-1.1b"), adapter)[0].scale == 8);
}

TEST_CASE("DoRA adds a magnitude per output row, modules_to_save a trainable copy") {
  const ModelSpec spec = model("llama-3.2-1b");
  AdapterConfig whole = lora(8);
  whole.modules_to_save = {"lm_head", "embed_tokens"};
  CHECK(trainable(spec, whole) == 530972672);  // as PEFT counts
  AdapterConfig adapter = lora(16, {"q_proj"});
  const int64_t plain = trainable(spec, adapter);
  adapter.use_dora = true;
  CHECK(trainable(spec, adapter) - plain == 16 * 2048);
  adapter.use_dora = false;
  adapter.modules_to_save = {"lm_head", "embed_tokens"};
  CHECK(trainable(spec, adapter) - plain == 2 * 128256 * 2048);
  const auto parameters = run_parameters(spec, adapter, Quantization::none);
  CHECK(parameters.back().name == "base_model.model.lm_head.weight");
}

TEST_CASE("targets that match nothing are named, all of them") {
  AdapterConfig adapter = lora(8, {"q_prj", "up_proj", "w1"});
  CHECK_THAT(fault_of(adapter),
             Catch::Contains("\"q_prj\" matches no linear layer (did you mean \"q_proj\"?)"));
  CHECK_THAT(fault_of(adapter), Catch::Contains("\"w1\" matches no linear layer"));
  CHECK_THAT(fault_of(adapter), !Catch::Contains("up_proj"));
  CHECK_THAT(fault_of(lora(8, {"model.norm"})),
             Catch::Contains("model.norm is not a linear layer"));
  adapter = lora(8);
  adapter.layers_to_transform = {22};
  CHECK_THAT(fault_of(adapter), Catch::Contains("layer 22 does not exist, the model has 0 to 21"));
  adapter = lora(8);
  adapter.rank_pattern = {{{"w_proj", 4}}};
  CHECK_THAT(fault_of(adapter),
             Catch::Contains("adapter.rank_pattern: \"w_proj\" matches no adapted module"));
  adapter.rank_pattern = {{{"q_proj", 4}, {"layers.0.self_attn.q_proj", 16}}};
  CHECK_THAT(fault_of(adapter), Catch::Contains("\"layers.0.self_attn.q_proj\" has no effect: \"q_proj\" comes before it"));
  adapter.rank_pattern = {{{"layers.0.self_attn.q_proj", 16}, {"q_proj", 4}}};
  CHECK(!adapter_sites(model("tinyllama-1.1b"), adapter).empty());
  adapter = lora(8);
  adapter.modules_to_save = {"score"};
  CHECK_THAT(fault_of(adapter), Catch::Contains("adapter.modules_to_save: \"score\" names no module"));
}

TEST_CASE("a hostile regex ends") {
  AdapterConfig adapter = lora(8, {"((a|.)*)*b"});
  adapter.target_is_regex = true;
  CHECK_THAT(fault_of(adapter),
             Catch::Contains("too many steps") || Catch::Contains("matches no linear layer"));
  adapter.target_modules = {"(q_proj"};
  CHECK_THAT(fault_of(adapter), Catch::Contains("not a regular expression"));
}

namespace {
struct Headers : TensorFile {
  std::vector<TensorInfo> list;
  const std::vector<TensorInfo>& tensors() const override { return list; }
  std::string_view bytes(size_t) const override { return {}; }
  int64_t file_bytes() const override { return 0; }
  std::string header_hash() const override { return ""; }
};
}  // namespace

TEST_CASE("a weight file is held against the parameter list") {
  const ModelSpec spec = model("smollm2-135m");
  Headers file;
  for (const Parameter& p : base_parameters(spec)) file.list.push_back({p.name, p.shape, DType::f32});
  file.list.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {32}, DType::f32});
  file.list.push_back({"lm_head.weight", {49152, 576}, DType::f32});
  CHECK(error_of([&] { check_model_file(spec, file, "m"); }) == "no error");
  file.list[1].shape = {576, 575};
  file.list[2].name = "model.layers.0.self_attn.qk_norm.weight";
  const std::string faults = error_of([&] { check_model_file(spec, file, "m"); });
  CHECK_THAT(
      faults,
      Catch::Contains(
          "m: tensor model.layers.0.self_attn.q_proj.weight has shape [576, 575], expected [576, 576]"));
  CHECK_THAT(faults,
             Catch::Contains("m: tensor model.layers.0.self_attn.k_proj.weight [192, 576] is missing"));
  CHECK_THAT(faults, Catch::Contains("qk_norm.weight is not part of a LlamaForCausalLM"));
}

}  // namespace forge
