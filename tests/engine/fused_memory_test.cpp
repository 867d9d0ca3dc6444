// Checks that the fused provider allocates its memory once: the arena that the plan laid out, to
// the byte, and nothing in a step.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "core/lib/io/model_file.h"
#include "core/lib/tensor/counting_allocator.h"
#include "core/model/adapter/lora.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/families/config_spec.h"
#include "core/model/families/drawn_weights.h"
#include "core/train/network.h"
#include "providers/engine_providers.h"
#include "providers/fused/fused_plan.h"
#include "tests/engine/batch_of.h"
#include "tests/fixtures/variants.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kModel = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";

struct Fixture {
  ModelSpec spec;
  Job job;
  Model model;
  std::unique_ptr<TrainableSet> trainables;
  std::unique_ptr<StepProvider> provider;
  BatchTensors batch;
  int64_t planned = 0;  // bytes of the arena

  // `variant` is that of the tiny model, with random weights; null: the model itself.
  Fixture(const AdapterConfig& adapter, Checkpointing checkpointing, const char* variant, c10::ScalarType type, Residual residual) {
    spec = variant ? model_spec_from_config(variant_config(variant), variant) : read_model_spec(kModel);
    install_counting_allocator();
    at::set_num_threads(2);
    c10::NoGradGuard no_grad;
    job.adapter = adapter, job.train.residual = residual;
    model = load_model(spec, variant ? *drawn_weights(spec, 1) : *open_model(kModel), type, c10::Device(c10::DeviceType::CPU));
    trainables = std::make_unique<TrainableSet>(trained_layout(run_parameters(spec, adapter, Quantization::none)), type,
                                                model.device, true);
    const auto sites = adapter_sites(spec, adapter);
    for (Trainable& item : trainables->items())
      if (at::Tensor* slot = find_weight(model, base_name(item.parameter))) {
        item.master.copy_(*slot);
        *slot = item.leaf;
      }
    if (adapter.type == AdapterType::lora) {
      attach_adapter(model, *trainables, sites, adapter);
      initialize_adapter(model, *trainables, sites, adapter, 1);
    }
    trainables->zero_grad();
    StepOptions options = step_options(spec, job, sites, checkpointing);
    batch = to_tensors(batch_of(4, 40, spec.vocab_size), spec, type, model.device);
    batch.training = true;
    options.training = {batch.tokens, batch.loss_positions.size(0)};
    provider = make_step_provider("fused", model, *trainables, options);
    planned =
        lay_out(training_step(options.shape),
                {batch.tokens, options.training.targets, static_cast<int64_t>(c10::elementSize(type)), 2}, fused_workspace)
            .bytes;
  }

  void step() {
    const HeadRows head = provider->forward(batch, true);
    head.d_rows.fill_(0.01);
    provider->backward(head.d_rows, batch);
  }
};

AdapterConfig lora(double dropout) {
  AdapterConfig adapter;
  adapter.type = AdapterType::lora;
  adapter.rank = 4;
  adapter.dropout = dropout;
  return adapter;
}

}  // namespace

TEST_CASE("a fused step allocates the planned arena at first and nothing afterwards") {
  const auto checkpointing = GENERATE(Checkpointing::none, Checkpointing::selective, Checkpointing::full);
  const char* variant =
      GENERATE(static_cast<const char*>(nullptr), "mixtral-balanced", "qwen2-moe", "gpt-oss", "deepseek-v3", "qwen3-next");
  for (const AdapterConfig& adapter : {AdapterConfig{}, lora(0), lora(0.1)}) {
    Fixture fixture(adapter, checkpointing, variant, at::kFloat, Residual::compute);
    const AllocatorStats before = allocator_stats();
    fixture.step();
    const AllocatorStats after = allocator_stats();
    CHECK(after.live_bytes - before.live_bytes == fixture.planned);
    fixture.step();
    const int64_t calls = allocator_stats().allocations;
    fixture.step();
    CHECK(allocator_stats().allocations - calls == 0);
  }
}
