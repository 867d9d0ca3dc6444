// Tests the data that a GPU's run keeps in the host's memory: the inputs of layers, and the
// optimizer's state.
#include "core/plan/fit/offload.h"

#include <algorithm>

#include "core/plan/explain.h"
#include "providers/gpu_speed.h"
#include "tests/plan/plan_inputs.h"
#include "tests/test.h"

namespace forge {
namespace {

// Returns a full fine-tuning whose state is 8.2 GiB of 18.4 that are held.
PlanInput full_tinyllama(const std::string& gpu, int64_t host_bytes = 16 * kGib) {
  PlanInput asked = input("tinyllama-1.1b", card(gpu));
  asked.job.adapter.type = AdapterType::none;
  asked.device.cpu.available_bytes = host_bytes;
  return asked;
}
int64_t bytes_of(const std::vector<MemoryLine>& lines, const std::string& name) {
  for (const MemoryLine& line : lines)
    if (line.name == name) return line.bytes;
  return 0;
}

}  // namespace

TEST_CASE("the optimizer's state moves to the host's memory where nothing else makes a job fit") {
  const Plan stays = make_plan(full_tinyllama("RTX 4090"));
  CHECK(stays.job.optimizer.offload == Offload::none);
  CHECK(stays.host_memory.empty());
  CHECK_THAT(stays.origins.at("optimizer.offload").reason, Catch::StartsWith("all fits on the card: "));
  const int64_t state = bytes_of(stays.memory, "optimizer state");
  CHECK(state > 8 * kGib);

  const Plan moved = make_plan(full_tinyllama("RTX 4070"));
  CHECK(moved.job.optimizer.offload == Offload::host);
  CHECK(bytes_of(moved.memory, "optimizer state") == 0);
  CHECK(bytes_of(moved.host_memory, "optimizer state") == state);
  CHECK(moved.predicted_peak_bytes <= moved.available_bytes);
  CHECK(moved.predicted_peak_bytes + state > moved.available_bytes);
  const ValueOrigin origin = moved.origins.at("optimizer.offload");
  CHECK(origin.kind == OriginKind::derived);
  CHECK(origin.reason == "with its 8.2 GiB on the card nothing fits into 11.3 GiB");
  CHECK_THAT(explain(moved), Catch::Contains("optimizer state, on the host") && Catch::Contains(origin.reason) &&
                                 Catch::Contains("8.2 GiB of optimizer state are pinned in the host's memory (optimizer.offload), which has 16.0 GiB free") &&
                                 Catch::Contains("each step reads and writes them over PCIe, in an estimated 0.4"));
  CHECK(bytes_of(plan_from_json(to_json(moved)).host_memory, "optimizer state") == state);
  const std::vector<Provider> all = providers();
  const auto fused = std::find_if(all.begin(), all.end(), [](const Provider& provider) { return provider.name == std::string("fused"); });
  REQUIRE(fused != all.end());
  CHECK_THAT(speed_line(moved, *fused), Catch::Contains("PCIe at 10 to 24 GB/s"));
  CHECK_THAT(speed_line(stays, *fused), !Catch::Contains("PCIe"));
}

TEST_CASE("before the state moves, everything is computed again, layers' inputs are moved and the micro-batch is the smallest") {
  PlanInput asked = full_tinyllama("RTX 4090");
  asked.job.train.micro_batch_tokens = asked.train.longest;
  asked.job.train.activation_checkpointing = Checkpointing::full;
  asked.job.train.activation_offloading = Offload::host;
  const int64_t least = make_plan(asked).predicted_peak_bytes;
  asked.job.train.micro_batch_tokens.reset();
  asked.job.train.activation_checkpointing.reset();
  asked.job.train.activation_offloading.reset();
  asked.job.hardware.memory_limit = least;
  CHECK(make_plan(asked).job.optimizer.offload == Offload::none);
  asked.job.hardware.memory_limit = least - 1;
  const Plan moved = make_plan(asked);
  CHECK(moved.job.optimizer.offload == Offload::host);
  CHECK(moved.job.train.activation_checkpointing == Checkpointing::none);  // there is room again
}

TEST_CASE("a job that does not fit without its state either says that it was moved") {
  PlanInput asked = full_tinyllama("RTX 4070");
  asked.job.hardware.memory_limit = 6 * kGib;
  const std::string refusal = error_of([&] { make_plan(asked); }), even = "even with the layers' inputs and the optimizer's state in the host's memory";
  CHECK_THAT(refusal, Catch::Contains("available on RTX 4070 (hardware.memory_limit), " + even) && Catch::Contains("the cheapest remedy: adapter.type: lora"));
  asked.job.optimizer.offload = Offload::host;
  CHECK_THAT(error_of([&] { make_plan(asked); }), Catch::StartsWith("needs ") && !Catch::Contains(even));
}

TEST_CASE("a job that keeps the state on the card is refused with the host as the remedy") {
  PlanInput asked = full_tinyllama("RTX 4070");
  asked.job.optimizer.offload = Offload::none;
  const std::string refusal = error_of([&] { make_plan(asked); });
  CHECK_THAT(refusal, Catch::Contains("the cheapest remedy: optimizer.offload: host (needs "));
  asked.job.optimizer.type = OptimizerType::sgd;
  asked.job.optimizer.momentum = 0.9;
  CHECK_THAT(error_of([&] { make_plan(asked); }), Catch::Contains("remedy") && !Catch::Contains("offload"));
}

TEST_CASE("a host with too little memory for the state") {
  PlanInput asked = full_tinyllama("RTX 4070", 8 * kGib);
  const std::string shortage = "the optimizer's state takes 8.2 GiB of the host's memory, which has 6.0 GiB for it";
  CHECK_THAT(error_of([&] { make_plan(asked); }), Catch::Contains(shortage) && Catch::Contains("the cheapest remedy: optimizer.type: adamw_8bit"));
  asked.job.optimizer.offload = Offload::host;
  try {
    make_plan(asked);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::fit);
    CHECK_THAT(error.what(), Catch::StartsWith("optimizer.offload: host: " + shortage));
    CHECK_THAT(error.hint(), Catch::Contains("adamw_8bit"));
  }
  asked.job.optimizer.type = OptimizerType::adamw_8bit;
  CHECK(make_plan(asked).job.optimizer.offload == Offload::host);
}

