// Tests family files: what is read of them, how hostile ones are refused, and that a described
// family is the same as one of forge's own.

#include <array>

#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/model/families/described_family.h"
#include "core/model/families/family.h"
#include "core/model/families/parameters.h"
#include "core/model/graph/check.h"
#include "tests/graph/lists_of.h"
#include "tests/test.h"

namespace forge {
namespace {

const std::string kHelium = std::string(FORGE_SOURCE_DIR) + "/examples/families/helium.yaml";

std::string helium() { return read_file(kHelium, kLargestDescription, ErrorKind::internal); }

// Returns the text of helium.yaml with `old` replaced.
std::string with(const std::string& old, const std::string& text) {
  std::string all = helium();
  const size_t at = all.find(old);
  REQUIRE(at != std::string::npos);
  return all.replace(at, old.size(), text);
}

std::string faults_of(const std::string& text) {
  return error_of([&] { parse_description(text, "f.yaml"); });
}

Json config(const Json& more = {}) {
  Json all{{"model_type", "helium"},   {"architectures", {"HeliumForCausalLM"}},
           {"vocab_size", 384},        {"hidden_size", 64},
           {"intermediate_size", 88},  {"num_hidden_layers", 3},
           {"num_attention_heads", 4}, {"num_key_value_heads", 2},
           {"head_dim", 16},           {"rms_norm_eps", 1e-6},
           {"eos_token_id", 2}};
  if (!more.is_null()) all.update(more);
  return all;
}

// Returns the model that helium.yaml makes of a config.json.
ModelSpec spec_of(const Json& config, const std::string& text) {
  return model_spec_from_config(config, "config.json", &described_family(text, "f.yaml"));
}

struct Case {
  const char *old, *text, *fault;
};

}  // namespace

TEST_CASE("a family file is read") {
  const Description d = parse_description(helium(), "f.yaml");
  CHECK(d.name == "helium");
  CHECK(d.neighbours);
  CHECK(d.head_dim == 128);
  CHECK(d.settings.size() == 2);
  CHECK(d.layer.steps.size() == 11);
  CHECK(d.layer.steps[0].at.text() == "f.yaml:19:3");
}

TEST_CASE("a hostile family file is refused with line and reason") {
  const auto all = std::to_array<Case>({
      {"form: 1", "form: 2", "f.yaml:3:7: form: 2 is outside 1 to 1"},
      {"form: 1\n", "", "form: is missing"},
      {"name: helium", "name: hel/ium", "is no name"},
      {"name: helium", "name: [helium]", "f.yaml:4:7: name"},
      {"name: helium", "nam: helium", "nam: unknown key (did you mean \"name\"?)"},
      {"architecture: HeliumForCausalLM", "gguf: helium", "\"helium\" is not one of llama"},
      {"head_dim: 128", "head_dim: 99999999999",
       "defaults.head_dim: 99999999999 is outside 2 to 4096"},
      {"head_dim: 128", "head_dim: 1e999", "defaults.head_dim"},
      {"head_dim: 128", "head_dimm: 128",
       "defaults.head_dimm: unknown key (did you mean \"head_dim\"?)"},
      {"max_position_embeddings: 4096", "max_position_embeddings: -1", "is outside 1"},
      {"rope_theta: 100000", "rope_theta: .inf", "rope_theta"},
      {"rotary_pairs: neighbours", "rotary_pairs: neighbors", "did you mean \"neighbours\"?"},
      {"sets: qkv_bias", "sets: qkv_bais",
       "unknown member \"qkv_bais\" (did you mean \"qkv_bias\"?)"},
      {"{sets: qkv_bias, default: false}", "{sets: qkv_bias, default: 3}",
       "settings.attention_bias.default: is not true or false, which qkv_bias is"},
      {"{sets: qkv_bias, default: false}", "{sets: [qkv_bias, num_experts], default: false}",
       "names members of different types"},
      {"{sets: qkv_bias, default: false}", "{sets: residual_scale, between: [0, 1], default: 1}",
       "the range of residual_scale"},
      {"{sets: qkv_bias, default: false}", "{default: false}",
       "says neither what it sets nor what it must be"},
      {"{sets: qkv_bias, default: false}", "{must_be: false}", "because: is missing"},
      {"{sets: qkv_bias, default: false}", "yes", "expected a map of keys"},
      {"rms_norm_eps: 1e-8", "rms_norm_eps: &eps 1e-8",
       "anchors (&name) and aliases (*name) are not supported"},
      {"rms_norm_eps: 1e-8", "rms_norm_eps: !!float 1e-8", "tags (!name) are not supported"},
      {"rms_norm_eps: 1e-8", "<<: *base", "merge keys (<<) are not supported"},
      {"layer: |\n", "layer: >\n", "f.yaml"},
      {"layer: |\n", "layers: |\n", "unknown key (did you mean \"layer\"?)"},
      {"x = norm(h, input_layernorm)", "x = nrom(h, input_layernorm)",
       "f.yaml:19:7: layer: unknown op \"nrom\" (did you mean \"norm\"?)"},
      {"x = norm(h, input_layernorm)", "x = norm(y, input_layernorm)",
       "f.yaml:19:3: layer: y is read before it is made (line 23 makes it)"},
      {"q_proj: q_width", "q_proj: 4194305", "unknown size \"4194305\""},
  });
  for (const Case& test : all) {
    INFO(test.text);
    const std::string text = with(test.old, test.text);
    CHECK_THAT(faults_of(text), Catch::Contains(test.fault));
    CHECK_THROWS_AS(parse_description(text, "f.yaml"), JobErrors);  // exit code 3
  }
}

TEST_CASE("an alias to its own ancestor, deep nesting and large files are refused") {
  CHECK_THAT(faults_of("form: &a [*a]\n"), Catch::Contains("f.yaml:1:"));
  CHECK_THAT(faults_of("form: &a {b: &c [*a, *c]}\n"), Catch::Contains("anchors"));
  CHECK_THAT(faults_of(std::string(100, '[') + std::string(100, ']')),
             Catch::Contains("nested deeper than 64 levels"));
  CHECK_THAT(faults_of(helium() + std::string(70000, '\n')), Catch::Contains("is larger than 64"));
  CHECK_THAT(faults_of(""), Catch::Contains("expected a map of keys"));
  CHECK_THAT(faults_of(std::string("form: 1\0name: x", 15)),
             Catch::Contains("a control character"));
  std::string many = "form: 1\nsettings:\n";
  for (int i = 0; i < 100; ++i)
    many += fmt::format("  key{}: {{must_be: 0, because: no reason}}\n", i);
  CHECK_THAT(faults_of(many), Catch::Contains("has more than 64 keys"));
}

TEST_CASE("all faults of a family file are told at once") {
  const std::string faults = faults_of(
      "form: 1\nnam: x\ndefaults: {head_dim: 0}\nlayer: |\n  x = nrom(h, a)\n  y = linear(h, b: "
      "hiden)\n");
  INFO(faults);
  for (const char* part : {"nam: unknown key", "name: is missing", "architecture: is missing",
                           "defaults.head_dim", "f.yaml:5:7", "f.yaml:6:20"})
    CHECK_THAT(faults, Catch::Contains(part));
}

TEST_CASE("a described family reads its config.json") {
  const ModelSpec spec = spec_of(config({{"attention_bias", true}}), helium());
  CHECK(spec.family == "helium");
  CHECK(spec.qkv_bias);
  CHECK_FALSE(spec.o_bias);
  CHECK(spec.rope.interleaved);
  CHECK(spec.rope.theta == 100000);
  CHECK(base_parameters(spec).size() == 3 * 12 + 3);
  CHECK(config_of_spec(spec)["attention_bias"] == true);
  const auto fault = [&](const Json& more, const std::string& text = helium()) {
    return error_of([&] { spec_of(config(more), text); });
  };
  CHECK_THAT(fault({{"model_type", "llama"}}),
             Catch::Contains("model_type is \"llama\", and f.yaml describes helium"));
  CHECK_THAT(fault({{"attention_bias", 3}}),
             Catch::Contains("attention_bias is 3, expected true or false"));
  CHECK_THAT(
      fault({{"use_magic", true}}),
      Catch::Contains("use_magic is true, a setting forge does not know and would have to ignore"));
  CHECK_THAT(fault({{"hidden_act", "relu"}}), Catch::Contains("hidden_act is \"relu\""));
  CHECK(fault({{"use_magic", true}}, with("rotary_pairs", "ignores: [use_magic]\nrotary_pairs")) ==
        "no error");
  CHECK_THAT(fault({{"attention_bias", true}}, with("{sets: qkv_bias, default: false}",
                                                    "{must_be: false, because: no biases}")),
             Catch::Contains("attention_bias is true, forge computes only false (no biases)"));
  CHECK_THAT(fault({}, with("self_attn.q_proj: q_width", "self_attn.q_proj: hidden + 1")),
             Catch::Contains("f.yaml:21:3: layer: rope: q is 65 wide, expected 4 heads of 16"));
}

TEST_CASE("the spec carries its family file") {
  const ModelSpec spec = spec_of(config(), helium());
  const Json json = spec;
  CHECK(json.at("described") == helium());
  const ModelSpec again = json.get<ModelSpec>();
  CHECK(again == spec);
  CHECK(family_of(again).architecture == "HeliumForCausalLM");
  CHECK_FALSE(Json(tiny()).contains("described"));
}

TEST_CASE("a described layer is the list that a page of C++ records") {
  // Llama's tensors under Helium's class: the same layer but for the pairs of its angles.
  Json llama = config({{"model_type", "llama"}, {"architectures", {"LlamaForCausalLM"}}});
  ModelSpec own = model_spec_from_config(llama, "config.json");
  own.rope.interleaved = true;
  const ModelSpec spec = spec_of(config(), helium());
  const auto policy = GENERATE(Checkpointing::none, Checkpointing::selective, Checkpointing::full);
  for (const AdapterConfig& adapter : {AdapterConfig{}, lora()}) {
    const Graph list = step_of(spec, adapter, policy), same = step_of(own, adapter, policy);
    CHECK(step_faults(list) == std::vector<std::string>{});
    REQUIRE(list.ops.size() == same.ops.size());
    for (size_t i = 0; i < list.ops.size(); ++i) {
      CHECK(list.ops[i].kind == same.ops[i].kind);
      CHECK(list.ops[i].in == same.ops[i].in);
    }
    for (size_t i = 0; i < list.modules.size(); ++i)
      CHECK(list.modules[i].path == same.modules[i].path);
  }
}

TEST_CASE("each of forge's own family files makes the family of its name") {
  int files = 0;
  for (const Family& family : families()) {
    if (!family.described) continue;
    ++files;
    INFO(family.described->file);
    CHECK(family.described->file == family.name + ".yaml");
    CHECK(family.described->text == built_in_description(family.described->file));
  }
  CHECK(files >= 5);
}

}  // namespace forge
