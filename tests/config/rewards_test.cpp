// Tests the keys of rewards: their types, their requirements, and the jobs that may have them.
#include "core/job/diagnostics.h"
#include "core/job/job_json.h"
#include "core/job/load.h"
#include "tests/test.h"

using namespace forge;

namespace {

LoadedJob load(const std::string& text, bool rewards_only = true) {
  TemporaryFolder folder;
  folder.write("job.yaml", text);
  return load_job("job.yaml", {.cwd = folder.path(), .rewards_only = rewards_only});
}

// Returns "key: message" of every fault, joined by " | ".
std::string faults(const std::string& rewards, bool rewards_only = true) {
  std::string text;
  try {
    load("rewards: " + rewards, rewards_only);
  } catch (const JobErrors& errors) {
    for (const Diagnostic& fault : errors.faults())
      if (fault.message != "missing") text += (text.empty() ? "" : " | ") + fault.key + ": " + fault.message;
  }
  return text;
}

}  // namespace

TEST_CASE("a word, a reward and a list of both") {
  CHECK(load("rewards: exact").job.rewards.at(0).type() == RewardType::exact);
  CHECK(load("rewards: {type: math}").job.rewards.at(0).name == "math");
  const Job job =
      load("rewards: [exact, {type: math, weight: 0, requires: exact}]\nreward_mix: {clip: 2}").job;
  CHECK(job.rewards.at(1).weight == 0);
  CHECK(job.rewards.at(1).needs == "exact");
  CHECK(job.reward_mix.clip == 2);
}

TEST_CASE("a job with rewards comes back from JSON as it was") {
  Job job =
      load("rewards: [{type: command, command: judge.py, workers: 3, timeout: 1m, environment: [A]}]").job;
  job.model.path = "m";
  job.data.train = {{.path = "t.jsonl"}};
  const Json json = to_json(job);
  CHECK(dump_json(to_json(job_from_json(json, "plan.json"))) == dump_json(json));
}

TEST_CASE("of a job for forge score only the rewards are read") {
  CHECK(load("objective: grpo\nrewards: exact\ntrain: {max_steps: many}").job.rewards.size() == 1);
  CHECK(error_of([] { load("objective: grpo\nrewads: exact"); }).find("did you mean \"rewards\"") !=
        std::string::npos);
  CHECK(error_of([] { load("model: m"); }).find("rewards: missing") != std::string::npos);
  CHECK(error_of([] { load("rewards: []"); }).find("rewards: the list is empty") != std::string::npos);
}

TEST_CASE("a job that trains has no rewards, since no objective draws completions") {
  const std::string text = faults("exact\nreward_mix: {clip: 1}", false);
  CHECK(text ==
        "rewards: has no effect: objective.type sft draws no completions to score | "
        "reward_mix.clip: has no effect: objective.type sft draws no completions to score");
}

TEST_CASE("a header is one line, and its fault does not show it") {
  CHECK(faults("{type: http, url: 'http://h', headers: {Authorization: 'Bearer a b', X-Tab: \"a\\tb\"}}").empty());
  for (const char* value : {"s3cret\\r\\nX: y", "s3cret\\n", "s3cret\\x7f"})
    CHECK(faults("{type: http, url: 'http://h', headers: {X-Key: \"" + std::string(value) + "\"}}") ==
          "rewards[0].headers: the value of X-Key contains a line break or another control character, which headers cannot");
  CHECK(faults("{type: http, url: 'http://h', headers: {\"a\\nb\": c}}") ==
        "rewards[0].headers: \"a\\x0ab\" is not a header name, expected letters, digits and -");
}

TEST_CASE("a key of another type is refused, and so is what a type lacks") {
  CHECK(faults("{type: exact, pattern: x}") ==
        "rewards[0].pattern: has no effect: it belongs to regex, not to exact");
  CHECK(faults("{type: tags, tags: [a], max: 3}") ==
        "rewards[0].max: has no effect: it belongs to length or overlong, not to tags");
  CHECK(faults("{type: regex}") == "rewards[0].pattern: missing: regex needs it");
  CHECK(faults("{type: json_schema}") == "rewards[0].schema: missing: json_schema needs it");
  CHECK(faults("{type: tags}") == "rewards[0].tags: missing: tags needs it");
  CHECK(faults("{type: command}") == "rewards[0].command: missing: command needs it");
  CHECK(faults("{type: contains}") == "rewards[0].all: missing: contains needs it");
  CHECK(faults("{type: length}") == "rewards[0].max: missing: length needs it");
  CHECK(faults("{type: overlong}") ==
        "rewards[0].max: missing: overlong needs it | rewards[0].buffer: missing: overlong needs it");
  CHECK(faults("{type: choice, choices: [A]}") == "rewards[0].choices: missing: choice needs it");
  CHECK(faults("{type: http}").find("url: missing: http needs it") != std::string::npos);
  CHECK(faults("{type: http, url: 'ftp://judge'}").find("is not a URL") != std::string::npos);
  CHECK(faults("{type: exact, url: 'http://judge'}").find("url: has no effect") != std::string::npos);
  CHECK(faults("{type: model}").find("path: missing: model needs it") != std::string::npos);
}

TEST_CASE("values that contradict each other are named") {
  CHECK(faults("{type: length, min: 4, max: 3}") == "rewards[0].min: 4 is more than max, 3");
  CHECK(faults("{type: length, target: n, max: 3}") == "rewards[0].target: max is set too");
  CHECK(faults("{type: overlong, max: 3, buffer: 4}") == "rewards[0].buffer: 4 is more than max, 3");
  CHECK(faults("{type: tags, tags: [a, <b>, a]}") ==
        "rewards[0].tags: \"a\" appears twice | rewards[0].tags: \"<b>\" is not a name");
  CHECK(
      faults("{type: numeric, extract: boxd}") ==
      "rewards[0].extract: \"boxd\" is not auto, whole, last, boxed, after TEXT, tag NAME or regex PATTERN");
  CHECK(faults("{type: exact, extract: last}").find("exact looks for none") != std::string::npos);
  CHECK(faults("{type: command, command: a, environment: [A=1]}") ==
        "rewards[0].environment: \"A=1\" is not a name");
  CHECK(faults("[exact, exact]") == "rewards[1].name: \"exact\" is already the name of rewards[0]");
  CHECK(faults("{type: exact, name: a/b}").find("contains a space, a dot or a slash") != std::string::npos);
  CHECK(faults("{type: exact, requires: exact}") ==
        "rewards[0].requires: \"exact\" is not listed before this one");
  CHECK(faults("[exact, {type: math, requires: exat}]") ==
        "rewards[1].requires: \"exat\" is not the name of a reward (did you mean \"exact\"?)");
  CHECK(faults("{type: numeric, tolerance: 1}").find("out of range") != std::string::npos);
  CHECK(faults("{type: exact, weight: .inf}") != "");
}

TEST_CASE("a process works in the folder of the file that states it") {
  TemporaryFolder folder;
  folder.write("below/base.yaml", "rewards: [{type: command, command: [python3, judge.py]}]");
  folder.write("job.yaml", "extends: below/base.yaml");
  const LoadedJob loaded = load_job("job.yaml", {.cwd = folder.path(), .rewards_only = true});
  CHECK(std::filesystem::path(*loaded.job.rewards[0].as<CommandReward>().directory).lexically_normal().string().find("/below") !=
        std::string::npos);
}
