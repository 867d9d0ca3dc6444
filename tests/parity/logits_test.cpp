// Compares logits with transformers' (goldens/logits-*.safetensors, smollm2-logits.safetensors;
// README.md says how they are made): every variant of the tiny Llama, and the real model from its
// GGUF.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/lib/io/safetensors.h"
#include "core/model/families/stored_file.h"
#include "providers/engine_providers.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kGoldens = std::string(FORGE_SOURCE_DIR) + "/tests/parity/goldens/";

struct Matrix {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

Matrix read_matrix(const TensorFile& file, const std::string& name) {
  int64_t index = file.find(name);
  REQUIRE(index >= 0);
  const TensorInfo& info = file.tensors()[static_cast<size_t>(index)];
  Matrix matrix{info.shape, std::vector<float>(static_cast<size_t>(info.count()))};
  file.read_f32(static_cast<size_t>(index), matrix.values.data());
  return matrix;
}

std::vector<int32_t> read_ids(const TensorFile& file, const std::string& name) {
  Matrix ids = read_matrix(file, name);
  return {ids.values.begin(), ids.values.end()};
}

// Returns the largest |logit − golden| of one position, over every `stride`-th entry of the
// vocabulary.
float row_error(const at::Tensor& logits, const Matrix& golden, int64_t row, int64_t stride) {
  at::Tensor got = logits.to(at::kFloat).contiguous();
  float error = 0;
  for (int64_t column = 0; column < golden.shape[1]; ++column) {
    float want = golden.values[static_cast<size_t>(row * golden.shape[1] + column)];
    float difference = std::fabs(got.data_ptr<float>()[column * stride] - want);
    error = difference <= error ? error : difference;  // NaN stays
  }
  return error;
}

float largest(const Matrix& matrix) {
  float value = 0;
  for (float x : matrix.values) value = std::max(value, std::fabs(x));
  return value;
}

std::unique_ptr<Decoder> decoder_of(const Model& model, const std::string& provider) {
  static TrainableSet nothing(TrainedLayout(), at::kFloat, c10::Device(c10::DeviceType::CPU), true);
  return make_decoder(provider, model, nothing, step_options(model.spec, {}, {}, Checkpointing::none));
}

// Returns the error of the last position when all tokens are read at once, like a prompt.
float prompt_error(const Model& model, const std::string& provider, const std::vector<int32_t>& ids,
                   const Matrix& golden, int64_t stride) {
  return row_error(decoder_of(model, provider)->next_logits({{0, ids}}), golden, golden.shape[0] - 1, stride);
}

// Returns the error of all positions when tokens are read one by one through the cache, like
// generated text.
float token_by_token_error(const Model& model, const std::string& provider, const std::vector<int32_t>& ids,
                           const Matrix& golden, int64_t stride) {
  const auto decoder = decoder_of(model, provider);
  float error = 0;
  for (size_t row = 0; row < ids.size(); ++row)
    error = std::max(
        error, row_error(decoder->next_logits({{0, {ids[row]}}}), golden, static_cast<int64_t>(row), stride));
  return error;
}

// Returns the first position whose likeliest token, with the cache, is not the golden's, or -1.
int64_t first_other_token(const Model& model, const std::string& provider, std::vector<int32_t> fresh,
                          const std::vector<int32_t>& greedy) {
  const auto decoder = decoder_of(model, provider);
  for (size_t i = 0; i < greedy.size(); ++i) {
    fresh = {static_cast<int32_t>(decoder->next_logits({{0, fresh}}).argmax(-1).item<int64_t>())};
    if (fresh[0] != greedy[i]) return static_cast<int64_t>(i);
  }
  return -1;
}

Model load_fp32(const std::string& path) {
  const ModelSpec spec = read_model_spec(path);
  return load_model(spec, *open_weights(spec, path), at::kFloat, c10::Device(c10::DeviceType::CPU));
}

}  // namespace

