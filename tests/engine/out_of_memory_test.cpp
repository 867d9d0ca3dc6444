// Running out of memory during a run: the micro-batch is halved, the step stays the same, and the
// run folder records it.
#include "core/train/trainer.h"

#include "core/data/prepare.h"
#include "core/lib/base/file.h"
#include "core/lib/io/model_file.h"
#include "core/lib/tensor/counting_allocator.h"
#include "core/lib/tensor/device.h"
#include "core/plan/machine/hardware.h"
#include "core/run/model_text.h"
#include "core/run/run_folder.h"
#include "providers/providers.h"
#include "tests/test.h"

namespace forge {
namespace {

std::string rows() {
  std::string text;
  for (int row = 0; row < 16; ++row) {
    std::string ids, labels;
    for (int i = 0; i < 40 + row % 5; ++i) {
      const std::string comma = i ? "," : "";
      ids += comma + std::to_string((row * 31 + i * i * 7 + 5) % 380);
      labels += comma + (i < 8 ? std::string("-100") : std::to_string((row * 31 + i * i * 7 + 5) % 380));
    }
    text += "{\"input_ids\":[" + ids + "],\"labels\":[" + labels + "]}\n";
  }
  return text;
}

Plan plan_in(const TemporaryFolder& folder) {
  Job job;
  job.name = "oom";
  job.output_dir = folder.path("runs");
  job.model.path = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";
  job.adapter.type = AdapterType::lora;
  job.adapter.rank = 4;
  job.data.train = {{folder.write("rows.jsonl", rows()), RowFormat::tokens}};
  job.data.eval = job.data.train;
  job.data.max_length = 64;
  job.train.max_steps = 3;
  job.train.global_batch_size = 16;
  job.train.micro_batch_tokens = 1024;
  job.train.activation_checkpointing = Checkpointing::none;
  job.train.precision = Precision::fp32;
  job.train.threads = 2;
  job.hardware.device = "cpu";
  job.log.tensorboard = false;
  const ModelText text = open_model_text(job.model.path);
  PrepareOptions options{.cache_folder = folder.path("cache")};
  const Prepared train = prepare_dataset(job, Split::train, text.tokenizer, nullptr, options);
  const Prepared eval = prepare_dataset(job, Split::eval, text.tokenizer, nullptr, options);
  PlanInput input;
  input.providers = providers();
  input.job = job;
  input.device = choose_device(probe_hardware(), job.hardware).device;
  input.profile = pick_profile(input.device, job.hardware);
  input.model = read_model_spec(job.model.path);
  input.train = train.summary;
  input.eval = eval.summary;
  input.train_lengths = train.lengths;
  input.eval_lengths = eval.lengths;
  for (int64_t i = 0; i < train.data->size(); ++i) input.train_supervised.push_back(train.data->supervised(i));
  for (int64_t i = 0; i < eval.data->size(); ++i) input.eval_supervised.push_back(eval.data->supervised(i));
  return make_plan(input);
}

// Returns the bytes that are held for the whole run.
int64_t fixed_bytes(const Plan& plan) {
  int64_t fixed = 0;
  for (const MemoryLine& line : plan.memory)
    for (const char* name : {"frozen weights", "adapter weights", "gradients", "optimizer state"})
      if (line.name == name) fixed += line.bytes;
  return fixed;
}

// Removes the limit, which is the process's: it must not outlive a test that fails.
struct NoLimit {
  ~NoLimit() { limit_device_memory(c10::Device(c10::DeviceType::CPU), 0); }
};

struct Losses {
  std::vector<double> train, eval;
};

Losses run(const Plan& plan, const std::string& folder) {
  Losses losses;
  StopFlag stop;
  const EventSink collect = [&](const Json& event) {
    if (event["event"] == "step") losses.train.push_back(event["loss"]);
    if (event["event"] == "eval") losses.eval.push_back(event["eval_loss"]);
  };
  train({.plan = plan, .job_text = "version: 1\n", .run_folder = folder}, collect, stop);
  limit_device_memory(c10::Device(c10::DeviceType::CPU), 0);
  return losses;
}

std::vector<Amendment> amendments_of(const std::string& folder) { return inspect_run(folder).amendments; }

}  // namespace

TEST_CASE("out of memory in the middle of a run halves the micro-batch and changes no loss") {
  install_counting_allocator();
  const TemporaryFolder folder;
  const NoLimit afterwards;
  Plan plan = plan_in(folder);
  const Losses roomy = run(plan, folder.path("roomy"));
  CHECK(amendments_of(folder.path("roomy")).empty());
  // The plan assumed more memory than there is: the memory that stays allocated, and 60 % of the
  // rest. Memory that other tests of this process still hold counts too.
  const int64_t fixed = fixed_bytes(plan);
  plan.available_bytes = allocator_stats().live_bytes + fixed + (plan.predicted_peak_bytes - fixed) * 6 / 10;
  const Losses tight = run(plan, folder.path("tight"));
  const std::vector<Amendment> amendments = amendments_of(folder.path("tight"));
  REQUIRE(amendments.size() >= 1);
  CHECK(amendments[0].kind == AmendmentKind::out_of_memory);
  CHECK(amendments[0].step == 1);
  CHECK(amendments[0].micro_batch_divisor == 2);
  REQUIRE(tight.train.size() == 3);
  REQUIRE(tight.eval.size() == roomy.eval.size());
  for (size_t i = 0; i < 3; ++i) CHECK(tight.train[i] == Approx(roomy.train[i]).epsilon(1e-6));
  for (size_t i = 0; i < roomy.eval.size(); ++i) CHECK(tight.eval[i] == Approx(roomy.eval[i]).epsilon(1e-6));
}

TEST_CASE("out of memory with one example per micro-batch ends the run with the remedy") {
  install_counting_allocator();
  const TemporaryFolder folder;
  const NoLimit afterwards;
  Plan plan = plan_in(folder);
  // The memory that stays allocated, and almost nothing else.
  plan.available_bytes = allocator_stats().live_bytes + fixed_bytes(plan) + 4096;
  StopFlag stop;
  const EventSink ignore = [](const Json&) {};
  try {
    train({.plan = plan, .job_text = "version: 1\n", .run_folder = folder.path("none")}, ignore, stop);
    FAIL("the run found room");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::fit);
    CHECK_THAT(error.what(), Catch::Contains("out of memory with one example per micro-batch"));
  }
  limit_device_memory(c10::Device(c10::DeviceType::CPU), 0);
}

}  // namespace forge
