#include "core/plan/plan.h"

#include "core/job/names.h"
#include "core/lib/base/text.h"
#include "core/plan/disk.h"
#include "core/plan/explain.h"
#include "tests/plan/plan_inputs.h"
#include "tests/test.h"

namespace forge {

TEST_CASE("a small model on a processor: every open value is settled, with a reason") {
  const Plan plan = make_plan(input("smollm2-135m", cpu()));
  CHECK(plan.profile == "cpu_bf16");
  CHECK(plan.engine == "cpu");
  CHECK(plan.device_name() == "cpu");
  CHECK(plan.job.train.precision == Precision::bf16);
  CHECK(plan.job.train.activation_checkpointing == Checkpointing::none);
  CHECK(plan.job.train.micro_batch_tokens == 2048);
  CHECK(plan.job.train.global_batch_size == 32);
  CHECK(plan.job.train.threads == 2);
  CHECK(plan.job.train.epochs == 1);
  CHECK(plan.job.hardware.device == "cpu");
  CHECK(plan.provider_name() == "fused");
  CHECK(plan.steps_per_epoch == 32);  // 1000 examples, the last step smaller
  CHECK(plan.steps == 32);
  CHECK(plan.parameters.trainable == 4884480);
  CHECK(plan.parameters.total == 134515008 + 4884480);
  CHECK(plan.origins.at("train.precision").source == "profile cpu_bf16");
  for (const char* key : {"train.micro_batch_tokens", "train.micro_batch_size",
                          "train.activation_checkpointing", "train.threads", "hardware.device", "provider"}) {
    INFO(key);
    CHECK(plan.origins.at(key).source == "derived");
    CHECK_FALSE(plan.origins.at(key).reason.empty());
  }
  CHECK(plan.predicted_peak_bytes == total_bytes(plan.memory));
  CHECK(plan.predicted_peak_bytes <= plan.available_bytes);
}

TEST_CASE("the first provider that can do a job computes it, and one that cannot is refused") {
  PlanInput dora = input("smollm2-135m", cpu());
  dora.job.adapter.use_dora = true;
  CHECK(make_plan(dora).provider_name() == "fused");
  PlanInput other = input("smollm2-135m", card("RTX 4070"));
  CHECK(make_plan(other).provider_name() == "fused");
  other.model.attention_softcap = 50;  // like Gemma 2's
  CHECK(make_plan(other).provider_name() == "fused");
  // One op in ATen makes no job another provider's.
  other.model.head_dim = 264;
  const Plan plan = make_plan(other);
  CHECK(plan.provider_name() == "fused");
  CHECK(plan.attention.at(0).kernel == Attention::eager);
  CHECK(std::any_of(plan.memory.begin(), plan.memory.end(), [](const MemoryLine& line) { return line.name == "ATen"; }));
  PlanInput small = input("smollm2-135m", cpu());
  small.job.provider = "reference";
  CHECK(make_plan(small).provider_name() == "reference");
}

TEST_CASE("QLoRA of an 8B model on an RTX 4070") {
  const Plan plan = make_plan(qlora("llama-3.1-8b", card("RTX 4070")));
  CHECK(plan.profile == "ada");
  CHECK(plan.job.train.precision == Precision::bf16);
  CHECK(plan.parameters.trainable == 41943040);
  CHECK(plan.available_bytes == 12 * kGib - 600 * (int64_t{1} << 20) - 12 * kGib / 100);  // what the allocator rounds up
  CHECK(plan.predicted_peak_bytes <= plan.available_bytes);
  CHECK(plan.job.train.activation_checkpointing != Checkpointing::none);
  CHECK(*plan.job.train.micro_batch_tokens >= 1024);
  CHECK_THAT(explain(plan), Catch::Contains("not in this machine") && Catch::Contains("quantised weights"));
  CHECK_THAT(explain(plan), Catch::Contains("weights in nf4 with double quantisation, 4.127 bits each"));
}

TEST_CASE("a plan says that an indexer is not computed, and refuses texts of which it chooses a part") {
  PlanInput indexed = input("smollm2-135m", cpu());
  CHECK_THAT(explain(make_plan(indexed)), !Catch::Contains("indexer"));
  indexed.model.index_topk = 2048;
  CHECK_THAT(explain(make_plan(indexed)),
             Catch::Contains("of up to 2,048 tokens, so it is not computed and its weights are not trained"));
  indexed.model.index_topk = indexed.train.longest - 1;
  CHECK_THAT(error_of([&] { make_plan(indexed); }), Catch::Contains("data.max_length: an example has"));
}

TEST_CASE("all-linear of a mixture stands beside PEFT's in the plan") {
  const Plan plan = make_plan(input("deepseek-v2-lite", card("H200")));
  CHECK_THAT(explain(plan), Catch::Contains("peft's under transformers 5 adapts 189 of them, "));
  CHECK(plan_from_json(to_json(plan)).targets.at(0).peft_modules == 189);
  CHECK_THAT(explain(make_plan(input("llama-3.1-8b", card("H200")))), !Catch::Contains("peft's under transformers 5"));
  PlanInput towers = input("smollm2-135m", cpu());
  towers.model.wrapper = "gemma3";
  CHECK_THAT(explain(make_plan(towers)), Catch::Contains("peft's all-linear adapts the towers' linear layers too"));
  towers.job.adapter.target_modules = {"q_proj"};
  CHECK_THAT(explain(make_plan(towers)), !Catch::Contains("peft's all-linear"));
}

TEST_CASE("a base in fp8 on an H100") {
  PlanInput asked = input("llama-3.1-8b", card("H100"));
  const Plan plain = make_plan(asked);
  asked.job.model.quantization = Quantization::fp8;
  const Plan plan = make_plan(asked);
  CHECK(plan.provider_name() == "fused");
  CHECK(plan.job.train.precision == Precision::bf16);
  CHECK_FALSE(plan.step.folded_adapters);
  const auto line = [](const Plan& p, const std::string& name) {
    for (const MemoryLine& l : p.memory)
      if (l.name == name) return l;
    return MemoryLine();
  };
  // There are seven matrices in each of 32 layers, and a scale for each row.
  const int64_t weights = int64_t{32} * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096), rows = int64_t{32} * (2 * 4096 + 2 * 1024 + 2 * 14336 + 4096);
  CHECK(line(plan, "quantised weights").bytes == weights + 4 * rows);
  CHECK_THAT(line(plan, "quantised weights").formula, Catch::Contains("weights in fp8, 8.0"));
  CHECK(line(plan, "frozen weights").bytes == line(plain, "frozen weights").bytes - 2 * weights);
  // There are two transposed copies of the largest weight, scales for 14,336 columns, and code
  // books.
  CHECK(line(plan, "weight conversion").bytes == 2 * 14336 * 4096 + 4 * 14336 + 4 * 544);
  CHECK_THAT(line(plan, "weight conversion").formula, Catch::Contains("transposed for d x"));
  CHECK_THAT(explain(plan), Catch::Contains("frozen linear layers multiplied in fp8") && Catch::Contains("16,384 tokens of data.train; the run ends unless they differ by less than 0.5 % (model.fp8_tolerance)"));
}

