#include "core/model/families/gguf_spec.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/model/families/config_spec.h"
#include "core/model/families/described_family.h"
#include "core/model/families/family.h"

namespace forge {
namespace {

// Returns the scaling that has these divisors, which are all that a GGUF keeps. For Llama 3.1 and
// later the factor is the largest divisor, and the other settings are those of every released
// model. Any other divisors are longrope's, the same within the original context and past it.
RopeSpec rope_of_divisors(const RopeSpec& plain, const std::vector<float>& divisors, int64_t context) {
  RopeSpec llama3 = plain;
  llama3.factor = *std::max_element(divisors.begin(), divisors.end());
  if (std::all_of(divisors.begin(), divisors.end(), [](float divisor) { return divisor == 1; })) return plain;
  llama3.type = RopeType::llama3;
  llama3.low_freq_factor = 1;
  llama3.high_freq_factor = 4;
  llama3.original_max_position_embeddings = 8192;
  const auto near = [](float a, float b) { return std::abs(a - b) <= 1e-4f * b; };
  const std::vector<float> expected = llama3_divisors(llama3, 2 * static_cast<int64_t>(divisors.size()));
  if (std::equal(divisors.begin(), divisors.end(), expected.begin(), near)) return llama3;
  RopeSpec any = plain;
  any.type = RopeType::longrope;
  any.short_factors.assign(divisors.begin(), divisors.end());
  any.long_factors = any.short_factors;
  any.original_max_position_embeddings = context;
  any.attention_factor = 1;
  return any;
}

// True if there is one factor above zero for each rotated frequency.
bool require_factors(const char* tensor, const std::vector<float>& factors, Settings& settings, const ModelSpec& spec) {
  const int64_t half = spec.rotary_dim() / 2;
  if (static_cast<int64_t>(factors.size()) != half)
    settings.broken(tensor, "has " + std::to_string(factors.size()) + " values, expected " + std::to_string(half) +
                                " (half of the rotated features)");
  else if (!std::all_of(factors.begin(), factors.end(), [](float factor) { return factor > 1e-6f && factor < 1e6f; }))
    settings.broken(tensor, "has a factor that is not between 1e-6 and 1e6");
  else
    return true;
  return false;
}

void read_rope_factors(const GgufRopeFactors& factors, Settings& settings, ModelSpec& spec) {
  RopeSpec& rope = spec.rope;
  if (factors.empty()) {
    if (rope.type == RopeType::longrope) settings.unsupported(".rope.scaling.type", "is \"longrope\", and the file has no factors");
    return;
  }
  if (rope.type != RopeType::standard && rope.type != RopeType::longrope)
    return settings.unsupported("rope factors", std::string("appear together with rope.scaling.type \"") + name_of(rope.type) + "\"");
  if (!factors.always.empty() && (!factors.up_to.empty() || rope.type == RopeType::longrope))
    return settings.unsupported("rope_freqs.weight", "appears together with the factors of longrope");
  if (!factors.always.empty()) {
    if (require_factors("rope_freqs.weight", factors.always, settings, spec))
      rope = rope_of_divisors(rope, factors.always, spec.max_position_embeddings);
    return;
  }
  if (!require_factors("rope_factors_short.weight", factors.up_to, settings, spec) ||
      !require_factors("rope_factors_long.weight", factors.past, settings, spec))
    return;
  rope.type = RopeType::longrope;
  rope.short_factors.assign(factors.up_to.begin(), factors.up_to.end());
  rope.long_factors.assign(factors.past.begin(), factors.past.end());
  rope.original_max_position_embeddings =
      settings.integer(".rope.scaling.original_context_length", 1, int64_t{1} << 40, spec.max_position_embeddings);
  rope.attention_factor = settings.number(".rope.scaling.attn_factor", 1e-6, 1e6, 1);
  rope.factor = std::max(1.0, static_cast<double>(spec.max_position_embeddings) / static_cast<double>(rope.original_max_position_embeddings));
}

void read_rope(Settings& settings, const Family& family, bool longrope, ModelSpec& spec) {
  RopeSpec& rope = spec.rope;
  rope.theta = settings.number(".rope.freq_base", 1, 1e12, 10000.0);
  const int64_t turned = settings.integer(".rope.dimension_count", 1, kMostHeadDim, spec.head_dim);
  rope.partial_rotary_factor = static_cast<double>(turned) / static_cast<double>(spec.head_dim);
  if (turned != spec.head_dim && !family.partial_rotary)
    settings.unsupported(".rope.dimension_count", "is " + std::to_string(turned) + ", this family rotates whole heads");
  // llama.cpp takes a file without a type for linear. Its factor is 1 unless one is stated; 0
  // states none.
  const std::string type = settings.text(".rope.scaling.type", "linear");
  const double old_factor = settings.number(".rope.scale_linear", 0, 1e6, 0);
  const double factor = settings.number(".rope.scaling.factor", 0, 1e6, 0);
  if (type == "longrope") {
    rope.type = RopeType::longrope;  // with the factors of read_rope_factors()
    return;
  }
  if (!longrope && type != "yarn") settings.must_be(".rope.scaling.attn_factor", 1.0, "cosines and sines as they are");
  if (type == "none") return;
  rope.factor = factor > 0 ? factor : old_factor > 0 ? old_factor : 1;
  if (type == "linear") {
    if (rope.factor != 1) rope.type = RopeType::linear;
  } else if (type == "yarn") {
    rope.type = RopeType::yarn;
    rope.original_max_position_embeddings = settings.integer(".rope.scaling.original_context_length", 1,
                                                             int64_t{1} << 40, spec.max_position_embeddings);
    rope.beta_fast = settings.number(".rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32);
    rope.beta_slow = settings.number(".rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1);
    rope.attention_factor = settings.number(".rope.scaling.yarn_attn_factor", 0, 1e6, 0);
    settings.must_be(".rope.scaling.yarn_ext_factor", 1.0, "full extrapolation");
    settings.must_be(".rope.scaling.attn_factor", 1.0, "the factor that follows from rope.scaling.factor");
  } else {
    settings.unsupported(".rope.scaling.type", "is \"" + type + "\", forge computes none, linear, yarn and longrope");
  }
}

// Reads the settings that only images need, which a file of a language model out of a class with
// towers has.
void read_gguf_sections(Settings& settings, const Family& family, ModelSpec& spec) {
  if (std::ranges::count(family.wrapped_gguf, spec.architecture) == 0) return;
  const std::string key = ".rope.dimension_sections";
  // Four equal numbers are read as one.
  spec.rope_sections = settings.ids(key);
  if (spec.rope_sections.size() == 1) spec.rope_sections.resize(4, spec.rope_sections[0]);
  const bool fit = std::ranges::all_of(spec.rope_sections, [](int64_t section) { return section >= 0 && section <= kMostHeadDim; });
  if (!fit || (spec.rope_sections.size() != 3 && spec.rope_sections.size() != 4))
    settings.broken(key, "is not four numbers of frequencies");
  spec.image_layers = settings.integer(".n_deepstack_layers", 0, kMostLayers, 0);
}

// Files of families whose layers all have experts need not say how wide an MLP without them is.
void read_gguf_sizes(Settings& settings, const Family& family, ModelSpec& spec) {
  spec.hidden_size = settings.integer(".embedding_length", 1, 1 << 18);
  const char* width = family.mlp_size > 0 && !settings.has(".feed_forward_length") ? ".expert_feed_forward_length" : ".feed_forward_length";
  spec.intermediate_size = settings.integer(width, 1, 1 << 20);
  spec.num_layers = settings.integer(".block_count", 1, 1 << 10);
  // Layers that predict further tokens are counted, too.
  if (family.further_layers)
    spec.num_layers -= settings.integer(".nextn_predict_layers", 0, spec.num_layers - 1, 0);
  spec.num_heads = settings.integer(".attention.head_count", 1, 1 << 12);
  spec.num_kv_heads = settings.integer(".attention.head_count_kv", 1, 1 << 12, spec.num_heads);
  spec.head_dim = settings.integer(".attention.key_length", 1, 1 << 12, spec.hidden_size / spec.num_heads);
  spec.max_position_embeddings = settings.integer(".context_length", 1, int64_t{1} << 40);
  const bool rms = !settings.has(".attention.layer_norm_epsilon");
  spec.rms_norm_eps = settings.number(rms ? ".attention.layer_norm_rms_epsilon" : ".attention.layer_norm_epsilon", 0, 1);
  settings.must_be(".attention.value_length", spec.head_dim, "keys and values of one size");
  spec.sliding_window = settings.integer(".attention.sliding_window", 0, int64_t{1} << 40, 0);
}

// Reads the weights of a token's experts and the groups that they are chosen within. llama.cpp
// takes a scale of 0 for none.
void read_expert_weights(Settings& settings, ModelSpec& spec) {
  const double scale = settings.number(".expert_weights_scale", 0, 1e9, 0);
  spec.expert_scale = scale > 0 ? scale : 1;
  spec.normalise_experts = settings.flag(".expert_weights_norm", false);
  const auto counted = [&](const char* key) {
    return std::max<int64_t>(1, settings.integer(key, 0, spec.num_experts, 1));
  };
  spec.expert_groups = counted(".expert_group_count");
  spec.groups_per_token = counted(".expert_group_used_count");
  if (spec.num_experts % spec.expert_groups != 0 || spec.groups_per_token > spec.expert_groups)
    settings.broken(
        ".expert_group_count",
        "does not divide the experts into groups of which expert_group_used_count are chosen");
}

void read_experts(Settings& settings, const Family& family, ModelSpec& spec) {
  const GgufExperts& stated = family.gguf_experts;
  spec.num_experts = settings.integer(".expert_count", 1, kMostExperts);
  spec.experts_per_token = settings.integer(".expert_used_count", 1, spec.num_experts);
  spec.expert_size = settings.integer(".expert_feed_forward_length", 1, kMostIntermediate, spec.intermediate_size);
  spec.normalise_experts = true;
  if (stated.weighted)
    read_expert_weights(settings, spec);
  else
    settings.must_be(".expert_weights_scale", 1.0, "weights that are not scaled");
  settings.must_be(".expert_gating_func", stated.gating,
                   stated.gating == 1 ? "the softmax of all experts" : "the sigmoid of each score");
  if (stated.counted)
    spec.shared_expert_size =
        spec.expert_size * settings.integer(".expert_shared_count", 0, kMostExperts, 0);
  if (!stated.leading) return;
  spec.dense_layers.resize(static_cast<size_t>(std::min(
      spec.num_layers, settings.integer(".leading_dense_block_count", 0, kMostLayers, 0))));
  std::iota(spec.dense_layers.begin(), spec.dense_layers.end(), int64_t{0});
}

void read_tensors(const TensorFile& file, const Family& family, Settings& settings, ModelSpec& spec) {
  const OuterModules& modules = family.modules;
  const auto has = [&](const std::string& tensor) { return file.find(tensor) >= 0; };
  spec.tie_word_embeddings = !has(std::string(modules.head) + ".weight");
  spec.qkv_bias = has(family.told.qkv_bias);
  spec.o_bias = has(family.told.o_bias);
  spec.mlp_bias = has(family.told.mlp_bias);
  spec.qk_norm = has(family.told.qk_norm);
  const int64_t embedding = file.find(std::string(modules.embedding) + ".weight");
  if (embedding < 0 || file.tensors()[static_cast<size_t>(embedding)].shape.size() != 2)
    settings.broken("token_embd.weight", "is missing or not a matrix");
  else
    spec.vocab_size = file.tensors()[static_cast<size_t>(embedding)].shape[0];
}

// Returns a setting that may be stated for each layer: one number if all are equal, else the list.
// Returns null for any other array.
Json setting_of_layers(const Gguf& gguf, const std::string& key) {
  constexpr int64_t kMostListed = 1 << 12;
  const GgufValue& value = *gguf.find(key);
  const size_t dot = key.find('.');
  const bool of_model = dot != key.npos && gguf_architecture(key.substr(0, dot));
  const bool words = value.element == GgufType::string || value.element == GgufType::array;
  if (!of_model || words || value.count == 0 || value.count > kMostListed) return nullptr;
  const bool real = value.element == GgufType::f32 || value.element == GgufType::f64;
  Json list = Json::array();
  if (value.element == GgufType::boolean)
    for (const char flag : value.bytes) list.push_back(flag != 0);
  else
    list = real ? Json(gguf.get_numbers(key)) : Json(gguf.get_ints(key));
  return std::all_of(list.begin(), list.end(), [&](const Json& number) { return number == list[0]; }) ? Json(list[0]) : list;
}

// Returns the strings, numbers and flags of the metadata. Arrays (vocabularies) stay in the file,
// except settings of layers.
Json scalar_metadata(const Gguf& gguf) {
  Json json = Json::object();
  for (const std::string& key : gguf.keys()) {
    switch (gguf.find(key)->type) {
      case GgufType::array:
        if (Json setting = setting_of_layers(gguf, key); !setting.is_null()) json[key] = std::move(setting);
        break;
      case GgufType::string:
        json[key] = gguf.get_string(key, "");
        break;
      case GgufType::boolean:
        json[key] = gguf.get_bool(key, false);
        break;
      case GgufType::f32:
      case GgufType::f64:
        json[key] = gguf.get_number(key, 0);
        break;
      default:
        json[key] = gguf.get_int(key, 0);
    }
  }
  return json;
}

// True for a key of a model that never changes the computation, or changes it only under another
// rotary scaling.
bool harmless_model_key(std::string_view key) {
  for (const char* harmless : {"vocab_size", "tensor_data_layout", "pooling_type", "rope.scaling.finetuned", "rope.scaling.factor",
                               "rope.scaling.original_context_length", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
                               "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor", "expert_weights_norm"})
    if (key == harmless) return true;
  return false;
}

// A GGUF also describes its tokenizer, licence and quantisation. Only keys under an architecture's
// name are the model's settings.
bool harmless_gguf_key(const std::string& key) {
  const size_t dot = key.find('.');
  return dot == key.npos || !gguf_architecture(key.substr(0, dot)) || harmless_model_key(std::string_view(key).substr(dot + 1));
}

// Refuses a GGUF that is not of the architecture that a family file names.
void refuse_another_architecture(Settings& settings, const Described& described) {
  const Json* found = settings.find("general.architecture");
  const std::string& own = described.family.gguf_architecture;
  if (found && *found != own)
    settings.unsupported("general.architecture", "is " + dump_json(*found) + ", and " + described.file +
                                                     (own.empty() ? " names no GGUF" : " names the GGUF of " + own));
}

}  // namespace

ModelSpec model_spec_from_gguf(const Json& metadata, const TensorFile& file, const GgufRopeFactors& factors, const std::string& name,
                               const Described* described) {
  Settings settings(metadata, name);
  ModelSpec spec;
  spec.architecture = settings.text("general.architecture", "");
  settings.own(spec.architecture);
  const int64_t experts = settings.integer(".expert_count", 0, kMostExperts, 0);
  const Family& family = described ? described->family : family_of_gguf(spec.architecture, {.mixture = experts > 0, .windows = settings.integer(".attention.sliding_window", 0, int64_t{1} << 40, 0) > 0}, name);
  if (described) spec.described = described->text, refuse_another_architecture(settings, *described);
  spec.family = family.name;
  read_gguf_sizes(settings, family, spec);
  if (family.mixture)
    read_experts(settings, family, spec);
  else if (experts > 0)
    settings.unsupported(".expert_count", "is " + std::to_string(experts) + ", this family has one feed-forward layer and no experts");
  read_tensors(file, family, settings, spec);
  settings.must_be(".attention.causal", true, "each token sees those before it");
  read_rope(settings, family, !factors.up_to.empty(), spec);
  read_rope_factors(factors, settings, spec);
  read_gguf_sections(settings, family, spec);
  if (family.read_gguf) family.read_gguf(settings, spec);
  if (spec.window_rope_theta == 0) settings.must_be(".rope.freq_base_swa", spec.rope.theta, "one base of the angles for all layers");
  if (settings.has("tokenizer.ggml.eos_token_id"))
    spec.eos_token_ids = settings.ids("tokenizer.ggml.eos_token_id");
  spec.bos_token_id = settings.integer("tokenizer.ggml.bos_token_id", 0, 1 << 24, -1);
  spec.pad_token_id = settings.integer("tokenizer.ggml.padding_token_id", 0, 1 << 24, -1);
  for (const std::string& fault : spec_faults(spec)) settings.broken("", fault);
  settings.finish(harmless_gguf_key, "use another GGUF of the model, or its Hugging Face folder");
  if (family.described) check_described(*family.described, spec);
  return spec;
}

ModelSpec model_spec_of_gguf(const std::string& path, const Described* described) {
  const auto file = open_gguf(path, Data::optional);
  return model_spec_from_gguf(scalar_metadata(file->gguf()), *file, file->rope_factors(), path, described);
}

}  // namespace forge
