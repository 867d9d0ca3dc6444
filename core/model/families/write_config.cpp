// Writes a ModelSpec as config.json, for a model that was read from a GGUF.
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"

namespace forge {
namespace {

Json rope_json(const RopeSpec& rope) {
  Json json{{"rope_theta", rope.theta}, {"rope_type", name_of(rope.type)}};
  if (rope.partial_rotary_factor != 1) json["partial_rotary_factor"] = rope.partial_rotary_factor;
  if (rope.type == RopeType::llama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.type == RopeType::longrope) {
    json["short_factor"] = rope.short_factors;
    json["long_factor"] = rope.long_factors;
    if (rope.attention_factor > 0) json["attention_factor"] = rope.attention_factor;
  }
  if (rope.type == RopeType::yarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    if (rope.attention_factor > 0) json["attention_factor"] = rope.attention_factor;
    if (rope.mscale > 0) json["mscale"] = rope.mscale;
    if (rope.mscale_all_dim > 0) json["mscale_all_dim"] = rope.mscale_all_dim;
    if (!rope.truncate) json["truncate"] = false;
  }
  if (rope.type != RopeType::standard) json["factor"] = rope.factor;
  if (rope.original_max_position_embeddings > 0)
    json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  return json;
}

Json id_or_null(int64_t id) { return id >= 0 ? Json(id) : Json(nullptr); }

}  // namespace

std::string scoring_architecture(const ModelSpec& spec) {
  const std::string own = family_of(spec).architecture;
  return own.substr(0, std::min(own.find("ForCausalLM"), own.find("LMHeadModel"))) + std::string(kScoringSuffix);
}

Json config_of_spec(const ModelSpec& spec) {
  const Family& family = family_of(spec);
  FORGE_CHECK(!family.stacks, family.name << " is always read from a config.json");
  Json config{{"architectures", {family.architecture}},
              {"model_type", family.name},
              {"bos_token_id", id_or_null(spec.bos_token_id)},
              {"eos_token_id",
               spec.eos_token_ids.size() == 1 ? Json(spec.eos_token_ids[0]) : Json(spec.eos_token_ids)},
              {"pad_token_id", id_or_null(spec.pad_token_id)},
              {"head_dim", spec.head_dim},
              {"hidden_act", family.activation},
              {"hidden_size", spec.hidden_size},
              {"initializer_range", spec.initializer_range},
              {"intermediate_size", spec.intermediate_size},
              {"max_position_embeddings", spec.max_position_embeddings},
              {"num_attention_heads", spec.num_heads},
              {"num_hidden_layers", spec.num_layers},
              {"num_key_value_heads", spec.num_kv_heads},
              {"rms_norm_eps", spec.rms_norm_eps},
              {"rope_parameters", rope_json(spec.rope)},
              {"rope_theta", spec.rope.theta},
              {"tie_word_embeddings", spec.tie_word_embeddings},
              {"vocab_size", spec.vocab_size}};
  for (const FlagSetting& flag : family.flags) config[flag.key] = spec.*flag.members[0];
  if (family.write) family.write(spec, config);
  for (const auto& [name, its_own] : family.spelling)
    if (auto found = config.find(name); found != config.end()) {
      config[its_own] = *found;
      config.erase(name);
    }
  return config;
}

}  // namespace forge