TEST_CASE("fp8 is refused by name where nothing multiplies it") {
  const auto faults = [](const char* model, Device device, const auto& change) {
    PlanInput asked = input(model, std::move(device));
    asked.job.model.quantization = Quantization::fp8;
    change(asked.job);
    return error_of([&] { make_plan(asked); });
  };
  const auto as_it_is = [](Job&) {};
  for (const char* name : {"RTX 4090", "A100", "RTX 5090"})
    CHECK_THAT(faults("llama-3.1-8b", card(name), as_it_is), Catch::Contains("model.quantization: products in fp8 with a scale per row need Hopper") && Catch::Contains(name) && Catch::Contains("use nf4, int8 or none"));
  for (const char* name : {"H200", "B200"}) CHECK(faults("llama-3.1-8b", card(name), as_it_is) == "no error");
  CHECK(faults("smollm2-135m", cpu(), as_it_is) == "no error");
  CHECK_THAT(faults("llama-3.1-8b", card("H100"), [](Job& job) { job.objective.become(ObjectiveType::reward); }), Catch::Contains("model.quantization: fp8 is checked by the base's loss on tokens, which objective reward does not have"));
  CHECK_THAT(faults("gpt-oss-20b", card("H100"), as_it_is), Catch::Contains("fp8 is for dense models"));
  CHECK_THAT(faults("llama-3.1-8b", card("H100"), [](Job& job) { job.train.precision = Precision::fp16; }), Catch::Contains("train.precision: products in fp8 give bf16 on H100, not fp16"));
  CHECK_THAT(faults("llama-3.1-8b", card("B200"), [](Job& job) { job.train.precision = Precision::fp32; }), Catch::Contains("give bf16 on B200, not fp32"));
  CHECK_THAT(faults("qwen2.5-0.5b", card("H100"), [](Job& job) { job.train.precision = Precision::fp32; }), Catch::Contains("give bf16 on H100 where layers have biases, not fp32"));
  CHECK(faults("qwen2.5-0.5b", card("H100"), as_it_is) == "no error");
  CHECK(faults("llama-3.1-8b", card("H100"), [](Job& job) { job.train.precision = Precision::fp32; }) == "no error");
  CHECK_THAT(faults("llama-3.1-8b", card("H100"), [](Job& job) { job.provider = "reference"; }), Catch::Contains("reference cannot do this job: it has no products in fp8"));
}

