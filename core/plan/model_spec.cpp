#include "core/plan/model_spec.h"

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/plan/families.h"
#include "core/plan/gguf_spec.h"

namespace forge {
namespace {

Json to_json(const RopeSpec& rope) {
  return Json{{"type", name_of(rope.type)},
              {"theta", rope.theta},
              {"factor", rope.factor},
              {"original_max_position_embeddings", rope.original_max_position_embeddings},
              {"low_freq_factor", rope.low_freq_factor},
              {"high_freq_factor", rope.high_freq_factor},
              {"beta_fast", rope.beta_fast},
              {"beta_slow", rope.beta_slow},
              {"attention_factor", rope.attention_factor},
              {"mscale", rope.mscale},
              {"mscale_all_dim", rope.mscale_all_dim},
              {"truncate", rope.truncate},
              {"partial_rotary_factor", rope.partial_rotary_factor}};
}

RopeType rope_type_of(const std::string& name) {
  for (RopeType type :
       {RopeType::standard, RopeType::linear, RopeType::dynamic, RopeType::llama3, RopeType::yarn})
    if (name == name_of(type)) return type;
  throw Error(ErrorKind::environment, "model spec: unknown rope type \"" + name + "\"");
}

RopeSpec rope_from_json(const Json& json) {
  RopeSpec rope;
  rope.type = rope_type_of(json.at("type").get<std::string>());
  json.at("theta").get_to(rope.theta);
  json.at("factor").get_to(rope.factor);
  json.at("original_max_position_embeddings").get_to(rope.original_max_position_embeddings);
  json.at("low_freq_factor").get_to(rope.low_freq_factor);
  json.at("high_freq_factor").get_to(rope.high_freq_factor);
  json.at("beta_fast").get_to(rope.beta_fast);
  json.at("beta_slow").get_to(rope.beta_slow);
  json.at("attention_factor").get_to(rope.attention_factor);
  json.at("mscale").get_to(rope.mscale);
  json.at("mscale_all_dim").get_to(rope.mscale_all_dim);
  json.at("truncate").get_to(rope.truncate);
  json.at("partial_rotary_factor").get_to(rope.partial_rotary_factor);
  return rope;
}

constexpr int64_t kLargestConfig = 16 << 20;

}  // namespace

Json to_json(const ModelSpec& spec) {
  return Json{{"family", spec.family},
              {"architecture", spec.architecture},
              {"vocab_size", spec.vocab_size},
              {"hidden_size", spec.hidden_size},
              {"intermediate_size", spec.intermediate_size},
              {"num_layers", spec.num_layers},
              {"num_heads", spec.num_heads},
              {"num_kv_heads", spec.num_kv_heads},
              {"head_dim", spec.head_dim},
              {"max_position_embeddings", spec.max_position_embeddings},
              {"rms_norm_eps", spec.rms_norm_eps},
              {"tie_word_embeddings", spec.tie_word_embeddings},
              {"qkv_bias", spec.qkv_bias},
              {"o_bias", spec.o_bias},
              {"mlp_bias", spec.mlp_bias},
              {"rope", to_json(spec.rope)},
              {"eos_token_ids", spec.eos_token_ids},
              {"bos_token_id", spec.bos_token_id},
              {"pad_token_id", spec.pad_token_id}};
}

ModelSpec model_spec_from_json(const Json& json) {
  ModelSpec spec;
  json.at("family").get_to(spec.family);
  json.at("architecture").get_to(spec.architecture);
  json.at("vocab_size").get_to(spec.vocab_size);
  json.at("hidden_size").get_to(spec.hidden_size);
  json.at("intermediate_size").get_to(spec.intermediate_size);
  json.at("num_layers").get_to(spec.num_layers);
  json.at("num_heads").get_to(spec.num_heads);
  json.at("num_kv_heads").get_to(spec.num_kv_heads);
  json.at("head_dim").get_to(spec.head_dim);
  json.at("max_position_embeddings").get_to(spec.max_position_embeddings);
  json.at("rms_norm_eps").get_to(spec.rms_norm_eps);
  json.at("tie_word_embeddings").get_to(spec.tie_word_embeddings);
  json.at("qkv_bias").get_to(spec.qkv_bias);
  json.at("o_bias").get_to(spec.o_bias);
  json.at("mlp_bias").get_to(spec.mlp_bias);
  spec.rope = rope_from_json(json.at("rope"));
  json.at("eos_token_ids").get_to(spec.eos_token_ids);
  json.at("bos_token_id").get_to(spec.bos_token_id);
  json.at("pad_token_id").get_to(spec.pad_token_id);
  return spec;
}

ModelSpec read_model_spec(const std::string& path) {
  if (!is_directory(path)) {
    if (ends_with(lower(path), ".gguf")) return model_spec_of_gguf(path);
    if (!file_exists(path))
      throw Error(ErrorKind::environment, path + ": no such model")
          .hint("model.path is a Hugging Face folder with config.json, or a .gguf file");
    throw Error(ErrorKind::environment, path + ": not a model")
        .hint("model.path is a Hugging Face folder with config.json, or a .gguf file");
  }
  const std::string file = path + "/config.json";
  if (!file_exists(file))
    throw Error(ErrorKind::environment, path + ": a folder without config.json")
        .hint("model.path is a Hugging Face folder with config.json, or a .gguf file");
  const Json config =
      parse_json(read_file(file, kLargestConfig, ErrorKind::environment), file, ErrorKind::environment);
  return model_spec_from_config(config, file);
}

}  // namespace forge
