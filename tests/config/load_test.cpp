#include "core/job/load.h"

#include "core/job/job_json.h"
#include "core/job/names.h"
#include "tests/test.h"

using namespace forge;

namespace {

constexpr const char* kSmall = "model: m.gguf\ndata:\n  train: a.jsonl\n";

LoadedJob load(const TemporaryFolder& folder, const std::string& text, LoadOptions options = {}) {
  if (!options.environment) options.environment = [](const std::string&) { return std::nullopt; };
  options.cwd = folder.path();
  folder.write("job.yaml", text);
  return load_job("job.yaml", options);
}

}  // namespace

TEST_CASE("the shortest job gets every default") {
  TemporaryFolder folder;
  LoadedJob loaded = load(folder, kSmall);
  const Job& job = loaded.job;
  CHECK(job.name == "job");
  CHECK(job.output_dir == folder.path("runs"));
  CHECK(job.model.path == folder.path("m.gguf"));
  REQUIRE(job.data.train.size() == 1);
  CHECK(job.data.train[0].path == folder.path("a.jsonl"));
  CHECK(job.train.epochs == 1.0);
  CHECK(!job.train.micro_batch_size);
  CHECK(loaded.origins.at("model.path").at.text() == "job.yaml:1:8");
  CHECK((loaded.origins.at("train.epochs").kind == OriginKind::unset));
  CHECK(loaded.origins.at("data.train[0].path").at.text() == "job.yaml:3:10");
  CHECK(loaded.text == kSmall);
}

TEST_CASE("short forms mean their long forms") {
  TemporaryFolder folder;
  std::string rest = "data: {train: [a.jsonl, {path: b.jsonl, format: text, limit: 10}]}\n";
  Job job =
      load(folder,
           "model: m\nadapter: lora\nobjective: {type: sft, train_on: all}\noptimizer: sgd\nschedule: wsd\n" +
               rest)
          .job;
  CHECK(job.adapter.type == AdapterType::lora);
  CHECK(job.optimizer.type == OptimizerType::sgd);
  CHECK(job.schedule.type == ScheduleType::wsd);
  REQUIRE(job.data.train.size() == 2);
  CHECK(job.data.train[1].format == RowFormat::text);
  CHECK(job.data.train[1].limit == 10);
}

TEST_CASE("what is left to the plan is auto, in the file and when it is written again") {
  TemporaryFolder folder;
  const auto offload = [&](const std::string& text) {
    const Job job = load(folder, std::string(kSmall) + text).job, again = job_from_json(to_json(job), "plan.json");
    CHECK(again.optimizer.offload == job.optimizer.offload);
    CHECK(again.train.activation_offloading == job.train.activation_offloading);
    return job.optimizer.offload ? job.optimizer.offload : job.train.activation_offloading;
  };
  CHECK(offload("") == std::nullopt);
  CHECK(offload("optimizer: {offload: auto}\n") == std::nullopt);
  CHECK(offload("optimizer: {offload: none}\n") == Offload::none);
  CHECK(offload("optimizer: {offload: host}\n") == Offload::host);
  CHECK(offload("train: {activation_offloading: host}\n") == Offload::host);
}

TEST_CASE("qlora is lora on nf4 with double quantization") {
  TemporaryFolder folder;
  LoadedJob loaded = load(folder, std::string(kSmall) + "adapter: {type: qlora, rank: 8}\n");
  CHECK(loaded.job.adapter.type == AdapterType::lora);
  CHECK(loaded.job.model.quantization == Quantization::nf4);
  CHECK(loaded.job.model.double_quantization);
  CHECK(loaded.origins.at("model.quantization").reason == "adapter.type is qlora (job.yaml:4:17)");
  Job kept =
      load(folder, "model: {path: m, double_quantization: false}\ndata: {train: a}\nadapter: qlora\n").job;
  CHECK_FALSE(kept.model.double_quantization);
  Job plain = load(folder, "model: {path: m, quantization: nf4}\ndata: {train: a}\nadapter: lora\n").job;
  CHECK_FALSE(plain.model.double_quantization);
  CHECK_THAT(
      error_of(
          [&] { load(folder, "model: {path: m, quantization: int8}\ndata: {train: a}\nadapter: qlora\n"); }),
      Catch::StartsWith("job.yaml:1:32: model.quantization: adapter.type: qlora means nf4, this says int8"));
}

