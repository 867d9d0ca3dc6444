#include "core/base/text.h"
#include "core/plan/plan.h"
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
             Contains("schedule.warmup_steps 10,000 are not over in the run's 32 steps"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.schedule.warmup_ratio = 1; }),
             Contains("schedule.warmup_steps 32 are not over"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.train.max_grad_norm = 1e-9; }),
             Contains("train.max_grad_norm 1e-09 cuts"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.train.neftune_alpha = 1e9; }),
             Contains("drowns the embeddings"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.adapter.alpha = 1e5; }),
             Contains("multiplies the adapter by 6250"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.adapter.alpha = 0; }), Contains("nothing is learned"));
  CHECK_THAT(warnings([](PlanInput& given) { given.job.adapter.alpha = -16; }),
             Contains("turns the adapter's sign"));
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
  CHECK_THAT(warnings([](PlanInput& given) { given.train.cuts.unsaid_tools = 3; }),
             Contains("does not write the tools of 3 rows"));
  CHECK_THAT(warnings([](PlanInput& given) { given.train.pairs.other_prompts = 3; }),
             Contains("3 of 1,000 pairs have another prompt"));
  CHECK(warnings([](PlanInput& given) {
          given.job.schedule.warmup_steps = 31, given.job.train.neftune_alpha = 15,
          given.job.train.max_grad_norm = 0.1;
          given.job.adapter.alpha = 64;
        }).empty());
}

TEST_CASE("a driver that is older than the engine is told by its own version") {
  const auto warnings = [](int64_t cuda_version) {
    PlanInput given = input("tinyllama-1.1b", card("RTX 4090"));
    given.device.gpu.probed = true, given.device.gpu.cuda_version = cuda_version;
    return join(make_plan(given).warnings, "\n");
  };
  CHECK_THAT(warnings(12040), Catch::Contains("the driver knows CUDA 12.4, the engine needs 13.0"));
  CHECK(warnings(13000).empty());
}

}  // namespace forge