TEST_CASE("adapters run in the products of their weights on a GPU, where nothing lies between") {
  const auto folded = [](const PlanInput& asked) { return make_plan(asked).step.folded_adapters; };
  const PlanInput plain = input("tinyllama-1.1b", card("RTX 4090"));
  CHECK(folded(plain));
  CHECK_THAT(explain(make_plan(plain)), Catch::Contains("adapters in the products of their weights"));
  CHECK_FALSE(folded(input("tinyllama-1.1b", cpu())));
  CHECK_FALSE(folded(input("tinyllama-1.1b", card("GTX 1080 Ti"))));  // stores fp16, multiplies in fp32
  CHECK_FALSE(folded(qlora("llama-3.1-8b", card("RTX 4070"))));
  PlanInput dropout = plain, dora = plain, reference = plain;
  dropout.job.adapter.dropout = 0.1;
  dora.job.adapter.use_dora = true;
  reference.job.provider = "reference";
  for (const PlanInput& other : {dropout, dora, reference}) CHECK_FALSE(folded(other));
}

TEST_CASE("norms' results stay on a GPU where nothing is computed again and memory is left") {
  PlanInput asked = input("tinyllama-1.1b", card("RTX 4090"));
  asked.job.train.micro_batch_tokens = 2048;
  asked.job.train.activation_checkpointing = Checkpointing::none;
  const Plan kept = make_plan(asked);
  CHECK(kept.step.kept_norms);
  CHECK_THAT(explain(kept), Catch::Contains("norms' results are kept"));
  asked.job.hardware.memory_limit = kept.predicted_peak_bytes - 1;
  const Plan without = make_plan(asked);
  CHECK_FALSE(without.step.kept_norms);
  CHECK(without.step.recompute.layers.empty());
  CHECK(without.predicted_peak_bytes < kept.predicted_peak_bytes);
  asked.job.hardware.memory_limit.reset();
  PlanInput full = asked, dropout = asked, processor = input("tinyllama-1.1b", cpu());
  full.job.train.activation_checkpointing = Checkpointing::full;
  dropout.job.adapter.dropout = 0.1;  // not folded
  for (const PlanInput& other : {full, dropout, processor}) CHECK_FALSE(make_plan(other).step.kept_norms);
}

TEST_CASE("TinyLlama on an RTX 2080 Ti computes in fp16 with a dynamic loss scale") {
  const Plan plan = make_plan(input("tinyllama-1.1b", card("RTX 2080 Ti")));
  CHECK(plan.profile == "turing");
  CHECK(plan.job.train.precision == Precision::fp16);
  CHECK(plan.loss_scaling == LossScaling::dynamic);
  REQUIRE(plan.attention.size() == 1);
  CHECK(plan.attention[0].kernel == Attention::efficient);
  CHECK(plan.engine == "cuda13");
  CHECK(plan.predicted_peak_bytes <= plan.available_bytes);
}

