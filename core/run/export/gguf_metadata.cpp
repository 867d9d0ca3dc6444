#include "core/run/export/gguf_metadata.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/family.h"
#include "core/model/families/wrapper.h"

namespace forge {
namespace {

// Writes keys with the architecture as prefix: integer("block_count") writes "llama.block_count".
class Keys {
 public:
  Keys(const std::string& architecture, GgufMetadata& metadata) : prefix_(architecture + "."), metadata_(metadata) {}
  void integer(const char* key, int64_t value) { metadata_.integer(prefix_ + key, value); }
  void integers(const char* key, const std::vector<int32_t>& values) { metadata_.integers(prefix_ + key, values); }
  void number(const char* key, double value) { metadata_.number(prefix_ + key, value); }
  void flag(const char* key, bool value) { metadata_.flag(prefix_ + key, value); }
  void text(const char* key, const char* value) { metadata_.text(prefix_ + key, value); }

 private:
  std::string prefix_;
  GgufMetadata& metadata_;
};

void add_rope(const ModelSpec& spec, Keys& keys) {
  const RopeSpec& rope = spec.rope;
  keys.number("rope.freq_base", rope.theta);
  keys.integer("rope.dimension_count", std::llround(static_cast<double>(spec.head_dim) * rope.partial_rotary_factor));
  switch (rope.type) {
    case RopeType::standard:
    case RopeType::llama3:  // given by a tensor
    case RopeType::proportional:
      return;
    case RopeType::linear:
      keys.text("rope.scaling.type", "linear");
      keys.number("rope.scaling.factor", rope.factor);
      return;
    case RopeType::yarn:
      keys.text("rope.scaling.type", "yarn");
      keys.number("rope.scaling.factor", rope.factor);
      keys.integer("rope.scaling.original_context_length", rope.original_max_position_embeddings);
      keys.number("rope.scaling.yarn_beta_fast", rope.beta_fast);
      keys.number("rope.scaling.yarn_beta_slow", rope.beta_slow);
      return;
    case RopeType::longrope:
      if (!rope_factors_of(spec).always.empty()) return;
      keys.text("rope.scaling.type", "longrope");
      keys.integer("rope.scaling.original_context_length", rope.original_max_position_embeddings);
      keys.number("rope.scaling.attn_factor", rope_attention_factor(rope));
      return;
    case RopeType::dynamic:
      throw Error(ErrorKind::job, std::string("the rotary scaling of this model is ") + name_of(rope.type) +
                                      ", of which forge writes no GGUF");
  }
}

// True if readers of the architecture turn the positions of images by sections. A file of another
// one is the language model alone.
bool has_sections(const ModelSpec& spec, std::string_view architecture) {
  return std::ranges::count(family_of(spec).wrapped_gguf, architecture) > 0;
}

// Writes how queries grow, and what only images need. llama.cpp has four sections; queries grow
// after as many tokens as the rotary scaling states, of whichever type that is.
void add_positions(const ModelSpec& spec, std::string_view architecture, Keys& keys) {
  if (spec.query_growth > 0) keys.number("attention.temperature_scale", spec.query_growth);
  if (spec.query_growth > 0 && spec.rope.type != RopeType::yarn)
    keys.integer("rope.scaling.original_context_length", spec.query_growth_period);
  if (spec.rope_sections.empty() || !has_sections(spec, architecture)) return;
  std::vector<int32_t> sections(spec.rope_sections.begin(), spec.rope_sections.end());
  sections.resize(4, 0);
  keys.integers("rope.dimension_sections", sections);
  if (spec.image_layers > 0) keys.integer("n_deepstack_layers", spec.image_layers);
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

// True if two values are equal up to float32 rounding.
bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return near(a.get<double>(), b.get<double>());
  if (a.is_array() && b.is_array()) return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
  return a == b;
}

double attention_scale_of(const ModelSpec& spec) {
  return spec.attention_scale > 0 ? spec.attention_scale : 1 / std::sqrt(static_cast<double>(spec.head_dim));
}

// True for architectures for which llama.cpp implements the window. For others no reader uses the
// key.
bool has_windows(std::string_view architecture) {
  constexpr std::string_view kWith[] = {"gemma2", "gemma3", "phi3", "olmo2", "cohere2", "exaone4"};
  return std::ranges::count(kWith, architecture) > 0;
}

// Returns a spec as JSON without the fields that differ between files of the same model.
Json comparable(const ModelSpec& spec) {
  ModelSpec plain = spec;
  plain.attention_scale = attention_scale_of(spec);
  Json json = plain;
  for (const char* key : {"family", "architecture", "wrapper", "eos_token_ids", "bos_token_id", "pad_token_id", "base_vocab_size", "added_rows", "router_loss", "initializer_range"}) json.erase(key);
  json.erase("tanh_gelu");       // llama.cpp computes every gelu so
  json.erase("joined_experts");  // a file has gates, values and what leads out by themselves
  const GgufArchitecture& architecture = gguf_architecture_of(spec);
  // The file holds the matrix twice.
  if (architecture.head == GgufPart::required) json.erase("tie_word_embeddings");
  if (!has_windows(architecture.name))
    for (const char* key : {"sliding_window", "full_layers"}) json.erase(key);
  Json& rope = json.at("rope");
  for (const char* key : {"attention_factor", "mscale", "mscale_all_dim"}) rope.erase(key);
  if (const GgufRopeFactors factors = rope_factors_of(spec); !factors.empty()) {
    // Settings are equal where the factors that follow from them are.
    for (const char* key : {"type", "factor", "low_freq_factor", "high_freq_factor"}) rope.erase(key);
    rope["short_factors"] = factors.always.empty() ? factors.up_to : factors.always;
    rope["long_factors"] = factors.always.empty() ? factors.past : factors.always;
    if (!factors.always.empty()) rope.erase("original_max_position_embeddings");
  } else if (spec.rope.type != RopeType::yarn) {
    rope.erase("original_max_position_embeddings");
  }
  rope["attention_factor"] = rope_attention_factor(spec.rope);
  if (!has_sections(spec, architecture.name)) {
    for (const char* key : {"rope_sections", "image_layers"}) json.erase(key);
    return json;
  }
  // A file has four sections; a text turns by none of them.
  std::vector<int64_t> sections = spec.rope_sections;
  while (!sections.empty() && sections.back() == 0) sections.pop_back();
  json["rope_sections"] = sections;
  return json;
}

}  // namespace

const GgufArchitecture& gguf_architecture_of(const ModelSpec& spec) {
  const Family& family = family_of(spec);
  // llama.cpp has no architecture for Mistral: its files are Llama's.
  std::string name = family.name == "mistral" ? "llama" : family.gguf_architecture;
  if (const WrappedText* text = wrapped_text(spec); text && !text->gguf_architecture.empty()) name = text->gguf_architecture;
  if (std::ranges::count(family.wrapped_gguf, spec.architecture) > 0) name = spec.architecture;
  const GgufArchitecture* architecture = name.empty() ? nullptr : gguf_architecture(name);
  if (!architecture)
    throw Error(ErrorKind::job, "forge writes no GGUF of " + family.name)
        .hint("forge merge writes a folder that llama.cpp's convert_hf_to_gguf.py reads");
  return *architecture;
}

GgufHeads gguf_heads_of(const ModelSpec& spec) {
  return {spec.num_heads, spec.num_kv_heads, spec.delta_key_heads, spec.delta_value_heads, spec.delta_key_dim, spec.delta_value_dim};
}

// The architectures whose keys are all written here.
constexpr std::array<std::string_view, 46> kWritten{
    "llama", "mistral3", "qwen2", "qwen2vl", "qwen3", "qwen3vl", "phi3",
    "gemma", "gemma2", "gemma3", "granite", "olmo2", "glm4", "command-r",
    "starcoder2", "smollm3", "stablelm", "gptneox", "falcon", "qwen2moe",
    "qwen3moe", "qwen3vlmoe", "chatglm", "cohere2", "gpt2", "phi2",
    "seed_oss", "exaone4", "ernie4_5", "hunyuan-dense", "arcee", "olmo",
    "nemotron", "bloom", "mpt", "glm4moe", "olmoe", "ernie4_5-moe", "minimax-m2", "dots1",
    "hunyuan-moe", "deepseek", "granitemoe", "qwen3next", "qwen35", "qwen35moe"};

// Adds the scales that only some architectures have.
void add_scales(const ModelSpec& spec, const std::string& architecture, Keys& keys) {
  if (architecture == "granite" || architecture == "granitemoe") {
    keys.number("embedding_scale", spec.embedding_scale);
    keys.number("attention.scale", attention_scale_of(spec));
    keys.number("residual_scale", spec.residual_scale);
    keys.number("logit_scale", 1 / spec.logit_scale);  // a divisor there
  }
  if (architecture == "mpt") keys.number("attention.max_alibi_bias", 8);
  if (architecture == "mistral3" && spec.rope.type == RopeType::yarn) keys.number("rope.scaling.yarn_log_multiplier", 1);
  if (architecture == "command-r" || architecture == "cohere2") keys.number("logit_scale", spec.logit_scale);
}

// Adds the layers that have experts: from one on, every so many. Others are lost, as
// lost_settings() finds.
void add_layers_of_experts(const ModelSpec& spec, Keys& keys) {
  std::vector<int64_t> sparse;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer)
    if (!spec.dense(layer)) sparse.push_back(layer);
  keys.integer("leading_dense_block_count", sparse.empty() ? spec.num_layers : sparse.front());
  keys.integer("interleave_moe_layer_step", sparse.size() > 1 ? sparse[1] - sparse[0] : 1);
}

