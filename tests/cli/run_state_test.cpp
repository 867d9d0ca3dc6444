// A run folder is input: whatever its files contain, the readers report it or continue. They never
// fail with an internal error.
#include "cli/run_decision.h"

#include <algorithm>
#include <functional>

#include "core/job/job_json.h"
#include "core/lib/base/file.h"
#include "core/lib/io/members.h"
#include "core/plan/identity.h"
#include "core/run/checkpoints.h"
#include "core/train/state.h"
#include "providers/providers.h"
#include "tests/test.h"

namespace forge {
namespace {

Plan plan_of(int64_t steps = 40) {
  PlanInput input;
  input.providers = providers();
  input.job.name = "small";
  input.job.output_dir = "runs";
  input.job.model.path = FORGE_SOURCE_DIR "/tests/fixtures/tiny-llama";
  input.job.adapter.type = AdapterType::lora;
  input.job.data.train = {{"train.jsonl"}};
  input.job.train.max_steps = steps;
  input.job.train.threads = 1;
  input.job.checkpoint.every_steps = 3;
  input.origins["seed"] = {OriginKind::given, "job.yaml:3:7", ""};
  input.device.cpu = {"Test CPU", 2, int64_t{8} << 30, int64_t{4} << 30, {"avx2"}};
  input.profile = pick_profile(input.device, input.job.hardware);
  input.model = read_model_spec(input.job.model.path);
  input.model_hash = "header";
  input.start_files = {{"model/config.json", 600, "c1", true}};
  input.train.content_hash = "abc";
  input.train.format = "text";
  input.train.rows = input.train.examples = 100;
  input.train.tokens = input.train.supervised_tokens = 2000;
  input.train.longest = 40;
  Plan plan = make_plan(input);
  plan.execution["arithmetic.processor"] = "Test CPU";
  return plan;
}

std::vector<Json> amendments_of(const Plan& plan) {
  return {{{"kind", "extend"},
           {"changes", {{"train.max_steps", 60}, {"steps", 60}}},
           {"reason", "--extend"},
           {"identity", {{"train.max_steps", "60"}}}},
          {{"kind", "out_of_memory"}, {"step", 5}, {"micro_batch_divisor", 2}},
          {{"kind", "replan"},
           {"reason", "another machine"},
           {"changes", {{"steps", 60}}},
           {"plan", to_json(plan)}}};
}

// Writes a run folder with a checkpoint of step 6 and one of step 9.
void write_run(const TemporaryFolder& folder, const Plan& plan, bool finished) {
  folder.write("plan.json", to_json(plan).dump(2));
  std::string lines;
  for (const Json& amendment : amendments_of(plan)) lines += dump_json(amendment) + "\n";
  folder.write("amendments.jsonl", lines);
  folder.write("metrics.jsonl", "{\"event\":\"step\",\"step\":1}\n");
  if (finished)
    folder.write("report.json", R"({"version": 1, "state": "finished", "steps": 60, "planned_steps": 60})");
  for (int64_t step : {6, 9}) {
    TrainState state;
    state.step = state.updates = step;
    state.best = {{step, 1.5}};
    CheckpointWriter writer(folder.path(), step);
    write_file_durably(writer.path() + "/state.json", Json(state).dump(2));
    writer.commit();
  }
}

// Calls `use` with every version of `root` in which one value is missing or replaced.
void for_each_mutation(Json root, const std::function<void(const std::string& where, const Json&)>& use) {
  static const Json kValues[] = {nullptr,
                                 true,
                                 "x",
                                 "",
                                 -1,
                                 0,
                                 3.5,
                                 -2.5e300,
                                 INT64_MAX,
                                 -9223372036854775807LL - 1,
                                 UINT64_MAX,
                                 Json::array(),
                                 Json::object(),
                                 Json::array({Json::array({1})}),
                                 {{"steps", {{"steps", 1}}}}};
  std::vector<std::string> places;
  const std::function<void(const Json&, const std::string&)> collect = [&](const Json& node,
                                                                           const std::string& at) {
    places.push_back(at);
    if (node.is_array())
      for (size_t i = 0; i < node.size() && i < 2; ++i) collect(node[i], at + "/" + std::to_string(i));
    if (!node.is_object()) return;
    for (const auto& [key, value] : node.items()) {
      std::string escaped = key;
      for (size_t slash; (slash = escaped.find('/')) != std::string::npos;) escaped.replace(slash, 1, "~1");
      collect(value, at + "/" + escaped);
    }
  };
  collect(root, "");
  for (const std::string& place : places) {
    const Json::json_pointer pointer(place);
    const Json before = root[pointer];
    for (const Json& value : kValues) {
      root[pointer] = value;
      use(place + " = " + dump_json(value), root);
    }
    root[pointer] = before;
    if (place.empty() || !root[pointer.parent_pointer()].is_object()) continue;
    Json without = root;
    without[pointer.parent_pointer()].erase(pointer.back());
    use(place + " missing", without);
  }
}

// Expects an Error of a kind meant for users, or none. Any other exception is a bug.
template <class Action>
void expect_no_bug(const std::string& where, Action action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::internal) return;
    FAIL_CHECK(where << ": " << error.what());
  } catch (const std::exception& error) {
    FAIL_CHECK(where << ": " << error.what());
  }
}