TEST_CASE("beside fp16 the residual stream is fp32, as the profile says, or as the job does") {
  PlanInput in = input("tinyllama-1.1b", card("RTX 2080 Ti"));
  const Plan plan = make_plan(in);
  CHECK(plan.job.train.residual == Residual::fp32);
  CHECK(plan.origins.at("train.residual").source == "profile turing");
  CHECK_THAT(plan.origins.at("train.residual").reason, Catch::Contains("65,504"));
  CHECK_THAT(explain(plan), Catch::Contains("train.residual"));
  CHECK(plan_from_json(to_json(plan)).job.train.residual == Residual::fp32);
  // An fp32 stream needs two more bytes for each kept element, at the same micro-batch: the stream
  // twice a layer, and its supervised rows. Where norms' results stay, its peak is a little later
  // in the highest layer, after one of them has been read.
  in.job.train.micro_batch_tokens = *plan.job.train.micro_batch_tokens;
  in.job.train.activation_checkpointing = Checkpointing::none;
  const auto kept = [&](Residual residual) {
    in.job.train.residual = residual;
    for (const MemoryLine& line : make_plan(in).memory)
      if (line.name == "saved activations") return line.bytes;
    return int64_t{0};
  };
  const BatchRoom batch = make_plan(in).training_batch;
  REQUIRE(make_plan(in).step.kept_norms);
  CHECK(kept(Residual::fp32) - kept(Residual::compute) ==
        2 * in.model.hidden_size * ((2 * in.model.num_layers - 1) * batch.tokens + batch.targets));
  in = input("tinyllama-1.1b", card("RTX 2080 Ti"));
  in.job.train.precision = Precision::fp32;
  CHECK(make_plan(in).job.train.residual == Residual::compute);
  in.job.train.residual = Residual::fp32;
  CHECK_THAT(error_of([&] { make_plan(in); }), Catch::Contains("train.residual: fp32 is for runs in fp16; this one computes in fp32"));
}

TEST_CASE("a processor's own rates decide the precision where the job leaves it open") {
  PlanInput in = input("tinyllama-1.1b", cpu());
  const auto with = [&](double bf16_seconds) {
    in.rates = Rates{.date = "2026-01-02"};
    in.rates->points = {{Precision::fp32, {"linear", {256, 64, 64}, 1}, 1.0}, {Precision::bf16, {"linear", {256, 64, 64}, 1}, bf16_seconds},
                        {Precision::bf16, {"norm", {256, 64, 0}, 1}, 100.0}, {Precision::fp32, {"linear", {512, 64, 64}, 1}, 100.0}};
    return make_plan(in);
  };
  CHECK(with(0.5).job.train.precision == Precision::bf16);
  CHECK(with(0.5).storage == Precision::bf16);
  CHECK(with(5).job.train.precision == Precision::fp32);
  CHECK_THAT(explain(with(5)), Catch::Contains("measured here on 2026-01-02: products in bf16 take 5 times the time of fp32"));
  CHECK_THAT(explain(with(1.0889130683532888)), Catch::Contains("bf16 take 1.09 times the time"));
  in.job.train.precision = Precision::bf16;
  CHECK(with(5).job.train.precision == Precision::bf16);
  in.job.train.precision = {};
  in.rates->points.resize(1);
  CHECK(make_plan(in).job.train.precision == in.profile.precision.value);
}

