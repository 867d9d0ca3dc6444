// A LoRA run on quantised base weights, from loading to updates.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/lib/io/model_file.h"
#include "core/lib/io/safetensors.h"
#include "core/lib/tensor/counting_allocator.h"
#include "core/model/adapter/lora.h"
#include "core/model/families/adapter_sites.h"
#include "core/plan/memory/memory.h"
#include "core/train/network.h"
#include "providers/engine_providers.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kModel = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";

struct Trained {
  std::vector<double> losses;
  at::Tensor adapter;
};

Job lora_job(Quantization quantization, bool nested, bool dora) {
  Job job;
  job.model.quantization = quantization;
  job.model.double_quantization = nested;
  job.adapter.type = AdapterType::lora;
  job.adapter.rank = 4;
  job.adapter.use_dora = dora;
  return job;
}

Model load(const Job& job, c10::ScalarType type, std::optional<c10::ScalarType> frozen = {},
           const std::string& folder = kModel) {
  ModelSpec spec = read_model_spec(folder);
  return load_model(spec, *open_model(folder), type, c10::Device(c10::DeviceType::CPU),
                    {.quantization = job.model.quantization,
                     .double_quantization = job.model.double_quantization,
                     .frozen = frozen,
                     .parameters = run_parameters(spec, job.adapter, job.model.quantization)});
}

// Replaces every quantised weight by its dequantised values, in their unquantised form.
void replace_by_dequantized(Model& model) {
  int64_t replaced = 0;
  for (auto& [path, linear] : model.linears) {
    REQUIRE(linear.quantized.defined());
    REQUIRE_FALSE(linear.weight.defined());
    linear.weight = dequantize(linear.quantized, model.type);
    linear.quantized = QuantizedWeight();
    ++replaced;
  }
  CHECK(replaced == 7 * model.spec.num_layers);
}

Batch small_batch(int64_t vocab) {
  Batch batch;
  for (int64_t id = 0; id < 4; ++id) {
    Example example{.id = id};
    for (int64_t i = 0; i < 6 + id; ++i) {
      example.ids.push_back(static_cast<int32_t>((id * 31 + i * i * 7 + 5) % vocab));
      example.supervised.push_back(i > 0);
    }
    batch.append(example);
  }
  return batch;
}

// Does twenty steps of plain gradient descent on one batch.
Trained train(Model& model, const Job& job, Checkpointing checkpointing,
              const std::string& provider_name = "reference") {
  c10::NoGradGuard no_grad;
  TrainableSet trainables(trained_layout(run_parameters(model.spec, job.adapter, job.model.quantization)), model.type,
                          model.device, true);
  auto sites = adapter_sites(model.spec, job.adapter);
  attach_adapter(model, trainables, sites, job.adapter);
  initialize_adapter(model, trainables, sites, job.adapter, 1);
  trainables.publish();
  auto provider = make_step_provider(provider_name, model, trainables,
                                     step_options(model.spec, job, sites, checkpointing));
  Network network(model, trainables, *provider, job);
  Batch batch = small_batch(model.spec.vocab_size);
  BatchTensors tensors = to_tensors(batch, model.spec, model.type, model.device);
  tensors.training = true;
  const double tokens = static_cast<double>(batch.supervised_tokens());
  Trained result;
  for (int step = 0; step < 20; ++step) {
    trainables.zero_grad();
    result.losses.push_back(network.forward_backward(tensors, {tokens, 1}).loss / tokens);
    trainables.master().sub_(trainables.grad(), 2.0);
    trainables.publish();
  }
  result.adapter = trainables.master().clone();
  return result;
}

}  // namespace

TEST_CASE("training on a quantised base equals training on its dequantised values") {
  struct Case {
    Quantization quantization;
    bool nested, dora;
    c10::ScalarType type;
  };
  const Case cases[] = {{Quantization::nf4, true, false, at::kFloat},
                        {Quantization::nf4, false, true, at::kFloat},
                        {Quantization::fp4, true, true, at::kBFloat16},
                        {Quantization::int8, false, false, at::kFloat},
                        {Quantization::nf4, true, false, at::kBFloat16}};
  at::set_num_threads(1);
  for (const Case& c : cases) {
    Job job = lora_job(c.quantization, c.nested, c.dora);
    INFO("quantization " << static_cast<int>(c.quantization) << " nested " << c.nested << " dora " << c.dora);
    Model quantized = load(job, c.type), plain = load(job, c.type);
    replace_by_dequantized(plain);
    for (const std::string provider : {"reference", "fused"}) {
      Trained a = train(quantized, job, Checkpointing::none, provider),
              b = train(plain, job, Checkpointing::none, provider);
      CHECK(a.losses == b.losses);
      CHECK(at::equal(a.adapter, b.adapter));
      CHECK(a.losses.back() < 0.8 * a.losses.front());
      CHECK(at::equal(train(quantized, job, Checkpointing::full, provider).adapter, a.adapter));
    }
  }
}

