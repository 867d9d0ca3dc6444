// Compares the fused provider with the reference: loss and every gradient of a step.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <functional>

#include "core/lib/io/model_file.h"
#include "core/model/adapter/lora.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/config_spec.h"
#include "core/lib/base/text.h"
#include "core/model/families/drawn_weights.h"
#include "core/train/network.h"
#include "tests/oracle/whole_layers.h"
#include "providers/providers.h"
#include "tests/fixtures/variants.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kModel = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";

struct Setting {
  const char* name;
  AdapterConfig adapter;
  bool biases = false;
  const char* variant = nullptr;  // of the tiny model, with weights that are drawn
};

AdapterConfig lora(double dropout = 0) {
  AdapterConfig adapter;
  adapter.type = AdapterType::lora;
  adapter.rank = 5;  // not a multiple of a vector's width
  adapter.alpha = 7;
  adapter.dropout = dropout;
  return adapter;
}

std::vector<Setting> settings() {
  std::vector<Setting> list{{"full", {}},
                            {"lora", lora()},
                            {"lora with dropout", lora(0.3)},
                            {"biases", lora(), true},
                            {"full, biases", {}, true}};
  AdapterConfig upper = lora();
  upper.target_modules = {"q_proj", "down_proj"};
  upper.layers_to_transform = {1, 2};
  list.push_back({"two modules of the upper layers", upper});
  upper.target_modules = {"down_proj"};
  list.push_back({"the second half of the upper layers", upper});
  AdapterConfig ranks = lora(0.1);
  ranks.rank_pattern = {{{"k_proj", 3}, {"layers.1.mlp.up_proj", 16}}};
  list.push_back({"other ranks", ranks});
  AdapterConfig whole = lora();
  whole.target_modules = {"v_proj"};
  whole.modules_to_save = {"input_layernorm", "up_proj"};
  list.push_back({"norms and a matrix trained whole", whole});
  AdapterConfig dora = lora(0.2);
  dora.use_dora = true;
  list.push_back({"dora with dropout", dora});
  list.push_back({"dora, biases", dora, true});
  dora.target_modules = {"v_proj", "down_proj", "up_proj"};
  dora.layers_to_transform = {1, 2};
  list.push_back({"dora of some modules", dora, true});
  AdapterConfig biases = lora();  // also of norms, and of layers without an adapter
  biases.bias = LoraBias::all;
  biases.target_modules = {"query_key_value"};
  list.push_back({"every bias beside some adapters", biases, false, "gpt-neox"});
  biases.layers_to_transform = {2};
  list.push_back({"every bias, adapters in the last layer", biases, false, "starcoder2"});
  list.back().adapter.target_modules = {"v_proj"};
  return list;
}