// Memory outside of the arena: results of efficient attention, and once more for graphs. Flash
// attention has its scratch in the arena.
TEST_CASE("only efficient attention takes memory beside the arena") {
  PlanInput in = input("tinyllama-1.1b", card("RTX 4090"));
  const auto beside = [&](const char* name) {
    for (const MemoryLine& line : make_plan(in).memory)
      if (line.name == name) return line.bytes;
    return int64_t{0};
  };
  CHECK(beside("attention") == 0);
  CHECK(beside("graphs") == 0);
  in.model.sliding_window = in.job.data.max_length - 1;  // shorter texts use flash attention
  CHECK(beside("attention") == 0);
  in.model.sliding_window = 0;
  in.job.train.precision = Precision::fp32;
  CHECK(beside("attention") > 0);
  CHECK(beside("graphs") == beside("attention"));
  in.job.train.precision = {};
  in.model.head_dim = 60;
  CHECK(beside("attention") > 0);
}

TEST_CASE("a plan says what computes attention in which layers") {
  PlanInput in = input("tinyllama-1.1b", card("RTX 4090"));
  const auto only = [&] {
    const Plan plan = make_plan(in);
    REQUIRE(plan.attention.size() == 1);
    CHECK(plan.attention[0].layers == "0-21");
    CHECK_THAT(explain(plan), Catch::Contains(name_of(plan.attention[0].kernel) + ": " + plan.attention[0].reason));
    return plan.attention[0];
  };
  CHECK(only().kernel == Attention::flash);
  in.job.train.precision = Precision::fp32;
  CHECK(only().kernel == Attention::efficient);
  in.job.train.precision = {};
  in.model.sliding_window = in.job.data.max_length;
  CHECK(only().kernel == Attention::flash);
  in.model.sliding_window = in.job.data.max_length - 1;
  CHECK(only().kernel == Attention::own);
  in.job.provider = "reference";
  CHECK(only().kernel == Attention::sdpa);

  const PlanInput on_cpu = input("tinyllama-1.1b", cpu());
  CHECK(make_plan(on_cpu).attention[0].kernel == Attention::tiles);
}

TEST_CASE("a profile's attention is what plain layers get on its cards") {
  for (const char* name : {"RTX 4070", "RTX 2080 Ti", "GTX 1080 Ti", "H100", "V100"}) {
    INFO(name);
    const PlanInput in = input("tinyllama-1.1b", card(name));
    CHECK(name_of(make_plan(in).attention.at(0).kernel) == in.profile.attention.value);
  }
}

TEST_CASE("a GTX 1080 Ti computes in fp32, stores fp16 and has no engine") {
  const Plan plan = make_plan(input("tinyllama-1.1b", card("GTX 1080 Ti")));
  CHECK(plan.job.train.precision == Precision::fp32);
  CHECK(plan.storage == Precision::fp16);
  CHECK(plan.engine == kNoEngine);
  CHECK(plan.memory[0].formula == "1,100,048,384 × 2 B (fp16)");
  CHECK_THAT(plan.warnings.at(0), Catch::Contains("CUDA 13 begins at compute capability 7.5") && Catch::Contains("not built yet"));
}

TEST_CASE("less memory costs recomputation value by value, at last all of it") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.train.micro_batch_tokens = 2048;
  asked.job.train.activation_checkpointing = Checkpointing::full;
  const int64_t full = make_plan(asked).predicted_peak_bytes;
  asked.job.train.activation_checkpointing = Checkpointing::none;
  const int64_t none = make_plan(asked).predicted_peak_bytes;
  asked.job.train.activation_checkpointing.reset();
  size_t last = 0;
  for (int step = 0; step <= 20; ++step) {
    const int64_t limit = none - (none - full) * step / 20;
    asked.job.hardware.memory_limit = limit;
    const Plan plan = make_plan(asked);
    CHECK(plan.predicted_peak_bytes <= limit);
    size_t values = 0;
    for (const auto& [group, layers] : plan.step.recompute.layers) values += layers.size();
    CHECK(values >= last);
    last = values;
    // In the end all of it is recomputed, except values that need no memory at the peak.
    const Checkpointing chosen = *plan.job.train.activation_checkpointing;
    CHECK(chosen == (step == 0 ? Checkpointing::none : chosen == Checkpointing::full && step == 20 ? Checkpointing::full : Checkpointing::chosen));
    if (step == 20) CHECK(plan.predicted_peak_bytes == full);
  }
}

