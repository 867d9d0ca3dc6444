// Tests settings that must not affect a step: how an optimizer step is cut into micro-batches, and
// recompute.
#include <ATen/ATen.h>

#include <algorithm>

#include "core/data/batch/order.h"
#include "core/lib/io/model_file.h"
#include "core/model/adapter/lora.h"
#include "core/model/families/adapter_sites.h"
#include "core/train/network.h"
#include "core/train/step.h"
#include "providers/engine_providers.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kModel = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";

std::vector<Example> examples(int64_t vocab) {
  std::vector<Example> list;
  for (int64_t id = 0; id < 8; ++id) {
    Example example{.id = id};
    int64_t length = 3 + (id * 7) % 19, prompt = 1 + id % 3;  // unequal lengths, unequal supervised counts
    for (int64_t i = 0; i < length; ++i) {
      example.ids.push_back(static_cast<int32_t>((id * 31 + i * i * 7 + 5) % vocab));
      example.supervised.push_back(i >= prompt);
    }
    list.push_back(example);
  }
  return list;
}

struct Run {
  double loss = 0;
  at::Tensor grad;
};

// A way to compute a step; only `lora` may affect the result.
struct How {
  std::string provider;
  bool lora = true;
  Checkpointing checkpointing = Checkpointing::none;
};

Run run(const std::vector<std::vector<int64_t>>& cut, const How& how) {
  ModelSpec spec = read_model_spec(kModel);
  Job job;
  job.train.neftune_alpha = 3;
  if (how.lora) {
    job.adapter.type = AdapterType::lora;
    job.adapter.rank = 4;
    job.adapter.dropout = 0.2;
  }
  Model model = load_model(spec, *open_model(kModel), at::kFloat, c10::Device(c10::DeviceType::CPU));
  TrainableSet trainables(trained_layout(run_parameters(spec, job.adapter, Quantization::none)), at::kFloat, model.device, true);
  c10::NoGradGuard no_grad;
  std::vector<AdapterSite> sites;
  if (how.lora) {
    sites = adapter_sites(spec, job.adapter);
    attach_adapter(model, trainables, sites, job.adapter);
    initialize_adapter(model, trainables, sites, job.adapter, 1);
    at::manual_seed(8);
    for (Trainable& item : trainables.items())
      if (item.parameter.role == Role::lora_b) item.master.copy_(at::randn(item.master.sizes()) * 0.05);
  } else {
    for (Trainable& item : trainables.items()) {
      at::Tensor* slot = find_weight(model, item.parameter.name);
      item.master.copy_(*slot);
      *slot = item.leaf;
    }
  }
  auto provider = make_step_provider(how.provider, model, trainables,
                                     step_options(spec, job, sites, how.checkpointing));
  Network network(model, trainables, *provider, job);
  trainables.zero_grad();
  auto all = examples(spec.vocab_size);
  std::vector<Batch> batches;
  double normalizer = 0;
  for (const auto& indices : cut) {
    Batch batch;
    for (int64_t index : indices) batch.append(all[static_cast<size_t>(index)]);
    normalizer += static_cast<double>(batch.supervised_tokens());
    batches.push_back(batch);
  }
  Run result;
  for (const Batch& batch : batches) {
    BatchTensors tensors = to_tensors(batch, spec, at::kFloat, model.device);
    tensors.training = true;
    tensors.rows.seed = 11;
    tensors.rows.step = 2;
    result.loss += network.forward_backward(tensors, {normalizer, 1}).loss / normalizer;
  }
  result.grad = trainables.grad().clone();
  return result;
}

void check_equal(const Run& a, const Run& b) {
  CHECK(a.loss == Approx(b.loss).epsilon(1e-6));
  double scale = b.grad.abs().max().item<double>();
  REQUIRE(scale > 1e-4);
  CHECK((a.grad - b.grad).abs().max().item<double>() < 1e-5 * scale);
}

}  // namespace