// Returns settings for mixtures of experts: with a shared one, with layers without experts, with a
// loss that balances them.
std::vector<Setting> expert_settings() {
  std::vector<Setting> list;
  for (const char* variant : {"mixtral-balanced", "qwen2-moe", "qwen3-moe-sparse", "gpt-oss-balanced",
                              "deepseek-v2-groups", "deepseek-v3", "granitemoe-balanced", "granitemoe-shared", "ernie-moe",
                              "qwen3-next", "qwen3-next-mixed", "qwen3-5", "qwen3-5-tied"}) {
    list.push_back({"full", {}, false, variant});
    list.push_back({"lora", lora(), false, variant});
  }
  list.push_back({"lora with dropout", lora(0.3), false, "qwen2-moe"});
  AdapterConfig some = lora(0.2);  // adapts some experts, one of them with another rank
  some.target_modules = {"experts.1.gate_proj", "experts.3.gate_proj", "experts.2.down_proj", "shared_expert_gate"};
  some.rank_pattern = {{{"experts.3.gate_proj", 9}}};
  some.layers_to_transform = {1, 2};
  list.push_back({"lora of some experts", some, false, "qwen2-moe"});
  AdapterConfig whole = lora();
  whole.target_modules = {"gate"};
  whole.modules_to_save = {"experts.0.up_proj", "experts.4.down_proj"};
  list.push_back({"lora of the router, experts trained whole", whole, false, "qwen3-moe"});
  AdapterConfig rescaled = lora(0.2);
  rescaled.use_dora = true;
  rescaled.target_modules = {"gate_proj", "up_proj", "down_proj"};
  list.push_back({"dora of experts", rescaled, false, "qwen2-moe"});
  rescaled.target_modules = {"experts.1.w1", "experts.2.w2"};
  list.push_back({"dora of some experts", rescaled, false, "mixtral-balanced"});
  AdapterConfig joined = lora();  // adapts experts in one tensor
  joined.target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  list.push_back({"lora of joined experts", joined, false, "gpt-oss"});
  joined.target_modules.clear();
  joined.target_parameters = {"mlp.experts.down_proj"};
  list.push_back({"lora of one joined matrix", joined, false, "gpt-oss-balanced"});
  joined.target_parameters = {"block_sparse_moe.experts.gate_up_proj",
                              "block_sparse_moe.experts.down_proj"};
  list.push_back({"lora of joined experts whose rows are features out", joined, false, "granitemoe"});
  AdapterConfig latent = lora(0.2);
  latent.target_modules = {"kv_b_proj", "o_proj", "kv_a_proj_with_mqa"};
  list.push_back({"lora of latent attention", latent, false, "deepseek-v3-halves"});
  latent.target_modules = {"q_a_proj"};
  latent.modules_to_save = {"kv_a_layernorm"};
  list.push_back({"lora of a latent, its norm trained whole", latent, false, "deepseek-v3"});
  AdapterConfig delta = lora(0.2);
  delta.target_modules = {"in_proj_qkv", "in_proj_a", "q_proj"};
  delta.modules_to_save = {"conv1d", "linear_attn.norm"};
  list.push_back({"lora of a delta rule's inputs, its filters trained whole", delta, false, "qwen3-5"});
  return list;
}

Batch batch_of(const std::vector<int64_t>& lengths, int64_t vocab) {
  Batch batch;
  for (size_t id = 0; id < lengths.size(); ++id) {
    Example example{.id = static_cast<int64_t>(id)};
    for (int64_t i = 0; i < lengths[id]; ++i) {
      example.ids.push_back(static_cast<int32_t>((static_cast<int64_t>(id) * 31 + i * i * 7 + 5) % vocab));
      example.supervised.push_back(i > 1);
    }
    batch.append(example);
  }
  return batch;
}

struct Step {
  double loss = 0;
  std::vector<double> evaluated;  // loss of every example, without dropout
  std::vector<std::pair<std::string, at::Tensor>> grads;
};

// The part of a step that is recomputed: a fixed choice, or those of all candidates, cheapest
// first, that `picks` selects.
struct Again {
  Again(Checkpointing fixed) : policy(fixed) {}
  explicit Again(std::function<bool(size_t)> some) : picks(std::move(some)) {}

  Recomputed of(const StepShape& shape) const {
    if (!picks) return recomputed_by(shape, policy);
    Recomputed again;
    const auto units = recompute_units(forward_list(shape), {.tokens = 61, .targets = 40}, 12);
    for (size_t i = 0; i < units.size(); ++i)
      if (picks(i)) again.add(units[i]);
    return again;
  }
  Checkpointing policy = Checkpointing::none;
  std::function<bool(size_t)> picks;
};

// The place of adapters: beside their products; the same, with room for them in the weights, which
// another model that shares these needs; or folded into the products.
enum class Adapters { apart, apart_beside_room, folded, folded_norms_kept };

// Settings of the residual stream.
struct StreamOf {
  Residual residual = Residual::compute;
  double embedding_scale = 0;                      // of the model; 0: its own
  bool rounded = false;                            // weights are numbers of fp16, whatever the type
};