TEST_CASE("where memory is short, the micro-batch shrinks before everything is computed again") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.hardware.memory_limit = int64_t{600} << 20;
  const Plan plan = make_plan(asked);
  CHECK(*plan.job.train.micro_batch_tokens < 2048);
  CHECK(plan.job.train.activation_checkpointing == Checkpointing::chosen);
}

TEST_CASE("a plan that cannot fit names need, room, the largest part and a remedy that was tried") {
  PlanInput asked = input("llama-3.1-8b", card("RTX 4070"));
  try {
    make_plan(asked);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::fit);
    const std::string text = error.what();
    CHECK_THAT(text, Catch::StartsWith("needs 1") && Catch::Contains(" GiB, 11.3 GiB available on RTX 4070"));
    CHECK_THAT(text,
               Catch::Contains("the largest part is frozen weights (15.0 GiB: 8,030,261,248 × 2 B (bf16))"));
    CHECK_THAT(text,
               Catch::Contains("the cheapest remedy: adapter.type: qlora (needs "));
    CHECK(std::string(error.hint()) == "set adapter.type: qlora");
  }
  asked.job.adapter.type = AdapterType::none;
  CHECK_THAT(error_of([&] { make_plan(asked); }),
             Catch::Contains("the cheapest remedy: adapter.type: qlora (needs"));
  asked.device = card("GTX 1050 Ti");
  asked.profile = pick_profile(asked.device, {});
  CHECK_THAT(error_of([&] { make_plan(asked); }), !Catch::Contains("remedy"));
}

TEST_CASE("a job that trains every weight is offered a smaller optimizer before an adapter, and both are named") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.adapter.type = AdapterType::none;
  asked.job.train.micro_batch_tokens = 256;
  asked.job.optimizer.type = OptimizerType::adamw_8bit;
  asked.job.hardware.memory_limit = make_plan(asked).predicted_peak_bytes + (int64_t{8} << 20);
  asked.job.optimizer.type = OptimizerType::adamw;
  CHECK_THAT(error_of([&] { make_plan(asked); }),
             Catch::Contains("the cheapest remedy: optimizer.type: adamw_8bit (needs ") &&
                 Catch::Contains("; or adapter.type: lora (needs "));
}

TEST_CASE("a remedy is said to need what the plan with it needs") {
  PlanInput asked = input("llama-3.1-8b", card("H100 SXM"));
  asked.job.optimizer.type = OptimizerType::lion;
  // Its adapters extend the products of their weights, which a remedy's plan must consider.
  const std::string peak = format_bytes(make_plan(asked).predicted_peak_bytes);
  asked.job.adapter.type = AdapterType::none;
  CHECK_THAT(error_of([&] { make_plan(asked); }), Catch::Contains("adapter.type: lora (needs " + peak + ")"));
}

TEST_CASE("what the user fixed is freed by the remedy, not silently") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.train.activation_checkpointing = Checkpointing::none;
  asked.job.train.micro_batch_tokens = 8192;
  asked.train.longest = 1024;
  asked.job.hardware.memory_limit = 2 * kGib;
  CHECK_THAT(error_of([&] { make_plan(asked); }),
             Catch::Contains("available on Test CPU (hardware.memory_limit)") &&
                 Catch::Contains("the largest part is saved activations") &&
                 Catch::Contains("the cheapest remedy: train.activation_checkpointing: auto"));
  asked.job.hardware.memory_limit.reset();
  const Plan plan = make_plan(asked);
  CHECK(plan.job.train.micro_batch_tokens == 8192);
  CHECK(plan.job.train.activation_checkpointing == Checkpointing::none);
}

TEST_CASE("without packing a micro-batch is counted in examples") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.data.packing = false;
  Plan plan = make_plan(asked);
  CHECK(plan.job.train.micro_batch_size == 2);  // 2,048 tokens of at most 1,024
  CHECK(plan.job.train.micro_batch_tokens == 2048);
  asked.job.train.micro_batch_size = 5;
  CHECK(make_plan(asked).job.train.micro_batch_tokens == 5120);
  // With a budget in tokens the number of examples never ends a micro-batch.
  asked.job.train.micro_batch_size.reset();
  asked.job.train.micro_batch_tokens = 3000;
  plan = make_plan(asked);
  CHECK(plan.job.train.micro_batch_tokens == 3000);
  CHECK(plan.job.train.micro_batch_size == 32);
}