void read_all(const TemporaryFolder& folder, const Plan& wanted) {
  const RunState state = inspect_run(folder.path());
  std::vector<std::string> damaged;
  for (int64_t step : list_checkpoints(folder.path(), &damaged)) {
    std::string fault;
    verify_checkpoint(RunPaths{folder.path()}.checkpoint(step), &fault);
  }
  for (bool extend : {false, true}) to_json(decide(wanted, state, "runs/small", extend).plan);
}

}  // namespace

TEST_CASE("no value in a plan is more than a fault of the file") {
  const Plan plan = plan_of(), wanted = plan_of();
  Json json = to_json(plan);
  json.erase("hash");  // so that its values are checked
  for_each_mutation(json, [&](const std::string& where, const Json& changed) {
    expect_no_bug("plan.json " + where, [&] {
      RunState state{.exists = true};
      state.plan = to_json(plan_from_json(changed));
      state.stepped = true;
      to_json(decide(wanted, state, "runs/small", false).plan);
    });
  });
}

TEST_CASE("an edited plan is noticed by its hash") {
  const Json json = to_json(plan_of());
  int64_t unnoticed = 0;
  for_each_mutation(json, [&](const std::string&, Json changed) {
    if (!changed.is_object() || changed == json) return;
    const std::string text = error_of([&] { take_plan_hash(changed, "plan.json"); });
    unnoticed += text.find("plan.json: was edited") == std::string::npos;
  });
  CHECK(unnoticed == 0);
  Json whole = json;
  CHECK(error_of([&] { take_plan_hash(whole, "plan.json"); }) == "no error");
}

TEST_CASE("no value in amendments, report or manifest is more than a fault of the file") {
  const Plan plan = plan_of();
  TemporaryFolder folder;
  const Plan wanted = plan_of(60);
  write_run(folder, plan, true);
  CHECK(inspect_run(folder.path()).finished);
  const auto mutate = [&](const std::string& name, const Json& json) {
    const std::string before = read_file(folder.path(name), 1 << 20, ErrorKind::environment);
    for_each_mutation(json, [&](const std::string& where, const Json& changed) {
      folder.write(name, dump_json(changed) + "\n");
      expect_no_bug(name + " " + where, [&] { read_all(folder, wanted); });
    });
    folder.write(name, before);
  };
  for (Json amendment : amendments_of(plan)) {
    if (amendment.contains("plan")) amendment["plan"] = "a plan of its own, above";
    mutate("amendments.jsonl", amendment);
  }
  for (const char* name : {"report.json", "checkpoints/step-000009/manifest.json"})
    mutate(name, parse_json(read_file(folder.path(name), 1 << 20, ErrorKind::environment), name,
                            ErrorKind::environment));
}

TEST_CASE("cut off and scrambled files of a run are faults with the file's name") {
  for (bool finished : {false, true}) {
    TemporaryFolder folder;
    const Plan plan = plan_of(), wanted = plan_of(60);
    write_run(folder, plan, finished);
    uint64_t seed = 7;
    const auto random = [&](size_t below) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      return (seed >> 33) % below;
    };
    for (const char* name : {"plan.json", "amendments.jsonl", "report.json",
                             "checkpoints/step-000009/manifest.json", "checkpoints/step-000009/state.json"}) {
      if (!file_exists(folder.path(name))) continue;
      const std::string whole = read_file(folder.path(name), 1 << 20, ErrorKind::environment);
      for (int trial = 0; trial < 40; ++trial) {
        std::string text = whole;
        if (trial % 2)
          text.resize(random(text.size()));
        else
          for (size_t i = 0; i <= random(4); ++i) text[random(text.size())] = static_cast<char>(random(256));
        folder.write(name, text);
        expect_no_bug(std::string(name) + " " + std::to_string(trial), [&] { read_all(folder, wanted); });
      }
      folder.write(name, whole);
    }
  }
}

