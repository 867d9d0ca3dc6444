// A rollout in a checkpoint comes back to the bit, and its file returns scores only to the same
// completions.
#include "core/learn/rollout/recorded.h"
#include "core/learn/rollout/rollout_metrics.h"
#include "core/lib/base/file.h"
#include "core/lib/io/members.h"
#include "core/run/host/shown_rollout.h"
#include "tests/rollout/rollouts.h"

using namespace forge;

namespace {

std::vector<RewardConfig> rewards() {
  RewardConfig right, brief;
  right.name = "right", brief.name = "brief";
  return {right, brief};
}

Completion scored() {
  Completion c{.prompt = 3, .draw = 5, .place = 1, .group = 0, .sample = 2};
  c.ids = {4, 9, 2};
  c.sampler_logps = {-0.1F, -1.2345678F, -3e-8F};
  c.text_tokens = 2;
  c.text = "ab", c.prompt_text = "?";
  c.parts = {{1.0 / 3, "so"}, {std::nullopt, "cannot say"}};
  c.reward = 1.0 / 3;
  return c;
}

}  // namespace

TEST_CASE("a rollout survives a checkpoint to the bit") {
  Rollout rollout{.number = 7, .drawn = 9};
  rollout.completions = {scored()};
  rollout.completions[0].old_logps = {-0.1F, 1e-30F, -7.25F};
  rollout.completions[0].advantage = 0.1 + 0.2;
  rollout.completions[0].counts = true;
  rollout.completions[0].inserted = {{1, 2}};
  rollout.completions[0].sampler_logps = {-0.1F, -3e-8F};
  const Json json = rollout;
  const auto back = parse_json(dump_json(json), "x", ErrorKind::internal).get<Rollout>();
  CHECK(dump_json(Json(back)) == dump_json(json));
  CHECK(back.completions[0].old_logps == rollout.completions[0].old_logps);
  CHECK(back.completions[0].advantage == rollout.completions[0].advantage);
  CHECK(back.completions[0].reward == rollout.completions[0].reward);
  CHECK(back.completions[0].inserted == rollout.completions[0].inserted);
  CHECK(back.completions[0].tokens() == 2);
  CHECK_FALSE(back.completions[0].parts[1].score);
  Json damaged = json;
  damaged["completions"][0]["ids"] = "none";
  CHECK_THROWS_AS(damaged.get<Rollout>(), MemberFault);
}

TEST_CASE("scores are taken from a file for the same completion, and for no other") {
  const TemporaryFolder folder;
  const Completion written = scored();
  const RecordedRollout recorded(folder.write("rollout.jsonl", dump_json(rollout_line(written, rewards())) + "\n{\"torn"));
  const auto empty = [&] {
    Completion c = scored();
    c.parts.clear(), c.reward.reset(), c.text.clear();
    return c;
  };
  Completion same = empty();
  REQUIRE(recorded.take_scores(rewards(), same));
  CHECK(same.reward == written.reward);
  CHECK(same.parts[0].score == written.parts[0].score);
  CHECK_FALSE(same.parts[1].score);
  CHECK(same.parts[1].reason == "cannot say");
  for (const auto& change : std::vector<std::function<void(Completion&)>>{
           [](Completion& c) { c.ids[1] = 8; }, [](Completion& c) { c.sample = 1; }, [](Completion& c) { c.draw = 4; },
           [](Completion& c) { c.place = 0; }, [](Completion& c) { c.prompt = 2; }}) {
    Completion other = empty();
    change(other);
    CHECK_FALSE(recorded.take_scores(rewards(), other));
    CHECK(other.parts.empty());
  }
  std::vector<RewardConfig> renamed = rewards();
  renamed[1].name = "short";
  Completion other = empty();
  CHECK_FALSE(recorded.take_scores(renamed, other));
  CHECK_FALSE(RecordedRollout(folder.path() + "/none.jsonl").take_scores(rewards(), same));
}

TEST_CASE("a line with a changed digit is not taken") {
  const TemporaryFolder folder;
  const std::string line = dump_json(rollout_line(scored(), rewards()));
  int changed = 0;
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] < '0' || line[at] > '9') continue;
    std::string other = line;
    other[at] = line[at] == '1' ? '2' : '1';
    const RecordedRollout recorded(folder.write("rollout.jsonl", other + "\n"));
    Completion same = scored();
    same.parts.clear();
    INFO(other);
    CHECK_FALSE(recorded.take_scores(rewards(), same));
    CHECK(recorded.damaged() == 1);
    ++changed;
  }
  CHECK(changed > 30);
  CHECK(RecordedRollout(folder.write("rollout.jsonl", line + "\n" + line.substr(0, 20))).damaged() == 0);  // torn by a kill
  Json without = rollout_line(scored(), rewards());
  without.erase("hash");
  CHECK(RecordedRollout(folder.write("rollout.jsonl", dump_json(without) + "\n")).damaged() == 1);
}

TEST_CASE("a rollout's file is shown as it was written, and a line that is no completion is named") {
  const TemporaryFolder folder;
  const std::string line = dump_json(rollout_line(scored(), rewards()));
  const std::vector<ShownCompletion> shown = read_shown_rollout(folder.write("rollout.jsonl", line + "\n\n" + line + "\n"));
  REQUIRE(shown.size() == 2);
  CHECK(shown_text(shown[1]) == "reward 0.3333 (right 0.3333: so, brief unscored: cannot say), 2 tokens, stop\n  prompt: ?\n  ab\n");
  CHECK(dump_json(shown[1].line) == line);
  for (const auto& [bad, said] : std::vector<std::pair<std::string, std::string>>{
           {"[]", ":2: expected an object"}, {"7", ":2: expected an object"}, {R"({"rewards":{"r":1}})", ":2: rewards.r: expected an object"},
           {R"({"rewards":3})", ":2: rewards: expected an object"}, {R"({"rewards":{"r":{"score":"x"}}})", ":2: rewards.r.score: expected a number"},
           {R"({"tokens":null})", ":2: tokens: expected a whole number"}, {R"({"tokens":-1})", ":2: tokens: expected at least 0"},
           {R"({"text":null})", ":2: text: expected a text"}, {R"({"kept":1})", ":2: kept: expected true or false"}}) {
    const std::string path = folder.write("rollout.jsonl", line + "\n" + bad);
    CHECK_THAT(error_of([&] { read_shown_rollout(path); }), Catch::Contains(path + said));
  }
}

