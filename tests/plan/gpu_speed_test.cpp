// Compares the estimate of speed with figures that others published for their programs on known
// cards. docs/estimates.md has the table.
#include "providers/gpu_speed.h"

#include <cmath>
#include <cstdio>

#include "core/model/families/adapter_sites.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/model_spec.h"
#include "core/model/families/step.h"
#include "tests/test.h"

using namespace forge;

namespace {

ModelSpec shape(int64_t hidden, int64_t layers, int64_t heads, int64_t kv_heads, int64_t intermediate,
                int64_t vocabulary) {
  return model_spec_from_config({{"model_type", "llama"},
                                 {"architectures", {"LlamaForCausalLM"}},
                                 {"hidden_size", hidden},
                                 {"num_hidden_layers", layers},
                                 {"num_attention_heads", heads},
                                 {"num_key_value_heads", kv_heads},
                                 {"intermediate_size", intermediate},
                                 {"vocab_size", vocabulary},
                                 {"hidden_act", "silu"},
                                 {"rms_norm_eps", 1e-5},
                                 {"max_position_embeddings", 8192},
                                 {"tie_word_embeddings", false}},
                                "a published model");
}

struct Published {
  const char* what;
  const char* card;
  ModelSpec spec;
  int64_t rank;  // 0: all weights are trained
  std::vector<std::string> targets;
  int64_t length, sequences;
  Checkpointing checkpointing;
  double rate;  // tokens/s of one card
};

const std::vector<std::string> kAll{"all-linear"}, kQueryValue{"q_proj", "v_proj"};

std::vector<Published> published() {
  const ModelSpec llama3 = shape(4096, 32, 32, 8, 14336, 128256),
                  llama2 = shape(4096, 32, 32, 32, 11008, 32000),
                  qwen25 = shape(3584, 28, 28, 4, 18944, 152064),
                  qwen = shape(4096, 32, 32, 32, 11008, 151936),
                  small_qwen = shape(2048, 24, 16, 16, 5504, 151936),
                  llama32 = shape(3072, 28, 24, 8, 8192, 128256);
  constexpr auto none = Checkpointing::none, full = Checkpointing::full;
  return {{"Llama 3 8B LoRA, NeMo AutoModel", "H100", llama3, 16, kAll, 4096, 2, none, 12473},
          {"Qwen2.5 7B LoRA, NeMo AutoModel", "H100", qwen25, 16, kAll, 4096, 2, none, 14110},
          {"Llama 3.1 8B whole, torchtitan + compile", "H100", llama3, 0, {}, 8192, 1, full, 6667},
          {"Llama 2 7B LoRA, transformers + FA2", "A100 80GB", llama2, 8, kQueryValue, 1024, 4, full, 2954},
          {"Llama 2 7B LoRA, Unsloth", "A100 80GB", llama2, 8, kQueryValue, 1024, 4, full, 4007},
          {"Qwen 7B LoRA, transformers + FA2", "A100 80GB", qwen, 64, kAll, 2048, 1, full, 3150},
          {"Qwen 7B LoRA, transformers + FA2", "A100 80GB", qwen, 64, kAll, 4096, 1, full, 3244},
          {"Qwen 1.8B LoRA, transformers + FA2", "A100 80GB", small_qwen, 64, kAll, 2048, 1, full, 9638},
          {"Qwen 1.8B LoRA, transformers + FA2", "A100 80GB", small_qwen, 64, kAll, 4096, 1, full, 9930},
          {"Llama 3.2 3B LoRA, torchtune + compile", "A100 80GB", llama32, 8, kAll, 4096, 2, full, 8210},
          {"Llama 3.1 8B LoRA, torchtune + compile", "RTX 4090", llama3, 8, kAll, 2048, 2, full, 3083},
          {"Llama 3.1 8B whole, torchtune + compile", "RTX 4090", llama3, 0, {}, 2048, 2, full, 1650},
          {"Llama 3.1 8B LoRA, torchtune + compile", "RTX A6000", llama3, 8, kAll, 2048, 2, full, 4699},
          {"Llama 3.2 3B LoRA of q and v, PEFT", "L40S", llama32, 32, kQueryValue, 768, 4, none, 7300}};
}

SpeedRange estimate(const Published& p) {
  AdapterConfig adapter;
  adapter.type = p.rank > 0 ? AdapterType::lora : AdapterType::none;
  adapter.rank = std::max<int64_t>(1, p.rank), adapter.target_modules = p.targets;
  StepShape step{p.spec,
                 module_training(p.spec, adapter,
                                 p.rank > 0 ? adapter_sites(p.spec, adapter) : std::vector<AdapterSite>{})};
  step.recompute = recomputed_by(step, p.checkpointing);
  const int64_t tokens = p.length * p.sequences;
  return gpu_speed(training_step(step), {tokens, tokens, 2, 1, true}, static_cast<double>(p.length),
                   find_gpu(p.card));
}

}  // namespace

TEST_CASE("estimates of speed against published figures") {
  int inside = 0, beside = 0;
  for (const Published& p : published()) {
    const SpeedRange range = estimate(p);
    const double middle = std::sqrt(range.low * range.high), error = middle / p.rate - 1;
    std::printf("| %s | %s | %lld × %lld | %.0f | %.0f to %.0f | %+.0f %% |\n", p.what, p.card,
                static_cast<long long>(p.sequences), static_cast<long long>(p.length), p.rate, range.low,
                range.high, 100 * error);
    CHECK(range.low < range.high);
    CHECK(std::abs(error) < 0.65);
    range.low <= p.rate&& p.rate <= range.high ? ++inside : ++beside;
  }
  std::printf("%d inside, %d beside\n", inside, beside);
  CHECK(inside >= 8);  // of 14
}