TEST_CASE("the plan says how full steps and micro-batches are") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.train.global_batch_tokens = 2000;
  asked.job.train.micro_batch_tokens = 1000;
  asked.train_lengths.assign(1000, 250);
  asked.train.tokens = 250'000;
  asked.train.longest = 250;
  const Plan plan = make_plan(asked);
  CHECK(plan.steps_per_epoch == 125);
  CHECK(plan.packing.micro_batches_per_step == 2);
  CHECK(plan.packing.micro_batch_fill == 1);
  CHECK(plan.packing.step_fill == 1);
  CHECK_THAT(explain(plan, false),
             Catch::Contains("2 micro-batches a step, 100 % of 1,000 tokens used; steps "
                             "use 100 % of 2,000 tokens"));
  CHECK(plan_from_json(to_json(plan)).packing.micro_batches_per_step == 2);
}

TEST_CASE("steps of an epoch are those of all data when only a sample was tokenised") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.train.global_batch_tokens = 2000;
  asked.train = data(100'000, 250, 250);
  asked.train.estimated = true;
  asked.train_lengths.assign(1000, 250);
  CHECK(make_plan(asked).steps_per_epoch == 12'500);
}

TEST_CASE("a step of few examples that cannot fill its micro-batches is told so") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.train.global_batch_size = 5;
  asked.job.train.micro_batch_tokens = 1000;
  asked.train_lengths.assign(1000, 250);
  asked.train.tokens = 250'000;
  asked.train.longest = 250;
  CHECK_THAT(explain(make_plan(asked), false),
             Catch::Contains("62.5 % of 1,000 tokens used; a step of 5 examples does not fill its last "
                             "micro-batch; train.global_batch_tokens would fill it"));
}

TEST_CASE("known lengths make the prediction exact where the bound is loose") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.train.global_batch_size = 8;
  asked.train_lengths.assign(1000, 50);
  asked.train_lengths[0] = 1024;
  asked.train.tokens = 999 * 50 + 1024;
  const Plan exact = make_plan(asked);
  asked.train_lengths.clear();
  CHECK(exact.predicted_peak_bytes < make_plan(asked).predicted_peak_bytes);
  CHECK_THAT(exact.memory[5].formula, Catch::StartsWith("1,374 tokens"));  // 1,024 + 7 × 50
}

TEST_CASE("limits decide the steps") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.train.epochs = 2.5;
  CHECK(make_plan(asked).steps == 80);
  asked.job.train.max_steps = 10;
  CHECK(make_plan(asked).steps == 10);
  asked.job.train.epochs.reset();
  asked.job.train.max_steps.reset();
  asked.job.train.max_time = 60;
  const Plan plan = make_plan(asked);
  CHECK(plan.steps == 0);
  CHECK_FALSE(plan.job.train.epochs.has_value());
  asked.job.train.max_time.reset();
  asked.job.train.max_tokens = 100000;
  CHECK(make_plan(asked).steps == 16);  // 6,250 tokens a step
}

TEST_CASE("what has the same bits each time is chosen, or refused by name") {
  PlanInput asked = input("tinyllama-1.1b", card("RTX 4070"));
  CHECK(make_plan(asked).attention.front().kernel == Attention::flash);
  asked.job.train.deterministic = true;
  const Plan plan = make_plan(asked);
  CHECK(plan.attention.front().kernel == Attention::flash);
  asked.job.adapter.modules_to_save = {"embed_tokens"};
  CHECK_THAT(error_of([&] { make_plan(asked); }), Catch::Contains("train.deterministic: on a GPU the gradients of a trained embedding"));
  asked.device = cpu(), asked.profile = pick_profile(asked.device, asked.job.hardware);
  CHECK_NOTHROW(make_plan(asked));
}

