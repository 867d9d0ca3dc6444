// Tests processes that score, and the handling of misbehaving ones, which hostile.py plays.
#include "core/learn/reward/process_pool.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "core/learn/reward/child_process.h"
#include "core/lib/base/text.h"
#include "tests/reward/samples.h"
#include "tests/test.h"

using namespace forge;

namespace {

RewardConfig process(std::vector<std::string> arguments, double timeout = 20) {
  RewardConfig reward = reward_of(RewardType::command, "judge");
  reward.find<CommandReward>()->command = {"python3", std::string(FORGE_SOURCE_DIR) + "/tests/reward/hostile.py"};
  reward.find<CommandReward>()->command.insert(reward.find<CommandReward>()->command.end(), arguments.begin(), arguments.end());
  reward.find<WithTimeout>()->timeout = timeout;
  return reward;
}

std::vector<RewardSample> samples_of(const std::vector<std::string>& completions) {
  std::vector<RewardSample> samples;
  for (const std::string& completion : completions) {
    samples.push_back(sample_of(completion, R"({"column": [1, {"a": "b"}]})"));
    samples.back().id = static_cast<int64_t>(samples.size()) - 1;
    samples.back().place = "rows.jsonl:" + std::to_string(samples.size());
  }
  return samples;
}

std::string text_of(const Score& score) {
  if (score.value) return format_number(*score.value);
  return (score.failure ? "failed: " : "declined: ") + score.reason;
}

// The scores of "one", "bad" and "three", joined by " | "; or the error, with its hint.
struct Run {
  std::string text;
  PoolCounts counts;
};
Run run(const RewardConfig& reward, int64_t most_failures = 10,
        const std::vector<std::string>& completions = {"one", "bad", "three"}) {
  ProcessPool pool(reward, {.job = "arithmetic", .seed = 7});
  Run result;
  try {
    for (const Score& score : pool.score(samples_of(completions), 5, most_failures))
      result.text += (result.text.empty() ? "" : " | ") + text_of(score);
  } catch (const Error& error) {
    result.text = std::string(error.what()) + (error.hint().empty() ? "" : " — " + error.hint());
  }
  result.counts = pool.counts();
  return result;
}

bool is_gone(int64_t pid) {
  for (int i = 0; i < 200; ++i) {
    if (::kill(static_cast<pid_t>(pid), 0) != 0) return true;
    // A killed grandchild is reaped by init; without one it stays as a zombie.
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(stat, line);
    if (line.find(") Z ") != line.npos) return true;
    ::usleep(10'000);
  }
  return false;
}

}  // namespace

TEST_CASE("scores come back in the order of the samples") {
  CHECK(run(process({"plain"})).text == "3 | 3 | 5");
  CHECK(run(process({"batch"})).text == "3 | 3 | 5");
  CHECK(run(process({"backwards"})).text == "3 | 3 | 5");
  RewardConfig many = process({"slow-first"});
  many.find<CommandReward>()->workers = 4;
  std::vector<std::string> completions;
  std::string expected;
  for (size_t i = 1; i <= 30; ++i) {
    completions.emplace_back(i, 'x');
    expected += (i > 1 ? " | " : "") + std::to_string(i);
  }
  CHECK(run(many, 0, completions).text == expected);
  many.find<CommandReward>()->command[2] = "batch";
  CHECK(run(many, 0, completions).text == expected);
}

TEST_CASE("a process is told all there is to know") {
  ProcessPool pool(process({"echo"}), {.job = "arithmetic", .seed = 7});
  std::vector<RewardSample> samples = samples_of({"žluť\n"});
  samples[0].prompt = "say";
  samples[0].tokens = 4;
  samples[0].truncated = true;
  CHECK(
      pool.score(samples, 12, 0)[0].reason ==
      R"({"completion": "\u017elu\u0165\n", "finish": "length", "id": 0, "messages": null, "prompt": "say", )"
      R"("row": {"column": [1, {"a": "b"}]}, "step": 12, "tokens": 4})");
  ProcessPool hello(process({"hello"}), {.job = "arithmetic", .seed = 7});
  CHECK(hello.score(samples, 1, 0)[0].reason ==
        R"({"forge": 1, "job": "arithmetic", "reward": "judge", "seed": 7})");
  ProcessPool parts(process({"parts"}), {});
  CHECK(parts.score(samples, 1, 0)[0].parts == Json{{"passed", 3}});
}

TEST_CASE("a process stays for the next batch") {
  ProcessPool pool(process({"plain"}), {});
  for (int step = 0; step < 3; ++step) CHECK(*pool.score(samples_of({"four"}), step, 0)[0].value == 4);
  ProcessPool once(process({"one-shot"}), {});
  for (int step = 0; step < 4; ++step) CHECK(*once.score(samples_of({"four"}), step, 0)[0].value == 4);
}

TEST_CASE("a completion that hangs its process fails, and only it") {
  const Run hang = run(process({"hang"}, 0.5));
  CHECK(hang.text == "3 | failed: no answer within 0.5 s, twice | 5");
  CHECK(hang.counts.timeouts == 2);
  TemporaryFolder folder;
  const Run once = run(process({"hang-once", folder.path("count")}, 1));
  CHECK(once.text == "3 | 3 | 5");
  CHECK(once.counts.timeouts == 1);
}

TEST_CASE("a process that writes blank lines is held to its time, and a million of them take none") {
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
  const Run blank = run(process({"blank"}, 0.5));
  CHECK(blank.text == "3 | failed: no answer within 0.5 s, twice | 5");
  CHECK(blank.counts.timeouts == 2);
  CHECK(run(process({"newlines"})).text == "3 | 3 | 5");
  CHECK(seconds() < 15);
}

TEST_CASE("a process that does not greet is held to its time, also under blank lines") {
  for (const char* mode : {"silent-start", "blank-start"}) {
    const ChildSettings child{.command = {"python3", std::string(FORGE_SOURCE_DIR) + "/tests/reward/hostile.py", mode}};
    ChildPool pool({.name = "judge", .child = child, .timeout = 0.1, .least_start = 0.5, .greeting = {{"forge", 1}}});
    const auto ask = [&] { pool.ask({{.line = {{"id", 0}}, .place = "rows.jsonl:1"}}, {{"end", 1}}, 0, [](Json&) { return std::string(); }); };
    CHECK_THAT(error_of(ask), Catch::Contains("judge: it did not say {\"ready\":1} in 0.5 s"));
  }
}

TEST_CASE("a completion that ends its process fails, and only it") {
  const Run crash = run(process({"crash"}));
  CHECK(crash.text == "3 | failed: the process ended with exit code 3, twice | 5");
  CHECK(crash.counts.crashes == 2);
  CHECK(run(process({"batch-killer"})).text == "3 | failed: the process ended with exit code 3, twice | 5");
  TemporaryFolder folder;
  CHECK(run(process({"crash-once", folder.path("count")})).text == "3 | 3 | 5");
}

TEST_CASE("the third crash of a batch stops the run with the process's last words") {
  const Run run_of_two = run(process({"crash"}), 10, {"bad", "bad too"});
  CHECK(run_of_two.text ==
        "reward judge: it ended with exit code 3; that was the third time in one batch — its standard error "
        "ends "
        "with:\nTraceback: cannot judge");
  CHECK(run_of_two.counts.crashes == 3);
}

TEST_CASE("more failures than allowed stop the run and name the row") {
  CHECK(starts_with(run(process({"error"}), 0).text, "reward judge: rows.jsonl:2: no such test"));
  CHECK(run(process({"error"}), 1).text == "3 | failed: no such test | 5");
  CHECK(run(process({"null"}), 0).text == "3 | declined: cannot judge | 5");
}

TEST_CASE("what breaks the protocol stops the run by name") {
  const auto text = [](const char* mode) { return run(process({mode})).text; };
  CHECK(starts_with(
      text("nan"),
      "reward judge: it wrote \"{\"id\": 1, \"score\": NaN, \"info\": \"length\"}\", and JSON has no NaN"));
  CHECK(starts_with(text("infinite"), "reward judge: it wrote \"{\"id\": 1, \"score\": 1e999}\""));
  CHECK(starts_with(text("text-score"), "reward judge: its score is not a finite number: "));
  CHECK(starts_with(text("no-score"), "reward judge: its reply has neither score nor error: "));
  CHECK(starts_with(text("unknown-id"), "reward judge: it answered id 999, which it was not asked for"));
  CHECK(starts_with(text("twice"), "reward judge: it answered id 1 twice"));
  CHECK(starts_with(text("garbage"),
                    "reward judge: it wrote \"hello from a library\", expected one line of JSON"));
  CHECK(starts_with(text("list"), "reward judge: it wrote \"[1, 2]\", expected one line of JSON"));
  CHECK(starts_with(text("binary"), "reward judge: it wrote \"bytes that are not UTF-8\""));
  CHECK(starts_with(text("deep"), "reward judge: it wrote \"[[[["));
  CHECK(starts_with(text("long-line"), "reward judge: it wrote a line of more than 1.0 MiB"));
  CHECK(starts_with(text("bad-parts"), "reward judge: its parts are not numbers by name: "));
  CHECK(starts_with(text("no-greeting"), "reward judge: it wrote \"Loading model …\""));
  CHECK(text("dies-at-start") ==
        "reward judge: it ended with exit code 1 before it said {\"ready\":1} — its standard error ends "
        "with:\nImportError: no module named judge");
}

TEST_CASE("a process that closes a pipe is started again") {
  CHECK(run(process({"closes-output"})).text ==
        "3 | failed: the process closed its standard output, twice | 5");
  // The closed input is noticed when it is written to; before that the item times out.
  CHECK(run(process({"closes-input"}, 0.5)).text == "3 | failed: no answer within 0.5 s, twice | 5");
}

TEST_CASE("a process gets no variable that it was not given") {
  ::setenv("FORGE_TEST_TOKEN", "secret", 1);
  ::setenv("FORGE_TEST_OTHER", "secret", 1);
  ChildProcess child({.command = {"env"}, .environment = {"FORGE_TEST_OTHER"}});
  while (child.alive()) {
    child.exchange();
    wait_for_any({&child}, std::chrono::milliseconds(20));
  }
  std::vector<std::string> names;
  while (const std::optional<std::string> line = child.next_line())
    names.push_back(line->substr(0, line->find('=')));
  const auto has = [](const std::vector<std::string>& all, const std::string& name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  CHECK(has(names, "FORGE_TEST_OTHER"));
  CHECK(has(names, "PATH"));
  for (const std::string& name : names) {
    INFO(name);
    CHECK((has(child_environment(), name) || name == "FORGE_TEST_OTHER"));
  }
}

TEST_CASE("directory and memory are as the job says") {
  TemporaryFolder folder;
  RewardConfig reward = process({"directory"});
  reward.find<CommandReward>()->directory = folder.path();
  ProcessPool pool(reward, {});
  CHECK(pool.score(samples_of({"x"}), 1, 0)[0].reason == std::filesystem::canonical(folder.path()).string());
  RewardConfig limited = process({"memory"});
  limited.find<CommandReward>()->memory_limit = int64_t{600} << 20;
  CHECK(run(limited).text == "3 | failed: the process ended with exit code 1, twice | 5");
}

TEST_CASE("what cannot be started says why") {
  RewardConfig reward = process({});
  reward.find<CommandReward>()->command = {"no-such-program-here", "x"};
  CHECK(starts_with(run(reward).text, "cannot start no-such-program-here x: No such file or directory"));
  reward.find<CommandReward>()->command = {"python3"};
  reward.find<CommandReward>()->directory = "/nowhere/at/all";
  CHECK(starts_with(run(reward).text, "cannot start python3: /nowhere/at/all: No such file or directory"));
}

TEST_CASE("one text is split at blanks") {
  RewardConfig reward = process({"plain"});
  reward.find<CommandReward>()->command = {join(reward.find<CommandReward>()->command, "  ")};
  CHECK(run(reward).text == "3 | 3 | 5");
}

TEST_CASE("grandchildren go with their group, and nobody stays as a zombie") {
  int64_t grandchild = 0;
  {
    ProcessPool pool(process({"forks"}), {});
    grandchild = std::stoll(pool.score(samples_of({"x"}), 1, 0)[0].reason);
    CHECK(::kill(static_cast<pid_t>(grandchild), 0) == 0);
  }
  CHECK(is_gone(grandchild));
  // A grandchild that holds the pipes of a process that ended does not hide its end.
  const auto begin = std::chrono::steady_clock::now();
  CHECK(run(process({"forks-and-dies"})).text == "3 | failed: the process ended with exit code 4, twice | 5");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child of ours is left, alive or not
}

TEST_CASE("processes that do not leave are ended together") {
  std::optional<ProcessPool> pool;
  RewardConfig many = process({"stays"});
  many.find<CommandReward>()->workers = 6;
  pool.emplace(many, CommandContext{});
  pool->score(samples_of({"a", "b", "c", "d", "e", "f"}), 1, 0);
  const auto began = std::chrono::steady_clock::now();
  pool.reset();
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(3));
}

TEST_CASE("a batch holds the beginnings of remarks, and nothing that nobody reads") {
  ProcessPool pool(process({"remarks"}), {});
  for (const Score& score : pool.score(samples_of({"one", "two"}), 1, 0)) {
    CHECK(score.reason == std::string(4096, 'r') + "…");
    CHECK(*score.value == 3);
  }
}

TEST_CASE("megabytes go both ways") {
  const std::string large(3 << 20, 'x');
  CHECK(run(process({"plain"}), 0, {large, "a"}).text == "3145728 | 1");
  CHECK(run(process({"batch"}), 0, {large, large, large}).text == "3145728 | 3145728 | 3145728");
  CHECK(run(process({"noisy"}), 0, {"a", "b", "c"}).text == "1 | 1 | 1");
}

TEST_CASE("standard error is kept to its last 64 KiB") {
  ChildProcess child({.command = {"python3", "-c", "import sys; sys.stderr.write('a' * 300000 + 'end')"}});
  while (child.alive()) {
    child.exchange();
    wait_for_any({&child}, std::chrono::milliseconds(20));
  }
  CHECK(child.standard_error().size() == (64 << 10));
  CHECK(child.standard_error().ends_with("aend"));
  CHECK(child.why_ended() == "ended with exit code 0");
}
