#include "core/lib/base/text.h"
#include "core/plan/plan.h"
#include "core/plan/warnings.h"
#include "tests/plan/plan_inputs.h"
#include "tests/test.h"

namespace forge {

TEST_CASE("rates and ranks that cannot be meant are warned of") {
  const auto warnings = [](auto change) {
    PlanInput given = input("smollm2-135m", cpu());
    change(given.job);
    return join(make_plan(given).warnings, "\n");
  };
  CHECK(warnings([](Job& job) { job.optimizer.learning_rate = 1e-3; }).empty());
  CHECK_THAT(
      warnings([](Job& job) { job.optimizer.learning_rate = 1; }),
      Catch::Contains(
          "optimizer.learning_rate 1 is far above what adamw trains with (1e-5 to 1e-3 for an adapter)"));
  CHECK(warnings([](Job& job) {
          job.optimizer.learning_rate = 1, job.optimizer.type = OptimizerType::sgd;
        }).empty());
  CHECK(warnings([](Job& job) { job.adapter.rank = 192; }).empty());
  CHECK_THAT(warnings([](Job& job) { job.adapter.rank = 600; }),
             Catch::Contains("adapter.rank 600 is above the width of model.layers.0.self_attn.k_proj (576 × "
                             "192): ranks past 192"));
}

TEST_CASE("settings that stop or drown training are warned of, and usual ones are not") {
  const auto warnings = [](auto change) {
    PlanInput given = input("smollm2-135m", cpu());
    change(given);
    return join(make_plan(given).warnings, "\n");
  };
  using Catch::Contains;
  CHECK_THAT(warnings([](PlanInput& given) { given.job.schedule.warmup_steps = 10000; }),
             Contains("schedule.warmup_steps 10,000 is not over in the run's 32 steps"));
  const auto cycles = [](int64_t count) {
    return [=](PlanInput& given) {
      given.job.schedule.type = ScheduleType::cosine_with_restarts, given.job.schedule.cycles = count, given.job.schedule.warmup_steps = 2;
    };
  };
  CHECK_THAT(warnings(cycles(16)), Contains("schedule.cycles 16 in 30 steps after the warmup") && Contains("at most 15 cycles fit"));
  CHECK_THAT(warnings(cycles(15)), !Contains("schedule.cycles"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.schedule.warmup_ratio = 1; }),
             Contains("schedule.warmup_ratio 1 (32 steps) is not over in the run's 32 steps"));
  const auto short_run = [](int64_t steps, double ratio) {
    return [=](PlanInput& given) { given.job.train.max_steps = steps, given.job.schedule.warmup_ratio = ratio; };
  };
  CHECK_THAT(warnings(short_run(1, 0.03)),
             Contains("schedule.warmup_ratio 0.03 (1 step) makes the learning rate of the run's only step 0: nothing is trained; set schedule.warmup_ratio: 0"));
  CHECK_THAT(warnings(short_run(2, 0.6)), Contains("is never reached, at most 50 % of it"));
  CHECK_THAT(warnings(short_run(2, 0.5)), !Contains("warmup"));
  CHECK_THAT(warnings(short_run(1, 0)), !Contains("warmup"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.train.max_grad_norm = 1e-9; }),
             Contains("train.max_grad_norm 1e-09 cuts"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.train.neftune_alpha = 1e9; }),
             Contains("drowns the embeddings"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.adapter.alpha = 1e5; }),
             Contains("multiplies the adapter by 6250"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.adapter.alpha = 0; }), Contains("nothing is learned"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.adapter.alpha = -16; }),
             Contains("flips the adapter's sign"));
  const auto batch = [](OriginKind kind) {
    return [kind](PlanInput& given) {
      given.job.train.global_batch_size = 100000;
      given.origins["train.global_batch_size"] = {kind, "job.yaml:1:1", ""};
    };
  };
  CHECK_THAT(warnings(batch(OriginKind::given)), Contains("is more than the 1,000 training examples"));
  const auto sources = [](PlanInput& given) -> std::vector<DataSource>& { return given.job.data.train; };
  CHECK_THAT(warnings([&](PlanInput& given) { sources(given).push_back({"/data/../data/train.jsonl"}); }),
             Contains("twice"));
  const auto held_out = [](int64_t skip) {
    return [skip](PlanInput& given) {
      given.job.data.train[0].limit = 100;
      given.job.data.eval = {{"/data/train.jsonl"}};
      given.job.data.eval[0].skip = skip;
      given.eval = data(100, 200, 1024);
      given.eval.content_hash = "def";
    };
  };
  CHECK_THAT(warnings(held_out(99)), Contains("data.eval names rows of data.train"));
  CHECK(warnings(held_out(100)).empty());
  CHECK_THAT(warnings([](PlanInput& given) { given.train.pairs.other_prompts = 3; }),
             Contains("3 of 1,000 pairs have different prompts"));
  CHECK(warnings([](PlanInput& given) {
          given.job.schedule.warmup_steps = 31, given.job.train.neftune_alpha = 15,
          given.job.train.max_grad_norm = 0.1;
          given.job.adapter.alpha = 64;
        }).empty());
}

TEST_CASE("what was said of the choice of a device is a warning") {
  PlanInput given = input("tinyllama-1.1b", cpu());
  given.device_warning = "the CPU computes, not the card: it is odd";
  given.job.hardware.device = "auto";
  const Plan plan = make_plan(given);
  CHECK(plan.warnings.at(0) == given.device_warning);
  CHECK(plan.origins.at("hardware.device").reason == "no GPU here can be used");
  given.device_warning.clear(), given.idle_cards = "8 GPUs are here";
  CHECK(make_plan(given).warnings.at(0) == "8 GPUs are here");
  CHECK(make_plan(given).origins.at("hardware.device").reason == "there is no GPU");
}

TEST_CASE("a plan warns of what was found in the data") {
  using Catch::Contains;
  const auto warnings = [](const DataFindings& findings, OriginKind prompt_as = OriginKind::unset) {
    PlanInput given = input("smollm2-135m", cpu());
    given.origins["data.prompt_as"] = {prompt_as, "", ""};
    Plan plan = make_plan(given);
    for (const std::string& warning : data_warnings(plan, findings)) plan.warnings.push_back(warning);
    return join(plan.warnings, "\n");
  };
  const auto found = [](const char* check) {
    return DataFindings{{{check, 3, "a.jsonl:7:1", "repeats a.jsonl:2"}}, {}};
  };
  CHECK_THAT(warnings(found("duplicate")),
             Contains("rows that repeat an earlier row: 3, the first a.jsonl:7:1 (repeats a.jsonl:2)"));
  CHECK_THAT(warnings(found("overlap")), Contains("evaluation rows that are also training rows: 3"));
  CHECK(warnings(found("conflict")).empty());  // a note, which forge data alone shows
  CHECK_THAT(warnings(found("bare_prompt")), Contains("data.prompt_as: user"));
  CHECK(warnings(found("bare_prompt"), OriginKind::given).empty());
  CHECK_THAT(warnings({{}, {"among the first 5 rows"}}), Contains("among the first 5 rows"));
}

}  // namespace forge