TEST_CASE("a rollout's number is read from whole names alone") {
  CHECK(rollout_number("rollout-000003.jsonl") == 3);
  CHECK(rollout_number("rollout-1234567.jsonl") == 1234567);
  for (const char* name : {"rollout-.jsonl", "rollout-3.json", "rollout--3.jsonl", "rollout-3x.jsonl", "other-3.jsonl",
                           "rollout-9223372036854775807.jsonl", "rollout-1234567890123456789012345.jsonl"}) {
    INFO(name);
    CHECK_FALSE(rollout_number(name));
  }
}

TEST_CASE("what a server drew and a tool answered is taken from a file") {
  const TemporaryFolder folder;
  Completion written = scored();
  written.ids = {4, 9, 30, 31, 5, 2};
  written.inserted = {{2, 4}};
  written.sampler_logps = {-0.1F, -1.2345678F, -3e-8F, -2};
  written.turns = 2, written.text_begin = 4, written.text_tokens = 1;
  written.adapter = "step-000003-12345678";
  const RecordedRollout recorded(folder.write("rollout.jsonl", dump_json(rollout_line(written, rewards())) + "\n"));
  const Completion asked{.prompt = 3, .draw = 5, .place = 1, .sample = 2};
  Completion drawn = asked;
  CHECK_FALSE(recorded.take_draw("step-000003-87654321", drawn));
  CHECK(drawn.ids.empty());
  REQUIRE(recorded.take_draw(written.adapter, drawn));
  CHECK(drawn.ids == written.ids);
  CHECK(drawn.sampler_logps == written.sampler_logps);
  CHECK(drawn.inserted == written.inserted);
  CHECK(std::tuple(drawn.turns, drawn.text_begin, drawn.text_tokens, drawn.truncated) == std::tuple(2, 4, 1, false));
  Completion turn = asked;
  turn.ids = {4, 9};
  REQUIRE(recorded.tool_answer(turn));
  CHECK(recorded.tool_answer(turn)->ids == std::vector<int32_t>{30, 31});
  turn.ids = {4, 8};
  CHECK_FALSE(recorded.tool_answer(turn));
  turn.ids = {4};
  CHECK_FALSE(recorded.tool_answer(turn));
  turn.ids = written.ids;
  REQUIRE(recorded.tool_answer(turn));
  CHECK(recorded.tool_answer(turn)->over);
  written.failure = "no answer", written.truncated = true;
  const RecordedRollout failed(folder.write("failed.jsonl", dump_json(rollout_line(written, rewards())) + "\n"));
  CHECK(failed.tool_answer(turn)->failure == "no answer");
  CHECK(failed.tool_answer(turn)->truncated);
}

TEST_CASE("what a rollout says of itself") {
  Rollout rollout = rollout_of({{3, 1}, {2, 2}}, {{1, 0}, {2, 1}});
  rollout.completions[1].reward.reset();
  rollout.completions[1].truncated = true;
  const Json facts = rollout_facts(rollout.completions, {});
  CHECK(facts["reward"] == Approx(4.0 / 3));
  CHECK(facts["unscored"] == 1);
  CHECK(facts["truncated_share"] == 0.25);
  CHECK(facts["completion_tokens"]["mean"] == 2);
  CHECK(facts["distinct_2"] == Approx(0.25));  // of four pairs all are (7, 7)
}

TEST_CASE("of several rewards it is told how much each decides") {
  Rollout rollout = rollout_of({{1, 1}, {1, 1}}, {{0, 1}, {2, 3}});
  const double other[] = {1, -1, 1, -1}, shadow[] = {0, 1, 2, 3};
  for (size_t i = 0; i < 4; ++i) {
    Completion& c = rollout.completions[i];
    c.parts = {{.score = *c.reward}, {.score = other[i]}, {.score = shadow[i]}};
  }
  std::vector<RewardConfig> rewards(3);
  rewards[0].name = "decides", rewards[1].name = "other", rewards[2].name = "shadow", rewards[2].weight = 0;
  Json parts = rollout_facts(rollout.completions, rewards)["rewards"];
  CHECK(parts["decides"]["explains"] == Approx(1));
  CHECK(parts["other"]["explains"] == Approx(0.2));  // covariance −2, sums of squares 4 and 5
  CHECK(!parts["shadow"].contains("explains"));
  for (Completion& c : rollout.completions) c.parts[1].score = 4;
  CHECK(rollout_facts(rollout.completions, rewards)["rewards"]["other"]["explains"].is_null());
  rewards[1].weight = 0;
  CHECK(!rollout_facts(rollout.completions, rewards)["rewards"]["decides"].contains("explains"));
}

TEST_CASE("a rollout that an older forge wrote is read") {
  const std::string path = FORGE_SOURCE_DIR "/tests/run/goldens/older/rollout.json";
  const auto rollout = parse_json(read_file(path, 1 << 20, ErrorKind::environment), path, ErrorKind::environment).get<Rollout>();
  REQUIRE(rollout.completions.size() == 2);
  CHECK(rollout.completions[1].ids.size() == rollout.completions[1].old_logps.size());
}