TEST_CASE("losses and gradients do not depend on how a step is cut into micro-batches") {
  const How how{GENERATE("reference", "fused"), GENERATE(true, false)};
  Run whole = run({{0, 1, 2, 3, 4, 5, 6, 7}}, how);
  check_equal(run({{0, 1, 2, 3}, {4, 5, 6, 7}}, how), whole);
  check_equal(run({{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}, how), whole);
  check_equal(run({{0, 1, 2}, {3, 4, 5, 6, 7}}, how), whole);
}

TEST_CASE("packing on and off give the same gradient of a step") {
  const How how{GENERATE("reference", "fused"), GENERATE(true, false)};
  Job job;
  job.train.micro_batch_tokens = 40;
  job.train.micro_batch_size = 2;
  std::vector<int64_t> lengths, step{0, 1, 2, 3, 4, 5, 6, 7};
  for (const Example& example : examples(100)) lengths.push_back(static_cast<int64_t>(example.ids.size()));
  Parts packed = micro_batches(step, lengths, job);
  job.data.packing = false;
  Parts alone = micro_batches(step, lengths, job);
  REQUIRE(packed.size() < alone.size());
  REQUIRE(packed.front() != std::vector<int64_t>({0, 1}));  // examples are batched differently, in another order
  check_equal(run(packed, how), run(alone, how));
}

TEST_CASE("packing on and off give the same loss of every token") {
  const std::string provider_name = GENERATE("reference", "fused");
  ModelSpec spec = read_model_spec(kModel);
  Job job;
  Model model = load_model(spec, *open_model(kModel), at::kFloat, c10::Device(c10::DeviceType::CPU));
  job.adapter.type = AdapterType::lora;
  job.adapter.rank = 4;
  TrainableSet trainables(trained_layout(run_parameters(spec, job.adapter, Quantization::none)), at::kFloat, model.device, true);
  c10::NoGradGuard no_grad;
  auto sites = adapter_sites(spec, job.adapter);
  attach_adapter(model, trainables, sites, job.adapter);
  initialize_adapter(model, trainables, sites, job.adapter, 1);
  auto provider = make_step_provider(provider_name, model, trainables,
                                     step_options(spec, job, sites, Checkpointing::none));
  Network network(model, trainables, *provider, job);
  auto losses = [&](const std::vector<Example>& list) {
    Batch batch;
    for (const Example& example : list) batch.append(example);
    std::vector<double> values;
    for (const SequenceSums& sums : network.answers(to_tensors(batch, spec, at::kFloat, model.device)))
      values.push_back(-sums.logp);
    return values;
  };
  // Examples that train one token each: the loss of an example is the loss of that token.
  auto all = examples(spec.vocab_size);
  int64_t tokens = 0;
  for (size_t position = 1; position < 19; ++position) {  // the longest has 19 tokens
    std::vector<Example> list;
    for (Example example : all) {
      if (position >= example.ids.size()) continue;
      std::fill(example.supervised.begin(), example.supervised.end(), uint8_t{0});
      example.supervised[position] = 1;
      list.push_back(example);
    }
    std::vector<double> together = losses(list);
    for (size_t i = 0; i < list.size(); ++i, ++tokens) {
      CAPTURE(position, i);
      CHECK(together[i] == Approx(losses({list[i]})[0]).epsilon(1e-5));
    }
  }
  CHECK(tokens > 60);
}

TEST_CASE("recompute changes nothing, dropout and noise included") {
  const How how{GENERATE("reference", "fused"), GENERATE(true, false)};
  Run kept = run({{0, 1, 2, 3}, {4, 5, 6, 7}}, how);
  Run full = run({{0, 1, 2, 3}, {4, 5, 6, 7}}, {how.provider, how.lora, Checkpointing::full});
  Run selective = run({{0, 1, 2, 3}, {4, 5, 6, 7}}, {how.provider, how.lora, Checkpointing::selective});
  CHECK(full.loss == kept.loss);
  CHECK(selective.loss == kept.loss);
  CHECK(at::equal(full.grad, kept.grad));
  CHECK(at::equal(selective.grad, kept.grad));
}
