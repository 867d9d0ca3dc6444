#include "core/lib/base/file.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/step.h"
#include "core/plan/memory/memory.h"
#include "kernels/lm_head/lm_head_scratch.h"

#include "tests/test.h"

namespace forge {
namespace {

ModelSpec model(const std::string& name) {
  return read_model_spec(std::string(FORGE_SOURCE_DIR) + "/tests/plan/models/" + name);
}

Job lora_job(Quantization quantization = Quantization::none, bool nested = false) {
  Job job;
  job.adapter.type = AdapterType::lora;
  job.adapter.rank = 16;
  job.model.quantization = quantization;
  job.model.double_quantization = nested;
  return job;
}

std::vector<MemoryLine> fixed(const ModelSpec& spec, const Job& job, Precision precision, Precision storage) {
  return fixed_lines(run_parameters(spec, job.adapter, job.model.quantization), job, precision, storage,
                     spec.tie_word_embeddings);
}

int64_t line(const std::vector<MemoryLine>& lines, const std::string& name) {
  for (const MemoryLine& one : lines)
    if (one.name == name) return one.bytes;
  return 0;
}

}  // namespace

TEST_CASE("4-bit weights take 4.5 bits, 4.127 with double quantisation") {
  const int64_t count = 1 << 20;
  CHECK(quantized_bytes(1, count, Quantization::nf4, false) * 8 == count * 9 / 2);
  CHECK(8.0 * static_cast<double>(quantized_bytes(1, count, Quantization::nf4, true)) / count ==
        Approx(4.127).margin(5e-4));
  CHECK(quantized_bytes(1, count, Quantization::int8, false) * 8 == count * 17 / 2);
  CHECK(quantized_bytes(7, count, Quantization::fp8, false) == count + 4 * 7);
  CHECK(quantized_bytes(1, 65, Quantization::nf4, false) == 33 + 8);  // a half-filled byte and a second block
}

TEST_CASE("an 8B model in NF4 takes 6.03 GB, 5.70 with double quantisation") {
  const ModelSpec spec = model("llama-3.1-8b");
  const auto base = [&](bool nested) {
    const auto lines = fixed(spec, lora_job(Quantization::nf4, nested), Precision::bf16, Precision::bf16);
    return static_cast<double>(line(lines, "quantised weights") + line(lines, "frozen weights")) / 1e9;
  };
  CHECK(base(false) == Approx(6.03).margin(0.005));
  CHECK(base(true) == Approx(5.70).margin(0.005));
  CHECK(line(fixed(spec, lora_job(), Precision::bf16, Precision::bf16), "frozen weights") == 2 * 8030261248);
}

TEST_CASE("the fixed lines of a LoRA run") {
  const int64_t trained = 12615680;
  const auto lines = fixed(model("tinyllama-1.1b"), lora_job(), Precision::bf16, Precision::bf16);
  CHECK(line(lines, "adapter weights") == 4 * trained);
  CHECK(line(lines, "trained weights, cast") == 2 * trained);
  CHECK(line(lines, "gradients") == 4 * trained);
  CHECK(line(lines, "optimizer state") == 8 * trained);
  CHECK(lines[0].formula == "1,100,048,384 × 2 B (bf16)");
  // fp32 is its own master.
  const auto wide = fixed(model("tinyllama-1.1b"), lora_job(), Precision::fp32, Precision::fp32);
  CHECK(line(wide, "trained weights, cast") == 0);
}

TEST_CASE("factors of a linear layer outside of the layers are no part of the vocabulary") {
  const std::string path = std::string(FORGE_SOURCE_DIR) + "/tests/plan/published/gemma-4-E2B.json";
  const Json config = parse_json(read_file(path, 1 << 20, ErrorKind::internal), path, ErrorKind::internal);
  const ModelSpec spec = model_spec_from_config(config, path);
  const auto lines = fixed(spec, lora_job(), Precision::bf16, Precision::bf16);
  CHECK(line(lines, "adapter weights") == 4 * 26333184);
  CHECK(line(lines, "vocabulary with its adapter") == 0);
  Job embeds = lora_job();
  embeds.adapter.target_modules = {"q_proj", "embed_tokens"};
  CHECK(line(fixed(spec, embeds, Precision::bf16, Precision::bf16), "vocabulary with its adapter") ==
        int64_t{6} * 262144 * 1536);
}

TEST_CASE("the fixed lines follow optimizer and masters") {
  Job job;
  const ModelSpec spec = model("smollm2-135m");
  const int64_t trained = 134515008;
  CHECK(line(fixed(spec, job, Precision::bf16, Precision::bf16), "frozen weights") == 0);
  CHECK(line(fixed(spec, job, Precision::bf16, Precision::bf16), "trained weights") == 4 * trained);
  job.optimizer.type = OptimizerType::sgd;
  CHECK(line(fixed(spec, job, Precision::fp32, Precision::fp32), "optimizer state") == 0);
  job.optimizer.momentum = 0.9;
  CHECK(line(fixed(spec, job, Precision::fp32, Precision::fp32), "optimizer state") == 4 * trained);
  job.train.master_weights = false;
  const auto narrow = fixed(spec, job, Precision::bf16, Precision::bf16);
  CHECK(line(narrow, "trained weights") == 2 * trained);
  CHECK(line(narrow, "trained weights, cast") == 0);
}

TEST_CASE("a trained copy of an untied module takes the place of its original") {
  Job job = lora_job();
  job.adapter.modules_to_save = {"lm_head"};
  const ModelSpec spec = model("tinyllama-1.1b");  // untied
  const int64_t head = spec.vocab_size * spec.hidden_size;
  const auto frozen = [&](const Job& one) {
    return line(fixed(spec, one, Precision::fp32, Precision::fp32), "frozen weights");
  };
  CHECK(frozen(lora_job()) - frozen(job) == 4 * head);
}

}  // namespace forge