TEST_CASE("state that no kernel reaches in the host's memory") {
  PlanInput asked = input("tinyllama-1.1b", card("RTX 4090"));
  asked.job.optimizer.offload = Offload::host;
  const auto refusal = [](const PlanInput& of) { return error_of([&] { make_plan(of); }); };
  CHECK(refusal(asked) == "no error");
  PlanInput processor = input("tinyllama-1.1b", cpu()), sgd = asked, narrow = asked;
  processor.job.optimizer.offload = Offload::host;
  CHECK(refusal(processor) == "optimizer.offload: host: the run computes on the CPU, whose memory is the host's; write auto or none");
  sgd.job.optimizer.type = OptimizerType::sgd;
  CHECK_THAT(refusal(sgd), Catch::StartsWith("optimizer.offload: host: sgd is updated by LibTorch's operations"));
  narrow.job.train.master_weights = false;
  CHECK_THAT(refusal(narrow), Catch::StartsWith("optimizer.offload: host: weights without fp32 masters (train.master_weights) are updated"));
  narrow.job.train.precision = Precision::fp32;
  CHECK(refusal(narrow) == "no error");
  // If it is not set, it stays where it is.
  processor.job.optimizer.offload = sgd.job.optimizer.offload = {};
  CHECK(make_plan(processor).job.optimizer.offload == Offload::none);
  CHECK_THAT(make_plan(sgd).origins.at("optimizer.offload").reason, Catch::StartsWith("sgd is updated by LibTorch's operations"));
}

TEST_CASE("where the state lies is no part of what a job is") {
  PlanInput asked = full_tinyllama("RTX 4090");
  const Plan stays = make_plan(asked);
  asked.job.optimizer.offload = Offload::host;
  const Plan moved = make_plan(asked);
  CHECK(identity_differences(stays, moved).empty());
  CHECK(differing_keys(stays.execution, moved.execution) == std::vector<std::string>{"optimizer.offload"});
  CHECK(moved.checkpoint_bytes == stays.checkpoint_bytes);
}