// Adds the keys of experts. Llama's experts are as wide as its MLP, so it has no key for their
// width.
void add_experts(const ModelSpec& spec, const std::string& architecture, Keys& keys) {
  if (spec.num_experts == 0) return;
  const GgufExperts& stated = family_of(spec).gguf_experts;
  keys.integer("expert_count", spec.num_experts);
  keys.integer("expert_used_count", spec.experts_per_token);
  if (stated.own_width && architecture != "llama")
    keys.integer("expert_feed_forward_length", spec.expert_size);
  if (stated.counted)
    keys.integer("expert_shared_count", spec.shared_expert_size / spec.expert_size);
  else if (spec.shared_expert_size > 0)
    keys.integer("expert_shared_feed_forward_length", spec.shared_expert_size);
  if (stated.gating != 1) keys.integer("expert_gating_func", stated.gating);
  if (stated.leading)
    keys.integer("leading_dense_block_count", static_cast<int64_t>(spec.dense_layers.size()));
  if (architecture == "ernie4_5-moe") add_layers_of_experts(spec, keys);
  if (!stated.weighted) return;
  keys.number("expert_weights_scale", spec.expert_scale);
  keys.flag("expert_weights_norm", spec.normalise_experts);
  if (spec.expert_groups == 1) return;
  keys.integer("expert_group_count", spec.expert_groups);
  keys.integer("expert_group_used_count", spec.groups_per_token);
}