TEST_CASE("logits of every tiny variant equal transformers'") {
  c10::NoGradGuard no_grad;
  std::string name =
      GENERATE("base", "tied", "bias", "head-dim", "rope-linear", "rope-dynamic", "rope-llama3", "rope-yarn", "qwen3",
               "phi3", "phi3-window", "mistral-window", "ministral3", "ministral3-window", "llama4", "llama4-interleaved", "qwen2-window", "gemma2", "gemma", "gemma-untied", "gemma3",
               "gemma3-untied", "smollm3", "smollm3-window", "granite", "granite-tied", "olmo2", "olmo2-tied", "olmo3",
               "phi4", "phi3-longrope", "glm", "glm4", "cohere", "cohere-bias", "cohere2", "starcoder2", "starcoder2-window",
               "gpt-neox", "gpt-neox-sequential", "gpt-neox-tanh", "falcon", "falcon-grouped", "falcon-sequential", "stablelm", "stablelm-parallel",
               "mixtral", "mixtral-balanced", "qwen2-moe", "qwen2-moe-window", "qwen3-moe", "qwen3-moe-sparse", "gpt2", "gpt2-untied",
               "gpt-oss", "gpt-oss-balanced", "deepseek-v2", "deepseek-v2-groups", "deepseek-v3", "deepseek-v3-halves",
               "phi", "phi-tied", "seed-oss", "seed-oss-tied", "exaone4", "exaone4-window", "ernie", "ernie-bias",
               "hunyuan", "hunyuan-bias", "arcee", "arcee-bias", "olmo", "olmo-tied", "nemotron", "nemotron-bias",
               "granite4", "granite4-nope", "opt", "opt-untied", "gptj", "gptj-tied", "falcon-apart", "bloom", "bloom-untied", "gemma4", "gemma4-untied", "gemma4-moe", "gemma4-moe-untied",
               "gemma4-shared", "gemma4-shared-untied",
               "glm4-moe", "glm4-moe-groups", "olmoe", "olmoe-balanced", "granitemoe", "granitemoe-balanced", "granitemoe-shared", "granitemoe-shared-tied",
               "ernie-moe", "ernie-moe-sparse", "minimax-m2", "minimax-m2-whole", "dots1", "dots1-window", "hunyuan-moe", "hunyuan-moe-plain",
               "deepseek-moe", "deepseek-moe-tied", "flex-olmo", "flex-olmo-balanced", "deepseek-v32", "deepseek-v32-tied", "glm-5", "glm-5-pattern",
               "qwen3-next", "qwen3-next-mixed", "qwen3-5", "qwen3-5-tied", "qwen3-5-moe", "qwen3-5-moe-balanced", "granite4-mamba",
               "granite4-mamba-groups", "falcon-h1", "falcon-h1-normed", "nemotron-h", "nemotron-h-bias", "glm4-lite", "glm4-lite-groups", "mistral4", "mistral4-groups", "llama4-apart", "llama4-apart-interleaved", "mpt", "mpt-bounds", "granite4-experts", "granite4-experts-rope", "lfm2", "lfm2-older", "lfm2-moe", "lfm2-moe-scaled",
               "nemotron-3", "nemotron-3-latent");
  const std::string provider = GENERATE("fused", "reference");
  INFO(name << ", " << provider);
  Model model = load_fp32(std::string(FORGE_VARIANTS) + "/" + name);
  auto golden = open_safetensors(kGoldens + "logits-" + name + ".safetensors");
  for (const char* length : {"5", "17", "40"}) {
    std::vector<int32_t> ids = read_ids(*golden, std::string("ids_") + length);
    Matrix want = read_matrix(*golden, std::string("logits_") + length);
    int64_t stride = model.spec.vocab_size / want.shape[1];
    INFO("length " << length);
    // fp32 sums of at most 88 terms in another order, three layers deep: some units in the last
    // place.
    float limit = 1e-5f * largest(want);
    CHECK(prompt_error(model, provider, ids, want, stride) <= limit);
    // Dynamic RoPE and LongRoPE turn all keys anew when the text grows past a length; a cache
    // cannot, in transformers as here.
    if (name != "rope-dynamic" && name != "phi3-longrope")
      CHECK(token_by_token_error(model, provider, ids, want, stride) <= limit);
  }
  if (golden->find("greedy") >= 0 && name != "phi3-longrope")
    CHECK(first_other_token(model, provider, read_ids(*golden, "ids_5"), read_ids(*golden, "greedy")) == -1);
}