Step step(const Setting& setting, c10::ScalarType type, const std::string& provider_name, const Again& again,
          const std::vector<int64_t>& lengths, Adapters adapters = Adapters::apart, const StreamOf& stream = {}, bool offloaded = false) {
  ModelSpec spec = setting.variant ? model_spec_from_config(variant_config(setting.variant), setting.variant) : read_model_spec(kModel);
  spec.initializer_range = 0.1;  // of weights that are drawn
  if (stream.embedding_scale > 0) spec.embedding_scale = stream.embedding_scale;
  const auto file = setting.variant ? drawn_weights(spec, 1) : open_model(kModel);
  Job job;
  job.adapter = setting.adapter;
  job.train.residual = stream.residual;
  auto sites = adapter_sites(spec, job.adapter);
  BaseStorage storage{.written = stream.rounded};
  if (adapters != Adapters::apart) storage.folded = module_training(spec, job.adapter, sites);
  Model model = load_model(spec, *file, type, c10::Device(c10::DeviceType::CPU), storage);
  std::vector<Parameter> parameters = run_parameters(spec, job.adapter, Quantization::none);
  c10::NoGradGuard no_grad;
  // Drawn decays sum to thousands in a chunk, whose differences autograd's fp32 does not hold.
  for (const Parameter& parameter : run_parameters(spec, {}, Quantization::none))
    if (ends_with(parameter.name, ".A_log")) find_weight(model, base_name(parameter))->fill_(-3);
  if (stream.rounded)
    for (const Parameter& parameter : run_parameters(spec, {}, Quantization::none))
      if (at::Tensor* weight = find_weight(model, base_name(parameter))) weight->copy_(weight->to(at::kHalf));
  at::manual_seed(5);
  TrainableSet trainables(trained_layout(parameters), type, model.device, true);
  for (Trainable& item : trainables.items()) {
    at::Tensor* slot = find_weight(model, base_name(item.parameter));
    if (!slot) continue;
    item.master.copy_(*slot);
    *slot = item.leaf;
  }
  if (job.adapter.type == AdapterType::lora) attach_adapter(model, trainables, sites, job.adapter);
  for (Trainable& item : trainables.items())
    if (item.parameter.role == Role::lora_a || item.parameter.role == Role::lora_b)
      item.master.copy_(at::randn(item.master.sizes()) * 0.05);
    else if (item.parameter.role == Role::dora_magnitude)
      item.master.copy_(at::rand(item.master.sizes()) + 0.5);
  trainables.publish();
  if (setting.biases)
    for (auto& [path, linear] : model.linears)
      linear.bias = (at::randn({linear.weight.size(0)}) * 0.1).to(type);
  StepOptions options = step_options(spec, job, sites, Checkpointing::none);
  options.shape.folded_adapters = adapters == Adapters::folded || adapters == Adapters::folded_norms_kept;
  // The settings are those of a GPU. The list does not contain these biases.
  options.shape.folded_residuals = options.shape.folded_adapters && !setting.biases;
  options.shape.kept_norms = adapters == Adapters::folded_norms_kept;
  options.shape.offloaded = offloaded;
  options.shape.recompute = again.of(options.shape);
  auto provider = step_of(provider_name, model, trainables, options);
  Network network(model, trainables, *provider, job);
  trainables.zero_grad();
  Batch batch = batch_of(lengths, spec.vocab_size);
  BatchTensors tensors = to_tensors(batch, spec, type, model.device);
  tensors.training = true;
  tensors.rows.seed = 11;
  tensors.rows.step = 2;
  Step result;
  const auto tokens = static_cast<double>(batch.supervised_tokens());
  result.loss = network.forward_backward(tensors, {.divisor = tokens, .loss_scale = 1, .tokens = static_cast<double>(batch.tokens())}).loss / tokens;
  tensors.training = false;
  for (const SequenceSums& sums : network.answers(tensors)) result.evaluated.push_back(-sums.logp);
  for (Trainable& item : trainables.items())
    result.grads.emplace_back(item.parameter.name, item.grad.clone());
  return result;
}