// Adds the sizes of layers with a delta rule. A file says by one number which layers attend.
void add_delta_keys(const ModelSpec& spec, Keys& keys) {
  if (spec.delta_layers.empty()) return;
  keys.integer("ssm.conv_kernel", spec.conv_width);
  keys.integer("ssm.state_size", spec.delta_key_dim);
  keys.integer("ssm.group_count", spec.delta_key_heads);
  keys.integer("ssm.time_step_rank", spec.delta_value_heads);
  keys.integer("ssm.inner_size", spec.delta_value_heads * spec.delta_value_dim);
  int64_t period = 1;
  while (period <= spec.num_layers && spec.delta(period - 1)) ++period;
  keys.integer("full_attention_interval", period);
}

void add_model_keys(const ModelSpec& spec, GgufMetadata& metadata) {
  const std::string architecture(gguf_architecture_of(spec).name);
  if (std::find(kWritten.begin(), kWritten.end(), architecture) == kWritten.end())
    throw Error(ErrorKind::job, "forge writes no GGUF of " + spec.family + " yet")
        .hint("forge merge writes a folder that llama.cpp's convert_hf_to_gguf.py reads");
  metadata.text("general.architecture", architecture);
  Keys keys(architecture, metadata);
  keys.integer("vocab_size", spec.vocab_size);
  keys.integer("context_length", std::min<int64_t>(spec.max_position_embeddings, UINT32_MAX));
  keys.integer("embedding_length", spec.hidden_size);
  keys.integer("block_count", spec.num_layers);
  keys.integer("feed_forward_length", spec.intermediate_size);
  keys.integer("attention.head_count", spec.num_heads);
  keys.integer("attention.head_count_kv", spec.num_kv_heads);
  keys.integer("attention.key_length", spec.head_dim);
  keys.integer("attention.value_length", spec.head_dim);
  keys.number(spec.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", spec.rms_norm_eps);
  if (spec.qkv_clip > 0) keys.number("attention.clamp_kqv", spec.qkv_clip);
  if (architecture == "falcon") keys.text("tensor_data_layout", "jploski");
  if (architecture == "stablelm" || architecture == "gptneox") keys.flag("use_parallel_residual", spec.parallel_residual);
  add_scales(spec, architecture, keys);
  add_experts(spec, architecture, keys);
  if (spec.attention_softcap > 0) keys.number("attn_logit_softcapping", spec.attention_softcap);
  if (spec.logit_softcap > 0) keys.number("final_logit_softcapping", spec.logit_softcap);
  if (spec.sliding_window > 0 && has_windows(architecture))
    keys.integer("attention.sliding_window", spec.sliding_window);
  if (spec.window_rope_theta > 0 && architecture != "olmo2") keys.number("rope.freq_base_swa", spec.window_rope_theta);
  if (spec.rotary_dim() > 0 && !spec.learned_positions) add_rope(spec, keys);
  add_delta_keys(spec, keys);
  add_positions(spec, architecture, keys);
}

GgufRopeFactors rope_factors_of(const ModelSpec& spec) {
  const RopeSpec& rope = spec.rope;
  const auto floats = [](const std::vector<double>& values) { return std::vector<float>(values.begin(), values.end()); };
  if (rope.type == RopeType::llama3) return {.always = llama3_divisors(rope, spec.rotary_dim())};
  if (rope.type != RopeType::longrope) return {};
  const bool one = rope.short_factors == rope.long_factors && rope_attention_factor(rope) == 1;
  if (one) return {.always = floats(rope.short_factors)};
  return {.up_to = floats(rope.short_factors), .past = floats(rope.long_factors)};
}

std::string ignored_window(const ModelSpec& spec) {
  if (spec.sliding_window == 0 || has_windows(gguf_architecture_of(spec).name)) return "";
  return "llama.cpp does not compute this model's window of " + format_count(spec.sliding_window) + " tokens: longer texts will differ";
}

void add_vocabulary_keys(const GgufVocabulary& vocabulary, GgufMetadata& metadata) {
  const std::string prefix = "tokenizer.ggml.";
  metadata.text(prefix + "model", vocabulary.model);
  metadata.text(prefix + "pre", vocabulary.pre);
  metadata.texts(prefix + "tokens", vocabulary.tokens);
  if (!vocabulary.scores.empty()) metadata.numbers(prefix + "scores", vocabulary.scores);
  metadata.integers(prefix + "token_type", vocabulary.token_types);
  if (!vocabulary.merges.empty()) metadata.texts(prefix + "merges", vocabulary.merges);
  const auto id = [&](const char* key, const std::optional<int64_t>& value) {
    if (value) metadata.integer(prefix + key, *value);
  };
  id("bos_token_id", vocabulary.bos_id);
  id("eos_token_id", vocabulary.eos_id);
  id("unknown_token_id", vocabulary.unk_id);
  id("padding_token_id", vocabulary.pad_id);
  const auto flag = [&](const char* key, const std::optional<bool>& value) {
    if (value) metadata.flag(prefix + key, *value);
  };
  flag("add_bos_token", vocabulary.add_bos);
  flag("add_eos_token", vocabulary.add_eos);
  flag("add_space_prefix", vocabulary.add_space_prefix);
}

void copy_keys(const Gguf& gguf, GgufMetadata& metadata) {
  for (const std::string& key : gguf.keys()) {
    const bool own = key == "general.file_type" || key == "general.quantization_version" || key == "general.alignment" ||
                     starts_with(key, "quantize.") || starts_with(key, "split.");
    if (!own) metadata.copy(key, *gguf.find(key));
  }
}

std::vector<std::string> lost_settings(const ModelSpec& spec, const ModelSpec& read) {
  const Json before = comparable(spec).flatten(), after = comparable(read).flatten();
  std::vector<std::string> lost;
  for (const auto& [key, value] : before.items()) {
    const Json other = after.contains(key) ? after[key] : Json();
    if (!same(value, other)) lost.push_back(key.substr(1) + " is " + dump_json(value) + " and would be read as " + dump_json(other));
  }
  return lost;
}

}  // namespace forge