TEST_CASE("an encoder-decoder's logits equal transformers', token by token of an answer") {
  c10::NoGradGuard no_grad;
  const std::string name = GENERATE("t5", "t5-gated", "bart", "bart-scaled"), provider = GENERATE("fused", "reference");
  INFO(name << " under " << provider);
  Model model = load_fp32(std::string(FORGE_VARIANTS) + "/" + name);
  auto golden = open_safetensors(kGoldens + "logits-" + name + ".safetensors");
  for (const std::string length : {"5", "17", "40"}) {
    INFO("source of " << length);
    const Matrix want = read_matrix(*golden, "logits_" + length);
    const std::vector<int32_t> source = read_ids(*golden, "ids_" + length), answer = read_ids(*golden, "answer_" + length);
    const auto decoder = decoder_of(model, provider);
    // The text is decoded beside another one whose source and answer have other lengths.
    const std::vector<int32_t> other = read_ids(*golden, length == "17" ? "ids_40" : "ids_17");
    std::vector<NewTokens> fresh{{0, source}, {1, other}};
    float error = 0;
    for (size_t row = 0; row < answer.size(); ++row) {
      const at::Tensor logits = decoder->next_logits(fresh);
      error = std::max(error, row_error(logits[0], want, static_cast<int64_t>(row), model.spec.vocab_size / want.shape[1]));
      fresh = {{0, {answer[row]}}, {1, {other[row % other.size()]}}};
    }
    CHECK(error <= 1e-5f * largest(want));
  }
  CHECK(first_other_token(model, provider, read_ids(*golden, "ids_5"), read_ids(*golden, "greedy")) == -1);
}

TEST_CASE("a model of a GGUF gives transformers' logits") {
  c10::NoGradGuard no_grad;
  const std::string name = GENERATE("gemma", "gemma2", "gemma3", "smollm3", "granite", "granite-tied", "olmo2", "olmo3", "glm", "glm4",
                                    "cohere", "cohere2", "gpt2", "starcoder2", "stablelm", "stablelm-parallel", "gpt-neox", "falcon", "falcon-grouped", "mixtral", "qwen2-moe",
                                    "qwen3-moe", "ministral3", "qwen2-window", "qwen3", "phi3", "phi3-longrope",
                                    "rope-llama3", "base", "phi", "seed-oss", "exaone4", "exaone4-window", "ernie", "hunyuan",
                                    "arcee", "olmo", "nemotron", "bloom", "mpt",
                                    "glm4-moe", "olmoe", "granitemoe", "granitemoe-shared", "ernie-moe", "minimax-m2", "dots1", "hunyuan-moe", "deepseek-moe",
                                     "qwen3-next", "qwen3-5", "qwen3-5-moe");
  const std::string provider = GENERATE("fused", "reference");
  INFO(name << ", " << provider);
  Model model = load_fp32(kGoldens + name + ".gguf");
  auto golden = open_safetensors(kGoldens + "logits-" + name + "-gguf.safetensors");
  std::vector<int32_t> ids = read_ids(*golden, "ids_40");
  Matrix want = read_matrix(*golden, "logits_40");
  CHECK(prompt_error(model, provider, ids, want, 4) <= 1e-5f * largest(want));
  if (name != "phi3-longrope")  // as above
    CHECK(token_by_token_error(model, provider, ids, want, 4) <= 1e-5f * largest(want));
}

TEST_CASE("SmolLM2's logits equal transformers' within 1e-4 of the largest", "[.model]") {
  const char* path = std::getenv("FORGE_SMOLLM2");
  if (!path) FAIL("FORGE_SMOLLM2 must name SmolLM2-135M-Instruct's GGUF");
  c10::NoGradGuard no_grad;
  Model model = load_fp32(path);
  const std::string provider = GENERATE("fused", "reference");
  auto golden = open_safetensors(kGoldens + "smollm2-logits.safetensors");
  for (int row = 0; row < 4; ++row) {
    std::string suffix = "_" + std::to_string(row);
    std::vector<int32_t> ids = read_ids(*golden, "ids" + suffix);
    Matrix want = read_matrix(*golden, "logits" + suffix);
    float limit = 1e-4f * largest(read_matrix(*golden, "top_logits" + suffix));
    INFO("row " << row << ", " << provider);
    CHECK(prompt_error(model, provider, ids, want, 601) <= limit);
    CHECK(token_by_token_error(model, provider, ids, want, 601) <= limit);
  }
}