TEST_CASE("target_modules has three forms") {
  TemporaryFolder folder;
  auto adapter = [&](const std::string& value) {
    return load(folder, std::string(kSmall) + "adapter: {type: lora, target_modules: " + value + "}\n")
        .job.adapter;
  };
  CHECK(adapter("all-linear").target_modules == std::vector<std::string>{"all-linear"});
  CHECK_FALSE(adapter("all-linear").target_is_regex);
  CHECK(adapter("[q_proj, v_proj]").target_modules == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK_FALSE(adapter("[q_proj, v_proj]").target_is_regex);
  CHECK(adapter("'.*q_proj'").target_modules == std::vector<std::string>{".*q_proj"});
  CHECK(adapter("'.*q_proj'").target_is_regex);
}

TEST_CASE("numbers are read as people write them") {
  TemporaryFolder folder;
  auto rate = [&](const std::string& value) {
    return load(folder, std::string(kSmall) + "optimizer: {learning_rate: " + value + "}\n")
        .job.optimizer.learning_rate;
  };
  CHECK(rate("1e-4") == 1e-4);
  CHECK(rate("5E-5") == 5e-5);
  CHECK(rate(".5") == 0.5);
  CHECK(rate("1") == 1.0);
  auto job = [&](const std::string& line) { return load(folder, kSmall + line).job; };
  CHECK(job("train: {max_steps: 1e3}\n").train.max_steps == 1000);
  CHECK(job("train: {max_time: 1h30m}\n").train.max_time == 5400.0);
  CHECK(job("train: {max_time: 90}\n").train.max_time == 90.0);
  CHECK(job("hardware: {memory_limit: 24GiB}\n").hardware.memory_limit == int64_t{24} << 30);
  CHECK(job("hardware: {memory_limit: 80 GB}\n").hardware.memory_limit == 80'000'000'000);
  CHECK(job("hardware: {memory_limit: 1024}\n").hardware.memory_limit == 1024);
}

TEST_CASE("null and blank mean not set") {
  TemporaryFolder folder;
  Job job =
      load(folder, std::string(kSmall) + "adapter:\ntrain:\n  max_grad_norm:\n  epochs: null\nseed: ~\n").job;
  CHECK(job.adapter.type == AdapterType::none);
  CHECK(job.train.max_grad_norm == 1.0);
  CHECK(job.train.epochs == 1.0);
  CHECK(job.seed == 42);
}

TEST_CASE("extends merges maps, replaces lists and remembers files") {
  TemporaryFolder folder;
  folder.write("bases/a.yaml",
               "model: m.gguf\nseed: 1\nadapter: {type: lora, rank: 4, target_modules: [q_proj, k_proj]}\n");
  folder.write("bases/b.yaml", "extends: a.yaml\nseed: 2\ntrain: {epochs: 5}\n");
  LoadedJob loaded = load(folder,
                          "extends: [bases/b.yaml]\nadapter: {rank: 8, target_modules: [v_proj]}\n"
                          "data: {train: a.jsonl}\n",
                          {.sets = {"train.epochs=7", "data.train=x.jsonl", "adapter.alpha = 3"}});
  CHECK(loaded.job.model.path == folder.path("bases/m.gguf"));
  CHECK(loaded.job.seed == 2);
  CHECK(loaded.job.adapter.type == AdapterType::lora);
  CHECK(loaded.job.adapter.rank == 8);
  CHECK(loaded.job.adapter.alpha == 3);
  CHECK(loaded.job.adapter.target_modules == std::vector<std::string>{"v_proj"});
  CHECK(loaded.job.train.epochs == 7.0);
  CHECK(loaded.job.data.train[0].path == folder.path("x.jsonl"));
  CHECK(loaded.origins.at("model.path").at.text() == "bases/a.yaml:1:8");
  CHECK(loaded.origins.at("seed").at.text() == "bases/b.yaml:2:7");
  CHECK(loaded.origins.at("adapter.rank").at.text() == "job.yaml:2:17");
  CHECK(loaded.origins.at("train.epochs").at.text() == "--set train.epochs=7");
  CHECK(loaded.files == std::vector<std::string>{"job.yaml", "bases/b.yaml", "bases/a.yaml"});
}

TEST_CASE("an adapter of a base goes away as a whole") {
  TemporaryFolder folder;
  folder.write("base.yaml", std::string(kSmall) + "adapter: {type: lora, rank: 4}\n");
  CHECK(load(folder, "extends: base.yaml\nadapter: none\n").job.adapter.type == AdapterType::none);
  CHECK(load(folder, "extends: base.yaml\n", {.sets = {"adapter=none"}}).job.adapter.rank == 16);
  CHECK(load(folder, "extends: base.yaml\n", {.sets = {"adapter=lora"}}).job.adapter.rank == 4);
}

TEST_CASE("extends that cannot be followed is refused") {
  TemporaryFolder folder;
  folder.write("a.yaml", "extends: job.yaml\n");
  CHECK(error_of([&] { load(folder, "extends: a.yaml\n"); }) ==
        "a.yaml:1:10: extends: job.yaml extends itself");
  CHECK_THAT(error_of([&] { load(folder, "extends: missing.yaml\n"); }),
             Catch::StartsWith("job.yaml:1:10: extends: "));
  CHECK(error_of([&] { load(folder, "extends: [[a]]\nmodel: m\ndata: {train: a}\n"); }) ==
        "job.yaml:1:11: extends: a list, expected a file");
  for (int i = 0; i < 20; ++i)
    folder.write("d" + std::to_string(i) + ".yaml", "extends: d" + std::to_string(i + 1) + ".yaml\n");
  CHECK_THAT(error_of([&] { load(folder, "extends: d0.yaml\n"); }),
             Catch::EndsWith("extends: more than 16 files deep"));
}

TEST_CASE("the environment fills in, and secrets are never shown") {
  TemporaryFolder folder;
  Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "RANK") return "8";
    if (name == "MY_TOKEN") return "abcd1234";
    if (name == "EMPTY") return "";
    if (name == "PLACE") return "warehouse";
    return std::nullopt;
  };
  auto read = [&](const std::string& text) {
    return load(folder, kSmall + text, {.environment = environment});
  };
  CHECK(read("adapter: {type: lora, rank: \"${env:RANK}\"}\n").job.adapter.rank == 8);
  CHECK(read("seed: ${env:SEED:-7}\n").job.seed == 7);
  CHECK(read("seed: ${env:EMPTY:-7}\n").job.seed == 7);
  CHECK(read("name: run-${env:RANK}-$${x}\n").job.name == "run-8-${x}");
  // Values are secret for any name of the variable: in headers, and as a URL's user and password.
  LoadedJob sent = read("objective: grpo\nrewards: [{type: http, url: \"http://ada:${env:PLACE}@host/${env:PLACE}\"}]\n");
  CHECK(sent.secrets.size() == 2);
  CHECK(read("objective: grpo\nrewards: [{type: http, url: \"http://${env:PLACE}/x\", headers: {X-Key: \"Bearer ${env:PLACE}\"}}]\n").secrets.size() == 1);
  CHECK(read("objective: grpo\nrewards: [{type: http, url: \"http://${env:PLACE}/x\"}]\n").secrets.empty());
  LoadedJob secret = read("name: a-${env:MY_TOKEN}\n");
  REQUIRE(secret.secrets.size() == 1);
  CHECK(hide_secrets("name: a-abcd1234", secret) == "name: a-***");
  CHECK(error_of([&] { read("seed: ${env:MY_TOKEN}\n"); }) ==
        "job.yaml:4:7: seed: \"***\" is not a whole number");
  CHECK(error_of([&] { read("seed: ${env:NONE}\n"); }) ==
        "job.yaml:4:7: the environment variable NONE is not set (set it, or write ${env:NONE:-default})");
  CHECK(read("seed: ${RANK}\n").job.seed == 8);
  CHECK(read("seed: ${NONE:-7}\n").job.seed == 7);
  CHECK(error_of([&] { read("seed: ${NONE}\n"); }) ==
        "job.yaml:4:7: the environment variable NONE is not set (set it, or write ${env:NONE:-default})");
  CHECK(error_of([&] { read("seed: ${base}\n"); }) ==
        "job.yaml:4:7: ${base} does not name an environment variable (write the value itself, or ${env:NAME} or "
        "${env:NAME:-default}; $${ is the text ${)");
}

