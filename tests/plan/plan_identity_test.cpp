#include "core/lib/base/file.h"
#include "core/plan/files/start_files.h"
#include "core/plan/plan.h"
#include "tests/plan/plan_inputs.h"
#include "tests/test.h"

namespace forge {

TEST_CASE("plan.json is an exact round trip") {
  for (PlanInput asked : {input("smollm2-135m", cpu()), qlora("llama-3.1-8b", card("RTX 4070"))}) {
    asked.eval = data(10, 100, 300);
    asked.origins["seed"] = {OriginKind::given, "job.yaml:3:7", ""};
    const Plan plan = make_plan(asked);
    const Json json = to_json(plan);
    const Plan read = plan_from_json(parse_json(json.dump(2), "plan.json", ErrorKind::environment));
    CHECK(to_json(read) == json);
    CHECK(read.identity == plan.identity);
    CHECK(read.step == plan.step);
    CHECK(read.step.trained.elements == plan.parameters.trainable);
    CHECK(json["parameters"]["trainable"] == plan.parameters.trainable);
    CHECK(json["memory"]["lines"][0]["formula"].is_string());
  }
  CHECK_THAT(error_of([] {
               plan_from_json(Json{{"version", 2}});
             }),
             Catch::Contains("plan.json: not a plan of this forge"));
  CHECK_THAT(error_of([] {
               plan_from_json(Json{{"version", 1}});
             }),
             Catch::Contains("not a plan of this forge"));
}

TEST_CASE("a Git LFS pointer among a model's files is refused before anything is trained") {
  const TemporaryFolder folder;
  KnownHashes hashes(folder.path() + "/hashes.json");
  write_file_durably(folder.path() + "/generation_config.json", "{}");
  CHECK(model_files(folder.path(), hashes, ModelInit::random).size() == 1);
  write_file_durably(folder.path() + "/generation_config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  CHECK_THAT(error_of([&] { model_files(folder.path(), hashes, ModelInit::random); }),
             Catch::Contains("generation_config.json: is a Git LFS pointer"));
}

TEST_CASE("plan.schema.json needs no other file") {
  const std::string schema = dump_json(plan_schema());
  CHECK(schema.find("\"$ref\":\"#/") != std::string::npos);
  CHECK(schema.find(".schema.json") == std::string::npos);
  CHECK(plan_schema()["$defs"]["job"]["properties"].contains("model"));
}

// The file is renewed with: forge schema plan > schemas/plan.schema.json
TEST_CASE("schemas/plan.schema.json is what the members say") {
  const std::string file = FORGE_SOURCE_DIR "/schemas/plan.schema.json";
  CHECK((read_file(file, 1 << 20, ErrorKind::environment) == plan_schema().dump(2) + "\n"));
}

TEST_CASE("identity names what makes another job") {
  PlanInput asked = input("smollm2-135m", cpu());
  const Plan plan = make_plan(asked);
  asked.job.log.every_steps = 7;
  asked.job.checkpoint.every_steps = 5;
  asked.job.train.micro_batch_tokens = 1024;
  CHECK(identity_differences(plan, make_plan(asked)).empty());
  CHECK(plan.execution != make_plan(asked).execution);
  asked.job.optimizer.learning_rate = 1e-3;
  asked.job.adapter.rank = 8;
  asked.train.content_hash = "other";
  CHECK(identity_differences(plan, make_plan(asked)) ==
        std::vector<std::string>{"adapter.rank", "data.train", "optimizer.learning_rate"});
}

TEST_CASE("a key that an older plan lacks counts as its default") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.job.rewards.resize(2);
  Plan old_plan = make_plan(asked);
  const auto forget_in_items = [&](const char* list, const char* member) {
    Json items = Json::parse(old_plan.identity.at(list));
    for (Json& item : items) REQUIRE(item.erase(member) == 1);
    old_plan.identity[list] = dump_json(items);
  };
  for (const char* key : {"optimizer.betas", "adapter.use_dora", "train.max_steps"}) {
    REQUIRE(old_plan.identity.erase(key) == 1);
  }
  REQUIRE(old_plan.execution.erase("train.activation_checkpointing") == 1);
  forget_in_items("rewards", "weight");
  CHECK(identity_differences(old_plan, make_plan(asked)).empty());
  CHECK(differing_keys(old_plan.execution, make_plan(asked).execution).empty());
  asked.job.optimizer.betas = std::vector<double>{0.8, 0.9};
  asked.job.rewards[1].weight = 0.5;
  CHECK(identity_differences(old_plan, make_plan(asked)) == std::vector<std::string>{"optimizer.betas", "rewards"});
}

TEST_CASE("another content of the files that a run starts from is another job, a chat template's is not") {
  PlanInput asked = input("smollm2-135m", cpu());
  asked.start_files = {{"model/model.safetensors", 9, "w1", true},
                       {"model/chat_template.jinja", 3, "t1", false}};
  const Plan plan = make_plan(asked);
  asked.model_hash = "another header";
  asked.start_files[0].hash = "w2";
  asked.start_files[1].hash = "t2";
  CHECK(identity_differences(plan, make_plan(asked)) == std::vector<std::string>{"model/model.safetensors"});
  asked.start_files.erase(asked.start_files.begin());
  CHECK(identity_differences(plan, make_plan(asked)) == std::vector<std::string>{"model/model.safetensors"});
  asked.start_files.clear();  // as `forge plan` makes it
  CHECK(identity_differences(plan, make_plan(asked)) == std::vector<std::string>{"model"});
}

}  // namespace forge
