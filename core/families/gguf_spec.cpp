#include "core/families/gguf_spec.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "core/families/config_spec.h"
#include "core/families/family.h"

namespace forge {
namespace {

// The divisors that llama.cpp's converter stores for llama3 scaling, as modeling_rope_utils computes the
// frequencies.
std::vector<float> llama3_divisors(const ModelSpec& spec, double factor) {
  constexpr double kLow = 1, kHigh = 4, kContext = 8192;
  std::vector<float> divisors;
  for (int64_t i = 0; i < spec.head_dim; i += 2) {
    const double wavelength =
        2 * M_PI * std::pow(spec.rope.theta, static_cast<double>(i) / static_cast<double>(spec.head_dim));
    if (wavelength < kContext / kHigh)
      divisors.push_back(1);
    else if (wavelength > kContext / kLow)
      divisors.push_back(static_cast<float>(factor));
    else {
      const double smooth = (kContext / wavelength - kLow) / (kHigh - kLow);
      divisors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
    }
  }
  return divisors;
}

// GGUF keeps only the resulting divisors. The factor is the largest of them; the other three settings are
// those of every released Llama 3, which recomputing the table confirms.
void read_rope_freqs(const TensorFile& file, int64_t index, Settings& settings, ModelSpec& spec) {
  const TensorInfo& info = file.tensors()[static_cast<size_t>(index)];
  std::vector<float> stored(static_cast<size_t>(spec.head_dim / 2));
  if (info.count() != spec.head_dim / 2) {
    settings.broken("rope_freqs.weight", "has " + std::to_string(info.count()) + " values, expected " +
                                             std::to_string(spec.head_dim / 2) + " (half of head_dim)");
    return;
  }
  decode_to_f32(info.dtype, file.bytes(static_cast<size_t>(index)).data(), info.count(), stored.data());
  const double factor = *std::max_element(stored.begin(), stored.end());
  const std::vector<float> expected = llama3_divisors(spec, factor);
  for (size_t i = 0; i < stored.size(); ++i)
    if (!(std::abs(stored[i] - expected[i]) <= 1e-4 * expected[i])) {
      settings.unsupported("rope_freqs.weight",
                           "is not the llama3 scaling of low 1, high 4 and 8,192 positions");
      return;
    }
  spec.rope.type = factor == 1 ? RopeType::standard : RopeType::llama3;
  spec.rope.factor = factor;
  spec.rope.low_freq_factor = 1;
  spec.rope.high_freq_factor = 4;
  spec.rope.original_max_position_embeddings = 8192;
}

void read_rope(GgufSettings& metadata, const Family& family, ModelSpec& spec) {
  RopeSpec& rope = spec.rope;
  rope.theta = metadata.number("rope.freq_base", 1, 1e12, 10000.0);
  const int64_t turned = metadata.integer("rope.dimension_count", 1, kMostHeadDim, spec.head_dim);
  rope.partial_rotary_factor = static_cast<double>(turned) / static_cast<double>(spec.head_dim);
  if (turned != spec.head_dim && !family.partial_rotary)
    metadata.unsupported("rope.dimension_count", "is " + std::to_string(turned) + ", this family rotates whole heads");
  const std::string type =
      metadata.text("rope.scaling.type", metadata.has("rope.scale_linear") ? "linear" : "none");
  if (type == "none") return;
  rope.factor =
      metadata.number("rope.scaling.factor", 1, 1e6, metadata.number("rope.scale_linear", 1, 1e6, 1.0));
  if (type == "linear") {
    rope.type = RopeType::linear;
  } else if (type == "yarn") {
    rope.type = RopeType::yarn;
    rope.original_max_position_embeddings = metadata.integer("rope.scaling.original_context_length", 1,
                                                             int64_t{1} << 40, spec.max_position_embeddings);
    rope.beta_fast = metadata.number("rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32);
    rope.beta_slow = metadata.number("rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1);
    rope.attention_factor = metadata.number("rope.scaling.yarn_attn_factor", 0, 1e6, 0);
    metadata.must_be("rope.scaling.yarn_ext_factor", 1.0, "full extrapolation");
    metadata.must_be("rope.scaling.attn_factor", 1.0, "the factor that follows from rope.scaling.factor");
  } else {
    metadata.unsupported("rope.scaling.type", "is \"" + type + "\", forge computes none, linear and yarn");
  }
}

void read_sizes(GgufSettings& metadata, ModelSpec& spec) {
  spec.hidden_size = metadata.integer("embedding_length", 1, 1 << 18);
  spec.intermediate_size = metadata.integer("feed_forward_length", 1, 1 << 20);
  spec.num_layers = metadata.integer("block_count", 1, 1 << 10);
  spec.num_heads = metadata.integer("attention.head_count", 1, 1 << 12);
  spec.num_kv_heads = metadata.integer("attention.head_count_kv", 1, 1 << 12, spec.num_heads);
  spec.head_dim = metadata.integer("attention.key_length", 1, 1 << 12, spec.hidden_size / spec.num_heads);
  spec.max_position_embeddings = metadata.integer("context_length", 1, int64_t{1} << 40);
  const bool rms = !metadata.has("attention.layer_norm_epsilon");
  spec.rms_norm_eps = metadata.number(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 0, 1);
  metadata.must_be("attention.value_length", spec.head_dim, "keys and values of one size");
  spec.sliding_window = metadata.integer("attention.sliding_window", 0, int64_t{1} << 40, 0);
}

void read_experts(GgufSettings& metadata, ModelSpec& spec) {
  spec.num_experts = metadata.integer("expert_count", 1, kMostExperts);
  spec.experts_per_token = metadata.integer("expert_used_count", 1, spec.num_experts);
  spec.expert_size = metadata.integer("expert_feed_forward_length", 1, kMostIntermediate, spec.intermediate_size);
  spec.normalise_experts = true;
  metadata.must_be("expert_weights_scale", 1.0, "weights that are not scaled");
  metadata.must_be("expert_gating_func", 1, "the softmax of all experts");
}

void read_tensors(const TensorFile& file, const OuterModules& modules, Settings& settings, ModelSpec& spec) {
  const auto has = [&](const std::string& tensor) { return file.find(tensor) >= 0; };
  spec.tie_word_embeddings = !has(std::string(modules.head) + ".weight");
  spec.qkv_bias = has("model.layers.0.self_attn.q_proj.bias");
  spec.o_bias = has("model.layers.0.self_attn.o_proj.bias");
  spec.mlp_bias = has("model.layers.0.mlp.gate_proj.bias");
  spec.qk_norm = has("model.layers.0.self_attn.q_norm.weight");
  for (const char* factors : {"rope_factors_long.weight", "rope_factors_short.weight"})
    if (has(factors)) settings.unsupported(factors, "scales rotary positions by length, which forge does not compute yet");
  const int64_t embedding = file.find(std::string(modules.embedding) + ".weight");
  if (embedding < 0 || file.tensors()[static_cast<size_t>(embedding)].shape.size() != 2)
    settings.broken("token_embd.weight", "is missing or not a matrix");
  else
    spec.vocab_size = file.tensors()[static_cast<size_t>(embedding)].shape[0];
}

}  // namespace

ModelSpec model_spec_from_gguf(const Json& metadata, const TensorFile& file, const std::string& name) {
  Settings settings(metadata, name);
  ModelSpec spec;
  spec.architecture = settings.text("general.architecture", "");
  GgufSettings own(settings, spec.architecture);
  const int64_t experts = own.integer("expert_count", 0, kMostExperts, 0);
  const Family& family = family_of_gguf(spec.architecture, {.mixture = experts > 0, .windows = own.integer("attention.sliding_window", 0, int64_t{1} << 40, 0) > 0}, name);
  spec.family = family.name;
  read_sizes(own, spec);
  if (family.mixture)
    read_experts(own, spec);
  else if (experts > 0)
    own.unsupported("expert_count", "is " + std::to_string(experts) + ", this family has one feed-forward layer and no experts");
  read_tensors(file, family.modules, settings, spec);
  read_rope(own, family, spec);
  if (family.read_gguf) family.read_gguf(own, spec);
  const int64_t divisors = file.find("rope_freqs.weight");
  if (divisors >= 0) read_rope_freqs(file, divisors, settings, spec);
  if (settings.has("tokenizer.ggml.eos_token_id"))
    spec.eos_token_ids = settings.ids("tokenizer.ggml.eos_token_id");
  spec.bos_token_id = settings.integer("tokenizer.ggml.bos_token_id", 0, 1 << 24, -1);
  spec.pad_token_id = settings.integer("tokenizer.ggml.padding_token_id", 0, 1 << 24, -1);
  for (const std::string& fault : spec_faults(spec)) settings.broken("", fault);
  // A GGUF describes its tokenizer, licence and quantisation beside the model: unread keys are normal.
  settings.finish([](const std::string&) { return true; });
  return spec;
}

}  // namespace forge