TEST_CASE("no value in a checkpoint's state is more than a fault of it") {
  TrainState state;
  state.step = state.updates = 9;
  state.best = {{6, 1.5}, {3, 2.5}};
  for_each_mutation(Json(state), [&](const std::string& where, const Json& changed) {
    try {
      const TrainState read = changed.get<TrainState>();
      CHECK(read.step >= 0);
      CHECK(read.metrics_bytes >= 0);
    } catch (const MemberFault&) {
    } catch (const std::exception& error) {
      FAIL_CHECK(where << ": " << error.what());
    }
  });
  Json json = state;
  json["window"]["tokens"] = -1;
  try {
    json.get<TrainState>();
    FAIL_CHECK("-1 tokens were read");
  } catch (const MemberFault& fault) {
    CHECK(std::string(fault.what()) == "window.tokens: expected at least 0, found -1");
  }
}

TEST_CASE("checkpoints that are passed over are named with what is wrong") {
  TemporaryFolder folder;
  write_run(folder, plan_of(), false);
  const RunPaths paths{folder.path()};
  std::filesystem::remove(paths.checkpoint(9) + "/state.json");
  folder.write("checkpoints/step-000012/nothing", "");
  std::vector<std::string> damaged;
  CHECK(list_checkpoints(folder.path(), &damaged) == std::vector<int64_t>{6});
  REQUIRE(damaged.size() == 2);
  CHECK(damaged[0] ==
        paths.checkpoint(9) + "/state.json: is missing; this checkpoint is skipped");
  CHECK_THAT(damaged[1], Catch::Contains("step-000012/manifest.json") && Catch::Contains("skipped"));
}

// The files were written before forge had a value network, attention by layer, and several keys.
// Later members are optional, and later keys have their defaults: a run that was begun then
// continues now.
TEST_CASE("a run that an older forge began goes on") {
  const std::string older = FORGE_SOURCE_DIR "/tests/run/goldens/older";
  const auto read = [&](const std::string& name) {
    return parse_json(read_file(older + "/" + name, 1 << 20, ErrorKind::environment), name, ErrorKind::environment);
  };
  CHECK(read("state.json").get<TrainState>().step == 3);
  const Plan before = plan_from_json(read("plan.json"));
  Json said = to_json(Job());
  for (const auto& [key, value] : before.identity) {
    if (key == "model" || key == "data.train") continue;  // hashes
    std::string pointer = "/" + key;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    said[Json::json_pointer(pointer)] = parse_json(value, key, ErrorKind::environment);
  }
  for (const char* required : {"/name", "/model/path", "/data/train"})
    said[Json::json_pointer(required)] = to_json(before.job)[Json::json_pointer(required)];
  Plan today = before;
  today.identity = identity_of(job_from_json(said, "the job"), before).identity;
  CHECK(today.identity.size() > before.identity.size());
  for (const char* hash : {"model", "data.train"}) today.identity[hash] = before.identity.at(hash);
  CHECK(identity_differences(before, today).empty());
}

TEST_CASE("a run on another processor says what was and what is") {
  const Plan before = plan_of();
  RunState state{.exists = true};
  state.plan = to_json(before);
  state.stepped = true;
  Plan wanted = plan_of();
  wanted.execution["arithmetic.processor"] = "Another CPU";
  wanted.execution["arithmetic.ONEDNN_MAX_CPU_ISA"] = "AVX2";
  const Decision decision = decide(wanted, state, "runs/small", false);
  CHECK(decision.notes ==
        std::vector<std::string>{
            "the arithmetic differs: ONEDNN_MAX_CPU_ISA was not set, is AVX2",
            "the arithmetic differs: processor was Test CPU, is Another CPU",
            "from here on the run equals an uninterrupted one to rounding, not to the bit"});
  REQUIRE(decision.amendments.size() == 1);
  CHECK((*decision.amendments[0].plan)["execution"]["arithmetic.processor"] == "Another CPU");
}

}  // namespace forge