TEST_CASE("paths are relative to what states them") {
  TemporaryFolder folder;
  folder.write("jobs/deep/job.yaml",
               "model: ../m\ndata: {train: /abs/a.jsonl, template: t.jinja}\noutput_dir: ~/runs\n");
  Environment environment = [](const std::string& name) -> std::optional<std::string> {
    return name == "HOME" ? std::optional<std::string>("/home/me") : std::nullopt;
  };
  LoadOptions options{.sets = {"data.eval=e.jsonl"}, .cwd = folder.path(), .environment = environment};
  Job job = load_job("jobs/deep/job.yaml", options).job;
  CHECK(job.model.path == folder.path("jobs/m"));
  CHECK(job.data.train[0].path == "/abs/a.jsonl");
  CHECK(job.data.eval[0].path == folder.path("e.jsonl"));
  CHECK(job.data.template_name == folder.path("jobs/deep/t.jinja"));
  CHECK(job.output_dir == "/home/me/runs");
}

TEST_CASE("variables in paths have their values, or are named") {
  TemporaryFolder folder;
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "DATA") return "/data/v2";
    if (name == "HOME") return "/home/me";
    if (name == "MY_TOKEN") return "abcd1234";
    return std::nullopt;
  };
  const auto read = [&](const std::string& path, const Environment& values) {
    return load(folder, "model: " + path + "\ndata: {train: a.jsonl}\n", {.environment = values});
  };
  const auto model = [&](const std::string& path) { return read(path, environment).job.model.path; };
  CHECK(model("$DATA/m") == "/data/v2/m");
  CHECK(model("${DATA}/m") == "/data/v2/m");
  CHECK(model("~/m") == "/home/me/m");
  CHECK(model("/x/a$/m") == "/x/a$/m");
  CHECK(model("/x/$1/m") == "/x/$1/m");
  CHECK(read("/x/$MY_TOKEN", environment).secrets.size() == 1);
  const auto error = [&](const std::string& path, const Environment& values) {
    return error_of([&] { read(path, values); });
  };
  CHECK_THAT(error("$NONE/m", environment),
             Catch::Contains("$NONE/m: the environment variable NONE is not set (set it, or write the folder itself)"));
  CHECK_THAT(error("${NONE}/m", environment), Catch::Contains("the environment variable NONE is not set"));
  const Environment empty = [](const std::string&) { return std::nullopt; };
  CHECK_THAT(error("~/m", empty), Catch::Contains("the environment variable HOME is not set"));
}