double error(const at::Tensor& x, const at::Tensor& truth) {
  return ((x - truth).norm() / truth.norm()).item<double>();
}

const std::vector<int64_t> kLengths{5, 1, 40, 12, 3};  // one of a single token

}  // namespace

TEST_CASE("both providers give autograd's loss and gradients") {
  at::set_num_threads(2);
  const auto checkpointing = GENERATE(Checkpointing::none, Checkpointing::selective, Checkpointing::full);
  const std::vector<Setting> all = GENERATE(settings(), expert_settings());
  const std::string provider = GENERATE("fused", "reference");
  for (const std::vector<int64_t>& lengths : {kLengths, std::vector<int64_t>{150}})
    for (const Setting& setting : all) {
      Step fused = step(setting, at::kFloat, provider, checkpointing, lengths),
           reference = step(setting, at::kFloat, "autograd", checkpointing, lengths);
      INFO(provider << ", " << setting.name << ", recompute " << static_cast<int>(checkpointing) << ", first length "
                        << lengths[0] << (setting.variant ? setting.variant : ""));
      CHECK(fused.loss == Approx(reference.loss).epsilon(1e-6));
      REQUIRE(fused.evaluated.size() == lengths.size());
      for (size_t i = 0; i < lengths.size(); ++i)
        CHECK(fused.evaluated[i] == Approx(reference.evaluated[i]).epsilon(1e-6));
      REQUIRE_FALSE(fused.grads.empty());
      for (size_t i = 0; i < fused.grads.size(); ++i) {
        CAPTURE(fused.grads[i].first);
        const bool none = reference.grads[i].second.abs().max().item<double>() == 0;  // of an expert that no token gets
        REQUIRE((!none || fused.grads[i].first.find("experts.") != std::string::npos));
        CHECK(none == (fused.grads[i].second.abs().max().item<double>() == 0));
        if (!none) CHECK(error(fused.grads[i].second, reference.grads[i].second) < 2e-5);
      }
    }
}

TEST_CASE("adapters in the products of their weights give the same loss and gradients") {
  at::set_num_threads(2);
  const auto checkpointing = GENERATE(Checkpointing::none, Checkpointing::selective, Checkpointing::full);
  for (const Setting& setting : settings()) {
    INFO(setting.name << ", recompute " << static_cast<int>(checkpointing));
    const Step apart = step(setting, at::kFloat, "fused", checkpointing, kLengths),
               beside = step(setting, at::kFloat, "fused", checkpointing, kLengths, Adapters::apart_beside_room),
               folded = step(setting, at::kFloat, "fused", checkpointing, kLengths, Adapters::folded),
               kept = step(setting, at::kFloat, "fused", checkpointing, kLengths, Adapters::folded_norms_kept);
    CHECK(beside.loss == Approx(apart.loss).epsilon(1e-6));
    CHECK(folded.loss == Approx(apart.loss).epsilon(1e-6));
    for (size_t i = 0; i < kLengths.size(); ++i) CHECK(folded.evaluated[i] == Approx(apart.evaluated[i]).epsilon(1e-6));
    for (size_t i = 0; i < folded.grads.size(); ++i) {
      CAPTURE(folded.grads[i].first);
      CHECK(error(folded.grads[i].second, apart.grads[i].second) < 5e-6);
      CHECK(error(beside.grads[i].second, apart.grads[i].second) < 5e-6);
      CHECK(at::equal(kept.grads[i].second, folded.grads[i].second));
    }
  }
}