TEST_CASE("a value network's state moves with the policy's") {
  PlanInput asked = input("tinyllama-1.1b", card("RTX 4090"));
  asked.job.objective.become(ObjectiveType::ppo);
  asked.job.rewards.resize(1);
  const int64_t on_card = bytes_of(make_plan(asked).memory, "value: optimizer state");
  asked.job.optimizer.offload = Offload::host;
  const Plan moved = make_plan(asked);
  CHECK(on_card > 0);
  CHECK(bytes_of(moved.memory, "value: optimizer state") == 0);
  CHECK(bytes_of(moved.host_memory, "value: optimizer state") == on_card);
}

namespace {

// Returns a job with texts of 8,192 tokens, whose layers' inputs are 2.0 GiB.
PlanInput long_texts(const std::string& gpu, int64_t host_bytes = 16 * kGib) {
  PlanInput asked = qlora("llama-3.1-8b", card(gpu));
  asked.train.longest = 8192;
  asked.device.cpu.available_bytes = host_bytes;
  return asked;
}

}  // namespace

TEST_CASE("layers' inputs wait on the host where nothing else makes a job fit") {
  PlanInput asked = long_texts("RTX 4090");
  const Plan roomy = make_plan(asked);
  CHECK(roomy.job.train.activation_offloading == Offload::none);
  CHECK_THAT(roomy.origins.at("train.activation_offloading").reason, Catch::StartsWith("all fits on the card: "));
  CHECK(roomy.host_memory.empty());

  asked.job.train.activation_checkpointing = Checkpointing::full;
  asked.job.train.micro_batch_tokens = 8192;
  const int64_t least = make_plan(asked).predicted_peak_bytes;
  asked.job.hardware.memory_limit = least - 1;
  const Plan moved = make_plan(asked);
  CHECK(moved.job.train.activation_offloading == Offload::host);
  CHECK(moved.job.optimizer.offload == Offload::none);
  // The input of the last of 32 layers stays on the card, and two more are being copied.
  const int64_t one = 8192 * 4096 * 2, waiting = bytes_of(moved.host_memory, "layer inputs");
  CHECK(waiting == 31 * one);
  CHECK(least - moved.predicted_peak_bytes >= 28 * one);
  CHECK(moved.origins.at("train.activation_offloading").kind == OriginKind::derived);
  CHECK_THAT(moved.origins.at("train.activation_offloading").reason, Catch::StartsWith("with its 1.9 GiB on the card nothing fits into "));
  CHECK_THAT(explain(moved), Catch::Contains("layer inputs, on the host") && Catch::Contains("8,192 tokens in bf16, of all layers that training passes through except the last") &&
                                 Catch::Contains("1.9 GiB of layer inputs are pinned in the host's memory (train.activation_offloading), which has 16.0 GiB free; "
                                                 "each micro-batch copies them over PCIe"));
  CHECK(bytes_of(plan_from_json(to_json(moved)).host_memory, "layer inputs") == waiting);
}

TEST_CASE("before layers' inputs move, everything is computed again and the micro-batch is the smallest") {
  PlanInput asked = long_texts("RTX 4090");
  asked.job.train.micro_batch_tokens = asked.train.longest;
  asked.job.train.activation_checkpointing = Checkpointing::full;
  const int64_t least = make_plan(asked).predicted_peak_bytes;
  asked.job.train.micro_batch_tokens.reset();
  asked.job.train.activation_checkpointing.reset();
  asked.job.hardware.memory_limit = least;
  CHECK(make_plan(asked).job.train.activation_offloading == Offload::none);
  asked.job.hardware.memory_limit = least - 1;
  CHECK(make_plan(asked).job.train.activation_offloading == Offload::host);
}

TEST_CASE("a job that keeps layers' inputs on the card is refused with the host as the remedy") {
  PlanInput asked = long_texts("RTX 4090");
  asked.job.train.activation_checkpointing = Checkpointing::full;
  asked.job.train.micro_batch_tokens = 8192;
  asked.job.hardware.memory_limit = make_plan(asked).predicted_peak_bytes - 1;
  asked.job.train.activation_offloading = asked.job.optimizer.offload = Offload::none;
  CHECK_THAT(error_of([&] { make_plan(asked); }), Catch::Contains("the cheapest remedy: train.activation_offloading: host (needs "));
}