TEST_CASE("a key that turns off what is off may stand where it has no effect") {
  TemporaryFolder folder;
  const auto error = [&](const std::string& more) {
    return error_of([&] { load(folder, std::string(kSmall) + "objective: grpo\nrewards: [{type: exact}]\n" + more); });
  };
  CHECK(error("eval: {samples: 0}\n") == "no error");
  CHECK(error("rollout: {lookup_tokens: 0, provider: http, server: {url: http://a/v1}}\n").find("lookup_tokens") ==
        std::string::npos);
  CHECK_THAT(error("eval: {samples: 2}\n"), Catch::Contains("eval.samples: has no effect"));
}

TEST_CASE("a job survives JSON exactly") {
  TemporaryFolder folder;
  Job job =
      load(folder,
           std::string(kSmall) +
               "seed: 7\nadapter: {type: qlora, alpha: 0.1, target_modules: '.*', rank_pattern: {a: 3}, "
               "layers_to_transform: [1, 2]}\ntrain: {epochs: 0.3333333333333333, max_time: 2h}\n"
               "optimizer: {learning_rate: 1.2345678901234567e-5}\n")
          .job;
  Json first = to_json(job);
  Job again = job_from_json(parse_json(dump_json(first), "plan.json", ErrorKind::job), "plan.json");
  CHECK(dump_json(to_json(again)) == dump_json(first));
  CHECK(again.optimizer.learning_rate == job.optimizer.learning_rate);
  CHECK(again.train.epochs == job.train.epochs);
  CHECK(again.adapter.target_is_regex);
  CHECK(value_of(job, "adapter.rank_pattern").dump() == "{\"a\":3}");
  Json broken = first;
  broken["train"]["epochs"] = "x";
  CHECK(error_of([&] { job_from_json(broken, "plan.json"); }) ==
        "plan.json: train.epochs: \"x\" is text, expected a number");
}

TEST_CASE("a JSON job is the same job") {
  TemporaryFolder folder;
  folder.write("job.json",
               R"({"model": "m", "adapter": {"type": "lora", "rank": 8}, "data": {"train": ["a.jsonl"]}})");
  LoadedJob loaded = load_job("job.json", {.cwd = folder.path()});
  CHECK(loaded.job.adapter.rank == 8);
  CHECK(loaded.origins.at("adapter.rank").at.text() == "job.json:1:52");
}