TEST_CASE("whatever is computed again, a step stays the same to the bit") {
  at::set_num_threads(1);
  const std::string provider = GENERATE("fused", "reference");
  const std::vector<Setting> all = GENERATE(settings(), expert_settings());
  for (const Setting& setting : all) {
    const Step whole = step(setting, at::kFloat, provider, Checkpointing::none, kLengths);
    for (size_t n : {2, 3, 5, 7}) {
      INFO(provider << ", " << setting.name << ", every value but one in " << n);
      const Step some =
          step(setting, at::kFloat, provider, Again([n](size_t i) { return i % n != 0; }), kLengths);
      CHECK(some.loss == whole.loss);
      for (size_t i = 0; i < whole.grads.size(); ++i) {
        CAPTURE(whole.grads[i].first);
        CHECK(at::equal(some.grads[i].second, whole.grads[i].second));
      }
    }
  }
}

TEST_CASE("layers' inputs that wait elsewhere change no bit of a step") {
  at::set_num_threads(1);
  const auto checkpointing = GENERATE(Checkpointing::none, Checkpointing::full);
  const auto adapters = GENERATE(Adapters::apart, Adapters::folded);
  std::vector<Setting> all = settings();
  // The products of olmo2 read the stream itself, which is followed by an adapter's sums.
  all.push_back({"lora", lora(), false, "olmo2"});
  for (const Setting& setting : all) {
    INFO(setting.name << ", recompute " << static_cast<int>(checkpointing));
    const Step stays = step(setting, at::kFloat, "fused", checkpointing, kLengths, adapters),
               waits = step(setting, at::kFloat, "fused", checkpointing, kLengths, adapters, {}, /*offloaded=*/true);
    CHECK(waits.loss == stays.loss);
    for (size_t i = 0; i < stays.grads.size(); ++i) {
      CAPTURE(stays.grads[i].first);
      CHECK(at::equal(waits.grads[i].second, stays.grads[i].second));
    }
  }
}

TEST_CASE("in bf16 the fused provider is no further from fp32 than autograd") {
  at::set_num_threads(2);
  double fused_sum = 0, reference_sum = 0;
  for (const Setting& setting : settings()) {
    INFO(setting.name);
    Step exact = step(setting, at::kFloat, "autograd", Checkpointing::none, kLengths);
    Step fused = step(setting, at::kBFloat16, "fused", Checkpointing::none, kLengths),
         reference = step(setting, at::kBFloat16, "autograd", Checkpointing::none, kLengths);
    CHECK(std::abs(fused.loss - exact.loss) < 3e-3 * exact.loss);
    for (size_t i = 0; i < exact.grads.size(); ++i) {
      CAPTURE(exact.grads[i].first);
      const double mine = error(fused.grads[i].second, exact.grads[i].second),
                   its = error(reference.grads[i].second, exact.grads[i].second);
      CHECK(mine < 2 * its + 1e-3);
      fused_sum += mine;
      reference_sum += its;
    }
  }
  CHECK(fused_sum < 1.05 * reference_sum);
}

namespace {

// The distance of a step from another: its loss, and all gradients together.
struct Distance {
  double loss = 0, grads = 0;
};
Distance distance(const Step& x, const Step& truth) {
  double apart = 0, size = 0;
  for (size_t i = 0; i < x.grads.size(); ++i) {
    apart += (x.grads[i].second - truth.grads[i].second).square().sum().item<double>();
    size += truth.grads[i].second.square().sum().item<double>();
  }
  return {std::abs(x.loss - truth.loss) / truth.loss, std::sqrt(apart / size)};
}

bool finite(const Step& x) {
  bool all = std::isfinite(x.loss);
  for (const auto& [name, grad] : x.grads) all &= grad.isfinite().all().item<bool>();
  return all;
}

}  // namespace