TEST_CASE("training on a base stored in fp16 equals training on the same values in fp32") {
  at::set_num_threads(1);
  for (bool dora : {false, true}) {
    Job job = lora_job(Quantization::none, false, dora);
    Model stored = load(job, at::kFloat, at::kHalf), same = load(job, at::kFloat, at::kHalf),
          exact = load(job, at::kFloat);
    CHECK(stored.embedding.scalar_type() == at::kHalf);
    CHECK(stored.norms.at("model.norm").scalar_type() == at::kFloat);
    same.embedding = same.embedding.to(at::kFloat);
    same.head = head_weight(same);
    for (auto& [path, linear] : same.linears) {
      REQUIRE(linear.weight.scalar_type() == at::kHalf);
      linear.weight = linear.weight.to(at::kFloat);
    }
    Trained a = train(stored, job, Checkpointing::none), b = train(same, job, Checkpointing::none);
    CHECK(a.losses == b.losses);
    CHECK(at::equal(a.adapter, b.adapter));
    CHECK(a.losses != train(exact, job, Checkpointing::none).losses);
  }
}

TEST_CASE("a module that is trained whole starts from the exact values") {
  Job job = lora_job(Quantization::none, false, false);
  job.adapter.target_modules = {"q_proj"};
  job.adapter.modules_to_save = {"down_proj"};
  Model model = load(job, at::kFloat, at::kHalf);
  CHECK(model.linears.at("model.layers.0.mlp.down_proj").weight.scalar_type() == at::kFloat);
  CHECK(model.linears.at("model.layers.0.mlp.up_proj").weight.scalar_type() == at::kHalf);
}

TEST_CASE("a quantised base differs from the plain one, and head, embedding and norms stay whole") {
  Job job = lora_job(Quantization::nf4, true, false);
  Model quantized = load(job, at::kFloat),
        plain = load(lora_job(Quantization::none, false, false), at::kFloat);
  CHECK(at::equal(quantized.embedding, plain.embedding));
  CHECK(at::equal(quantized.head, plain.head));
  CHECK(at::equal(quantized.norms.at("model.layers.1.input_layernorm"),
                  plain.norms.at("model.layers.1.input_layernorm")));
  at::Tensor weight = plain.linears.at("model.layers.1.mlp.up_proj").weight,
             blocks = base_weight(quantized.linears.at("model.layers.1.mlp.up_proj"), at::kFloat);
  const double error = ((weight - blocks).norm() / weight.norm()).item<double>();
  // NF4's error on normal weights is about a tenth of them.
  CHECK(error > 0.05);
  CHECK(error < 0.15);
}

TEST_CASE("a module that is trained whole is not quantised") {
  Job job = lora_job(Quantization::nf4, true, false);
  job.adapter.target_modules = {"q_proj"};
  job.adapter.modules_to_save = {"down_proj"};
  Model model = load(job, at::kFloat);
  CHECK(model.linears.at("model.layers.0.mlp.down_proj").weight.defined());
  CHECK_FALSE(model.linears.at("model.layers.0.mlp.down_proj").quantized.defined());
  CHECK(model.linears.at("model.layers.0.mlp.up_proj").quantized.defined());
}

TEST_CASE("a loaded base takes the bytes that the plan counts") {
  install_counting_allocator();
  for (bool nested : {false, true}) {
    Job job = lora_job(Quantization::nf4, nested, false);
    job.train.precision = Precision::fp32;
    ModelSpec spec = read_model_spec(kModel);
    int64_t planned = 0, matrices = 0;
    for (const Parameter& p : run_parameters(spec, job.adapter, job.model.quantization)) {
      if (p.trainable) continue;
      planned += p.quantized ? quantized_bytes(p.shape[0], p.count(), job.model.quantization, nested) : 4 * p.count();
      matrices += p.quantized;
    }
    const int64_t before = allocator_stats().live_bytes;
    Model model = load(job, at::kFloat);
    // The mean of nested absmax is in the struct.
    CHECK(allocator_stats().live_bytes - before == planned - (nested ? 4 * matrices : 0));
  }
}

TEST_CASE("a weight that its storage cannot hold is refused by name") {
  const auto error_with = [](float value, Quantization quantization, std::optional<c10::ScalarType> frozen) {
    TemporaryFolder folder;
    std::filesystem::copy(
        kModel, folder.path(),
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
    auto original = open_safetensors(kModel + "/model.safetensors");
    std::vector<std::vector<float>> values;
    std::vector<SafetensorsEntry> entries;
    values.reserve(original->tensors().size());
    for (size_t i = 0; i < original->tensors().size(); ++i) {
      TensorInfo info = original->tensors()[i];
      values.emplace_back(static_cast<size_t>(info.count()));
      original->read_f32(i, values.back().data());
      if (info.name == "model.layers.1.mlp.up_proj.weight") values.back()[100] = value;
      entries.push_back(
          {{info.name, info.shape, DType::f32},
           {reinterpret_cast<const char*>(values.back().data()), values.back().size() * sizeof(float)}});
    }
    write_safetensors(folder.path("model.safetensors"), entries, {{"format", "pt"}});
    return error_of([&] { load(lora_job(quantization, true, false), at::kFloat, frozen, folder.path()); });
  };
  const std::string name = "model.layers.1.mlp.up_proj.weight: ";
  CHECK(error_with(std::nanf(""), Quantization::nf4, {}).find(name + "holds a value that is not finite") ==
        0);
  CHECK(error_with(1e5F, Quantization::none, at::kHalf).find(name + "holds a value past the range of") == 0);
  CHECK(error_with(1e5F, Quantization::none, {}) == "no error");
}
