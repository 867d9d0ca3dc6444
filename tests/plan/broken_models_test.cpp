// Refuses weights that are not those of the config.json beside them, by tensor and reason.
#include <functional>

#include "core/lib/io/safetensors.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/parameters.h"
#include "core/model/families/stored_file.h"
#include "core/plan/files/model_file.h"
#include "tests/test.h"

using namespace forge;

namespace {

Json tiny(const Json& more) {
  Json config{{"vocab_size", 64},
              {"hidden_size", 32},
              {"intermediate_size", 64},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 2},
              {"num_key_value_heads", 2},
              {"tie_word_embeddings", false}};
  config.update(more);
  return config;
}

const Json kLlama{{"model_type", "llama"}};
const Json kMixtral{
    {"model_type", "mixtral"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}};

// A tensor of the file with its bytes.
struct Stored {
  TensorInfo info;
  std::string bytes;
};

Stored zeros(const std::string& name, const std::vector<int64_t>& shape, DType dtype = DType::f32) {
  const TensorInfo info{name, shape, dtype};
  return {info, std::string(static_cast<size_t>(bytes_of(dtype, info.count())), '\0')};
}

// Returns what check_model_file says of a model's file after `change`, opened with `other`.
using Change = std::function<void(std::vector<Stored>& tensors)>;
std::string said(const Json& config, const Json& other, const Change& change) {
  const TemporaryFolder folder;
  std::vector<Stored> tensors;
  for (const Parameter& parameter : base_parameters(model_spec_from_config(tiny(config), "c")))
    tensors.push_back(zeros(parameter.name, parameter.shape));
  change(tensors);
  std::vector<SafetensorsEntry> entries;
  for (const Stored& tensor : tensors) entries.push_back({tensor.info, tensor.bytes});
  write_safetensors(folder.path("model.safetensors"), entries);
  const ModelSpec spec = model_spec_from_config(tiny(other), "c");
  return error_of([&] { check_model_file(spec, *open_weights(spec, folder.path()), "models/m"); });
}

void nothing(std::vector<Stored>&) {}

}  // namespace

TEST_CASE("a whole model is no fault, one expert short is, by the expert's tensors") {
  CHECK(said(kMixtral, kMixtral, nothing) == "no error");
  const std::string error = said(kMixtral, kMixtral, [](std::vector<Stored>& tensors) {
    std::erase_if(tensors, [](const Stored& tensor) {
      return tensor.info.name.find("layers.1.") != std::string::npos &&
             tensor.info.name.find("experts.3.") != std::string::npos;
    });
  });
  CHECK_THAT(error, Catch::StartsWith("models/m: tensor "));
  CHECK_THAT(error,
             Catch::Contains("layers.1.block_sparse_moe.experts.3.w1.weight [64, 32] is missing"));
  CHECK(error.find("experts.2.") == std::string::npos);
}

TEST_CASE("experts that files hold under another name are missed by that name") {
  const Json granite{
      {"model_type", "granitemoe"}, {"num_local_experts", 4}, {"num_experts_per_tok", 2}};
  CHECK(said(granite, granite, nothing) == "no error");
  const std::string error = said(granite, granite, [](std::vector<Stored>& tensors) {
    std::erase_if(tensors, [](const Stored& tensor) {
      return tensor.info.name == "model.layers.1.block_sparse_moe.experts.gate_up_proj";
    });
  });
  CHECK_THAT(error, Catch::Contains("tensor model.layers.1.block_sparse_moe.input_linear.weight "
                                    "[4, 128, 32] is missing"));
}

TEST_CASE("a config.json of one model beside the weights of another is refused by shape and name") {
  Json wider = kLlama;
  wider["hidden_size"] = 64;
  CHECK_THAT(
      said(kLlama, wider, nothing),
      Catch::Contains("tensor model.embed_tokens.weight has shape [64, 32], expected [64, 64]"));
  CHECK_THAT(said(kMixtral, kLlama, nothing),
             Catch::Contains("mlp.up_proj.weight [64, 32] is missing") &&
                 Catch::Contains("is not part of a LlamaForCausalLM"));
}

TEST_CASE("a bias beside a matrix in codes is left out if it is zero, and refused if it is not") {
  const std::string module = "model.layers.0.self_attn.q_proj";
  const auto with_bias = [&](bool coded, char byte) {
    return said(kLlama, kLlama, [&](std::vector<Stored>& tensors) {
      for (Stored& tensor : tensors)
        if (coded && tensor.info.name == module + ".weight")
          tensor = zeros(module + ".weight", {32, 32}, DType::i8);
      if (coded) tensors.push_back(zeros(module + ".SCB", {32}));
      tensors.push_back(zeros(module + ".bias", {32}));
      tensors.back().bytes[5] = byte;
    });
  };
  CHECK(with_bias(true, '\0') == "no error");
  CHECK_THAT(with_bias(true, '\1'), Catch::Contains(module + ".bias is not part of"));
  CHECK_THAT(with_bias(false, '\0'), Catch::Contains(module + ".bias is not part of"));
}

TEST_CASE("modules that a file keeps out of its codes stay plain in a base of blocks, not in fp8") {
  Json config = kLlama;
  config["quantization_config"] = {{"quant_method", "bitsandbytes"},
                                   {"load_in_4bit", true},
                                   {"llm_int8_skip_modules", {"lm_head", "model.layers.1.mlp"}}};
  const ModelSpec spec = model_spec_from_config(tiny(config), "c");
  AdapterConfig lora;
  lora.type = AdapterType::lora;
  const auto quantized = [&](const ModelSpec& of, Quantization quantization) {
    int count = 0;
    for (const Parameter& parameter : run_parameters(of, lora, quantization)) {
      count += parameter.quantized;
      if (parameter.name.find("layers.1.mlp") == std::string::npos) continue;
      if (quantization != Quantization::fp8 && !of.kept_modules.empty())
        CHECK_FALSE(parameter.quantized);
    }
    return count;
  };
  const ModelSpec plain = model_spec_from_config(tiny(kLlama), "c");
  for (const Quantization of : {Quantization::nf4, Quantization::fp4, Quantization::int8}) {
    CHECK(quantized(spec, of) == quantized(plain, of) - 3);
    CHECK(quantized(spec, of) == 11);
  }
  CHECK(quantized(spec, Quantization::fp8) == quantized(plain, Quantization::fp8));
  ModelSpec again;
  from_json(Json(spec), again);
  CHECK(again.kept_modules == spec.kept_modules);
}