TEST_CASE("a GPU's allocator may take more than is planned, and no more than is free") {
  const PlanInput asked = input("tinyllama-1.1b", card("RTX 4070"));
  const Plan plan = make_plan(asked);
  const int64_t free = asked.device.free_bytes() - asked.profile.reserve_bytes.value;
  CHECK(plan.memory_limit() <= free);
  CHECK(plan.memory_limit() - plan.available_bytes >= int64_t{96} << 20);
}

TEST_CASE("contradictions with model, device and data are found together") {
  PlanInput asked = input("tinyllama-1.1b", card("RTX 2080 Ti"));
  asked.job.train.precision = Precision::bf16;
  asked.train.longest = 4096;
  const std::string faults = error_of([&] { make_plan(asked); });
  CHECK_THAT(faults, Catch::Contains("train.precision: RTX 2080 Ti has no bf16"));
  CHECK_THAT(faults, Catch::Contains("an example has 4,096 tokens, the model has 2,048 positions"));
  asked = input("tinyllama-1.1b", cpu());
  asked.train.examples = 0;
  CHECK_THAT(error_of([&] { make_plan(asked); }), Catch::Contains("no example is left"));
}

TEST_CASE("what is drawn lies on the disk too") {
  const auto disk = [](int64_t tokens) {
    PlanInput asked = input("smollm2-135m", cpu());
    asked.job.objective.become(ObjectiveType::grpo);
    asked.job.rewards.resize(1);
    asked.job.rollout.max_new_tokens = tokens;
    return make_plan(asked).disk_bytes;
  };
  const Job job;
  const int64_t drawn = job.rollout.prompts_per_step * job.rollout.samples_per_prompt;
  CHECK(disk(101) - disk(100) >= 36 * drawn);
  CHECK((disk(101) - disk(100)) % (36 * drawn) == 0);
}

TEST_CASE("the plan says who computes attention over the cache, and counts the pages") {
  const auto planned = [](const Device& device, const std::string& provider) {
    PlanInput asked = input("smollm2-135m", device);
    asked.job.objective.become(ObjectiveType::grpo);
    asked.job.rewards.resize(1);
    asked.job.provider = provider;
    asked.job.rollout.slots = 256, asked.job.rollout.max_new_tokens = 900;
    return make_plan(asked);
  };
  const auto cache_of = [](const Plan& plan) -> std::string {
    for (const MemoryLine& line : plan.memory)
      if (line.name == "rollout: cache") return line.formula;
    return "";
  };
  const Device gpu = card("H100");
  const Plan plan = planned(gpu, "auto");
  CHECK(plan.provider_name() == "fused");
  CHECK(plan.rollout.decoder == "reference");
  CHECK_THAT(explain(plan), Catch::Contains("attention over the cache is ATen's"));
  CHECK_THAT(cache_of(plan), Catch::Contains("pages"));
  const Plan on_cpu = planned(cpu(), "auto");
  CHECK(on_cpu.rollout.decoder == "fused");
  CHECK_THAT(cache_of(on_cpu), Catch::Contains("pages"));
  CHECK_THAT(explain(on_cpu), !Catch::Contains("attention over the cache"));
}

TEST_CASE("rows that were cut are counted where the data are told of") {
  PlanInput asked = input("smollm2-135m", cpu());
  CHECK_THAT(explain(make_plan(asked)), !Catch::Contains(" cut"));
  asked.train.truncated = 7;
  CHECK_THAT(explain(make_plan(asked)), Catch::Contains(", 7 cut"));
}

TEST_CASE("disk is checked before it is full") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.checkpoint.every_steps = 10;
  const Plan plan = make_plan(asked);
  CHECK(plan.checkpoint_bytes == 4884480 * 12 + (1 << 20));
  CHECK(plan.disk_bytes == 3 * plan.checkpoint_bytes + 4884480 * 4 + (16 << 20));
  CHECK(error_of([&] { require_disk(plan, plan.disk_bytes); }) == "no error");
  CHECK_THAT(error_of([&] { require_disk(plan, 1000); }), Catch::Contains("the run writes up to"));
}

}  // namespace forge
