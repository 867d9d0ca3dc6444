// Seed-OSS (ByteDance, 2025): Llama's layer with biases on q, k and v, and heads that together are
// wider than the model.
#include "core/model/families/family.h"

namespace forge::seed_oss {
namespace {

void read(Settings& settings, ModelSpec& spec) {
  if (!settings.has("head_dim")) spec.head_dim = 128;
}

}  // namespace

Family seed_oss_family() {
  return {.name = "seed_oss",
          .architecture = "SeedOssForCausalLM",
          .gguf_architecture = "seed_oss",
          .max_position_embeddings = 524288,
          .num_kv_heads = 8,
          .flags = {{"attention_bias", true, {&ModelSpec::qkv_bias}},
                    {"attention_out_bias", false, {&ModelSpec::o_bias}},
                    kMlpBias},
          .read = read,
          .read_gguf = refuse_window};
}

}  // namespace forge::seed_oss