// In fp32 both streams are the same numbers; only the list differs, with its casts and separate
// sums.
TEST_CASE("a list whose stream has a type of its own gives the same") {
  at::set_num_threads(2);
  const auto checkpointing = GENERATE(Checkpointing::none, Checkpointing::selective, Checkpointing::full);
  const std::string provider = GENERATE("fused", "reference");
  std::vector<Setting> all = settings();
  for (const char* variant : {"qwen3", "gemma2", "granite", "olmo2", "cohere", "gpt-neox", "gpt-neox-sequential", "falcon", "gpt2", "stablelm-parallel",
                              "glm4", "qwen2-moe", "deepseek-v3", "qwen3-next", "qwen3-5"}) {
    all.push_back({"full", {}, false, variant});
    all.push_back({"lora", lora(), false, variant});
  }
  AdapterConfig dora = lora();  // its gradients overwrite the values that they are computed from
  dora.use_dora = true;
  for (const char* variant : {"granite", "cohere", "gpt-neox"}) all.push_back({"dora", dora, false, variant});
  for (const Setting& setting : all) {
    INFO(provider << ", " << setting.name << ", recompute " << static_cast<int>(checkpointing) << (setting.variant ? setting.variant : ""));
    const Step narrow = step(setting, at::kFloat, provider, checkpointing, kLengths);
    for (const Adapters adapters : {Adapters::apart, Adapters::folded}) {
      if (adapters == Adapters::folded && (provider == "reference" || setting.adapter.type == AdapterType::none)) continue;
      const Step wide = step(setting, at::kFloat, provider, checkpointing, kLengths, adapters, {.residual = Residual::fp32});
      CHECK(wide.loss == Approx(narrow.loss).epsilon(1e-6));
      for (size_t i = 0; i < kLengths.size(); ++i) CHECK(wide.evaluated[i] == Approx(narrow.evaluated[i]).epsilon(1e-6));
      for (size_t i = 0; i < wide.grads.size(); ++i) {
        CAPTURE(wide.grads[i].first);
        if (narrow.grads[i].second.abs().max().item<double>() > 0) CHECK(error(wide.grads[i].second, narrow.grads[i].second) < 5e-6);
      }
    }
  }
}

TEST_CASE("fp16 beside an fp32 stream is closer to fp32 than fp16 alone") {
  at::set_num_threads(2);
  const std::string provider = GENERATE("fused", "reference");
  const auto checkpointing = GENERATE(Checkpointing::none, Checkpointing::full);
  // Embeddings are large compared with the outputs of layers, like in the models of Gemma and
  // Granite. The losses of one step are too close to be compared.
  const auto with = [&](c10::ScalarType type, Residual residual) {
    return step({"full", {}, false, "granite"}, type, provider, checkpointing, kLengths, Adapters::apart, {residual, 1e4, true});
  };
  const Step truth = with(at::kFloat, Residual::compute);
  const double narrow = distance(with(at::kHalf, Residual::compute), truth).grads, wide = distance(with(at::kHalf, Residual::fp32), truth).grads;
  INFO(provider << ": gradients " << wide << " and " << narrow << " apart");
  CHECK(wide < 0.5 * narrow);
}

TEST_CASE("a stream past fp16's range is finite in fp32 alone") {
  at::set_num_threads(2);
  const std::string provider = GENERATE("fused", "reference");
  const auto checkpointing = GENERATE(Checkpointing::none, Checkpointing::full);
  const auto with = [&](c10::ScalarType type, Residual residual) {
    return step({"full", {}, false, "granite"}, type, provider, checkpointing, kLengths, Adapters::apart, {residual, 1e7, true});
  };
  const Step truth = with(at::kFloat, Residual::compute), narrow = with(at::kHalf, Residual::compute), wide = with(at::kHalf, Residual::fp32);
  REQUIRE(finite(truth));
  CHECK_FALSE(std::isfinite(narrow.loss));
  REQUIRE(finite(wide));
  CHECK(distance(wide, truth).loss < 5e-4);  // as fp16's losses on an emulated GPU
  CHECK(distance(wide, truth).grads < 5e-3);
}