TEST_CASE("a host with too little memory for layers' inputs") {
  PlanInput asked = long_texts("RTX 4090", 3 * kGib);
  asked.job.train.activation_offloading = Offload::host;
  asked.job.train.micro_batch_tokens = 8192;
  try {
    make_plan(asked);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::fit);
    CHECK_THAT(error.what(), Catch::StartsWith("train.activation_offloading: host: the layers' inputs take 1.9 GiB of the host's memory, which has 1.0 GiB for it"));
    CHECK_THAT(error.hint(), Catch::Contains("train.micro_batch_tokens"));
  }
  asked.device.cpu.available_bytes = 4 * kGib;
  CHECK(bytes_of(make_plan(asked).host_memory, "layer inputs") > 0);
}

TEST_CASE("layers' inputs that cannot wait on the host") {
  const auto refusal = [](const PlanInput& of) { return error_of([&] { make_plan(of); }); };
  PlanInput processor = input("tinyllama-1.1b", cpu()), gpu = input("tinyllama-1.1b", card("RTX 4090"));
  processor.job.train.activation_offloading = gpu.job.train.activation_offloading = Offload::host;
  CHECK(refusal(gpu) == "no error");
  CHECK(refusal(processor) == "train.activation_offloading: host: the run computes on the CPU, whose memory is the host's; write auto or none");
  gpu.job.provider = "reference";
  CHECK(refusal(gpu) == "no error");
  processor.job.train.activation_offloading = {};
  CHECK(make_plan(processor).job.train.activation_offloading == Offload::none);
}

TEST_CASE("copies beside the layers cost time where PCIe is slower than they are") {
  // The card computes these layers faster than PCIe carries their inputs.
  PlanInput asked = input("tinyllama-1.1b", card("B200"));
  asked.job.train.activation_checkpointing = Checkpointing::full;
  const Plan stays = make_plan(asked);
  asked.job.train.activation_offloading = Offload::host;
  asked.device.cpu.available_bytes = 64 * kGib;
  const Plan moved = make_plan(asked);
  const std::vector<Provider> all = providers();
  CHECK(activation_seconds(moved).poor > activation_seconds(moved).good);
  CHECK(activation_seconds(moved).good > 0);
  CHECK(activation_seconds(stays).poor == 0);
  CHECK(speed_line(stays, all[0]) != "");
  const auto rates = [&](const Plan& plan) {
    const std::string line = speed_line(plan, all[0]);
    return line.substr(0, line.find(" tokens/s"));
  };
  CHECK(rates(moved) != rates(stays));
  const Graph step;
  const GpuCard* b200 = gpu_card_of(moved.device.gpu);
  REQUIRE(b200);
  CHECK(gpu_speed(step, {.tokens = 100}, 1, *b200, {}, {0.5, 2}).low == 25);  // out and back
  CHECK(gpu_speed(step, {.tokens = 100}, 1, *b200, {}, {0.5, 2}).high == 100);
}

TEST_CASE("where layers' inputs wait is no part of what a job is") {
  PlanInput asked = long_texts("RTX 4090");
  const Plan stays = make_plan(asked);
  asked.job.train.activation_offloading = Offload::host;
  const Plan moved = make_plan(asked);
  CHECK(identity_differences(stays, moved).empty());
  CHECK(differing_keys(stays.execution, moved.execution) == std::vector<std::string>{"train.activation_offloading"});
  CHECK(moved.origins.count("train.activation_offloading") == 0);  // the job's own word
}

TEST_CASE("a value network keeps its layers' inputs on the card") {
  PlanInput asked = input("tinyllama-1.1b", card("RTX 4090"));
  asked.job.objective.become(ObjectiveType::ppo);
  asked.job.rewards.resize(1);
  asked.job.train.activation_checkpointing = Checkpointing::full;
  asked.job.train.activation_offloading = Offload::none;
  const Plan stays = make_plan(asked);
  asked.job.train.activation_offloading = Offload::host;
  const Plan moved = make_plan(asked);
  const int64_t waiting = bytes_of(moved.host_memory, "layer inputs");
  CHECK(waiting > 0);
  CHECK(stays.predicted_peak_bytes - moved.predicted_peak_bytes < waiting / 2);
}

}  // namespace forge
