// Tests pairs of answers to one prompt: which are cut, which are dropped, and that a pair is never
// split.
#include <algorithm>

#include "core/data/batch/order.h"
#include "core/data/mismatch.h"
#include "core/data/prepare.h"
#include "core/job/names.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kGoldens = std::string(FORGE_SOURCE_DIR) + "/tests/data/goldens/";

struct Pairs {
  TemporaryFolder folder;
  Tokenizer tokenizer = open_tokenizer(kGoldens + "tokenizer");
  ChatTemplate chat =
      ChatTemplate::parse({read_file(kGoldens + "smollm2.jinja", 1 << 20, ErrorKind::data), "smollm2"}, {});
  Job job;
  int64_t made = 0;

  Pairs() {
    job.objective.become(ObjectiveType::dpo);
    job.data.max_length = 4096;
  }
  Prepared prepare(const std::string& rows) {
    const std::string name = "rows" + std::to_string(made++) + ".jsonl";
    job.data.train = {{folder.write(name, rows), RowFormat::automatic, {}}};
    return prepare_dataset(job, Split::train, tokenizer, &chat, {.cache_folder = folder.path("cache"), .threads = 2});
  }
  // Returns "prompt|answer" of every example.
  std::vector<std::string> texts(const Prepared& prepared) const {
    std::vector<std::string> all;
    for (int64_t i = 0; i < prepared.data->size(); ++i) {
      const Example e = prepared.data->example(i);
      const auto first = std::find(e.supervised.begin(), e.supervised.end(), 1) - e.supervised.begin();
      const auto prompt = std::span(e.ids).first(static_cast<size_t>(first));
      all.push_back(tokenizer.decode(prompt) + "|" + tokenizer.decode(std::span(e.ids).subspan(prompt.size())));
    }
    return all;
  }
};

std::string row(const std::string& prompt, const std::string& chosen, const std::string& rejected) {
  return dump_json({{"prompt", prompt}, {"chosen", chosen}, {"rejected", rejected}}) + "\n";
}

// Returns rows whose sides differ in length, so that order and packing matter.
std::string many_rows(int64_t count) {
  std::string rows;
  for (int64_t i = 0; i < count; ++i)
    rows += row("question " + std::to_string(i), std::string(static_cast<size_t>(1 + i % 7), 'a'),
                std::string(static_cast<size_t>(2 + i % 11), 'b'));
  return rows;
}

}  // namespace

TEST_CASE("a pair is one atom of two examples, chosen before rejected") {
  Pairs pairs;
  const Prepared prepared = pairs.prepare(row("the", " cat", " dog sat") + row("a", " b", " c"));
  CHECK(prepared.summary.examples == 2);
  CHECK(prepared.data->size() == 4);
  CHECK(prepared.data->atoms() == 2);
  CHECK(prepared.data->examples_of(1) == std::vector<int64_t>{2, 3});
  CHECK(prepared.data->atom_lengths()[0] == prepared.data->length(0) + prepared.data->length(1));
  CHECK(prepared.lengths == prepared.data->atom_lengths());
  CHECK(prepared.data->label(2) == "chosen");
  CHECK(prepared.data->label(3) == "rejected");
  const Batch batch = make_batch(*prepared.data, {1, 0});
  CHECK(batch.example_ids == std::vector<int64_t>{2, 3, 0, 1});
  CHECK(prepared.summary.pairs.longest == std::max(prepared.lengths[0], prepared.lengths[1]));
  CHECK(prepared.summary.pairs.rejected_longer == 1);
  CHECK(prepared.summary.pairs.chosen_longer == 0);
}

TEST_CASE("a preference whose prompt is a text is counted once, whatever its answers") {
  Pairs pairs;
  const Json turns = Json::array({{{"role", "user"}, {"content", "the"}}});
  const auto answer = [](const char* text) { return Json::array({{{"role", "assistant"}, {"content", text}}}); };
  const std::string chat = dump_json({{"prompt", turns}, {"chosen", answer("cat")}, {"rejected", answer("dog")}}) + "\n";
  CHECK(pairs.prepare(row("the", " cat", " dog") + chat).summary.cuts.bare_prompts == 1);
  pairs.job.objective.become(ObjectiveType::kto);
  CHECK(pairs.prepare(row("the", " cat", " dog") + chat).summary.cuts.bare_prompts == 1);
}

TEST_CASE("answers are examples of their own where nothing compares them") {
  Pairs pairs;
  pairs.job.objective.become(ObjectiveType::sft);
  const Prepared prepared = pairs.prepare(row("the", " cat", " dog"));
  CHECK(prepared.summary.examples == 2);
  CHECK(prepared.data->atoms() == 2);
  CHECK(prepared.summary.pairs.longest == 0);
}

TEST_CASE("no order and no packing tears a pair apart") {
  Pairs pairs;
  const Prepared prepared = pairs.prepare(many_rows(60));
  Job job = pairs.job;
  job.train.global_batch_size = 8;
  job.train.micro_batch_size = 3;
  for (const bool packing : {true, false}) {
    job.data.packing = packing;
    job.train.micro_batch_tokens = 64;
    std::vector<int64_t> seen;
    for (const auto& step : epoch_steps(prepared.data->atom_lengths(), job, 0))
      for (const auto& atoms : micro_batches(step, prepared.data->atom_lengths(), job)) {
        const Batch batch = make_batch(*prepared.data, atoms);
        REQUIRE(batch.sequences() == 2 * static_cast<int64_t>(atoms.size()));
        for (int64_t s = 0; s < batch.sequences(); ++s)
          CHECK(prepared.data->label(batch.example_ids[static_cast<size_t>(s)]) == (s % 2 == 0 ? "chosen" : "rejected"));
        seen.insert(seen.end(), atoms.begin(), atoms.end());
      }
    std::sort(seen.begin(), seen.end());
    CHECK(seen.size() == 60);
    CHECK(std::unique(seen.begin(), seen.end()) == seen.end());
  }
}

// Answers are cut like TRL's DPOTrainer does (truncation_mode keep_start).
TEST_CASE("a long answer loses its end, and the prompt of both stays") {
  Pairs pairs;
  const std::string prompt = "one two three four";
  const Prepared whole = pairs.prepare(row(prompt, " cat", " dog dog dog dog dog dog"));
  const auto length = [](const Prepared& p, int64_t i) { return p.data->length(i); };
  const int64_t longer = length(whole, 1);
  pairs.job.data.max_length = longer - 3;
  const Prepared cut = pairs.prepare(row(prompt, " cat", " dog dog dog dog dog dog"));
  CHECK(length(cut, 0) == length(whole, 0));
  CHECK(length(cut, 1) == longer - 3);
  CHECK(cut.data->supervised(1) == whole.data->supervised(1) - 3);
  CHECK(cut.summary.cuts.prompts == 0);
  CHECK(cut.summary.cuts.completions == 1);
  CHECK(pairs.texts(cut)[0] == pairs.texts(whole)[0]);
  const std::string kept = pairs.texts(cut)[1];
  CHECK(kept.substr(0, kept.find('|')) == prompt);
  pairs.job.data.max_length = 3;  // the prompt alone is longer
  CHECK(pairs.prepare(row(prompt, " cat", " dog") + row("a", " b", " c")).summary.dropped == 1);
}

TEST_CASE("with truncation_side left a prompt loses its beginning alike on both sides, and an answer its end only beyond that") {
  Pairs pairs;
  pairs.job.data.truncation_side = TruncationSide::left;
  const std::string prompt = "one two three four five six seven eight";
  const Prepared whole = pairs.prepare(row(prompt, " cat", " dog dog dog dog"));
  const auto length = [](const Prepared& p, int64_t i) { return p.data->length(i); };
  const int64_t longer = length(whole, 1);
  pairs.job.data.max_length = longer - 2;
  const Prepared cut = pairs.prepare(row(prompt, " cat", " dog dog dog dog"));
  CHECK(length(cut, 1) == longer - 2);
  CHECK(length(cut, 0) == length(whole, 0) - 2);
  CHECK(cut.summary.cuts.prompts == 1);
  CHECK(cut.summary.cuts.completions == 0);
  CHECK(cut.summary.truncated == 1);
  CHECK(cut.data->supervised(0) == whole.data->supervised(0));
  CHECK(cut.data->supervised(1) == whole.data->supervised(1));
  const auto texts = pairs.texts(cut);
  CHECK(texts[0].substr(0, texts[0].find('|')) == texts[1].substr(0, texts[1].find('|')));
  pairs.job.data.max_length = 4;  // the prompt's last token and three of the answers
  const Prepared least = pairs.prepare(row(prompt, " cat", " dog dog dog dog"));
  CHECK(length(least, 1) == 4);
  CHECK(least.data->supervised(1) == 3);
  CHECK(least.summary.cuts.completions == 1);
  CHECK(least.summary.pairs.one_side_cut == 1);
}

TEST_CASE("pairs of equal answers are dropped, counted and named") {
  Pairs pairs;
  pairs.job.data.max_completion_length = 2;
  const Prepared prepared = pairs.prepare(row("the", " cat cat cat", " cat cat dog") + row("a", " b", " c"));
  CHECK(prepared.summary.examples == 1);
  CHECK(prepared.summary.dropped == 1);
  CHECK(prepared.summary.pairs.equal == 1);
  const std::string lost = read_file(prepared.summary.lost_rows_path, 1 << 16, ErrorKind::data);
  CHECK_THAT(lost, Catch::Contains("chosen and rejected are the same tokens after cutting"));
}

TEST_CASE("overlong: drop leaves out the pair, error names its side") {
  Pairs pairs;
  pairs.job.data.max_length = 8;
  pairs.job.data.overlong = Overlong::drop;
  const std::string rows = row("the", " cat", " " + std::string(40, 'x')) + row("a", " b", " c");
  CHECK(pairs.prepare(rows).summary.examples == 1);
  CHECK(pairs.prepare(rows).summary.dropped == 1);
  pairs.job.data.overlong = Overlong::error;
  CHECK_THAT(error_of([&] { pairs.prepare(rows); }), Catch::Contains("rejected: ") && Catch::Contains("expected at most data.max_length 8"));
}

TEST_CASE("a conversation's answers are trained from where they differ") {
  Pairs pairs;
  const Prepared prepared = pairs.prepare(dump_json(
      {{"chosen", {{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", "good"}}}},
       {"rejected", {{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", "bad"}}}}}) + "\n");
  const auto texts = pairs.texts(prepared);
  REQUIRE(texts.size() == 2);
  CHECK_THAT(texts[0], Catch::EndsWith("<|im_start|>assistant\n|good<|im_end|>\n") || Catch::EndsWith("|good<|im_end|>"));
  CHECK(texts[0].substr(0, texts[0].find('|')) == texts[1].substr(0, texts[1].find('|')));
  CHECK(prepared.summary.pairs.prompts_differ == 0);
}

TEST_CASE("a cache of pairs is read again as pairs") {
  Pairs pairs;
  const Prepared made = pairs.prepare(many_rows(5));
  const DataSet again = DataSet::open(made.data->path());
  CHECK(again.atoms() == 5);
  CHECK(again.atom_lengths() == made.lengths);
  CHECK(data_summary_from_json(to_json(made.summary)).pairs.rejected_longer == made.summary.pairs.rejected_longer);
}

TEST_CASE("answers that are judged one by one are examples with their judgement, cut like pairs") {
  Pairs data;
  data.job.objective.become(ObjectiveType::kto);
  const auto judged = [](const std::string& prompt, const std::string& answer, bool good) {
    return dump_json({{"prompt", prompt}, {"completion", answer}, {"label", good}}) + "\n";
  };
  const Prepared prepared = data.prepare(judged("question one", " yes", true) + judged("question two", " no", false) + judged("question six", " so", true));
  REQUIRE(prepared.data->size() == 3);
  CHECK(prepared.data->atoms() == 3);
  CHECK(prepared.summary.pairs.desirable == 2);
  CHECK(prepared.summary.pairs.undesirable == 1);
  CHECK(prepared.data->judgement(0).desirable);
  CHECK_FALSE(prepared.data->judgement(1).desirable);
  const Batch batch = make_batch(*prepared.data, {1, 2});
  REQUIRE(batch.judgements.size() == 2);
  CHECK_FALSE(batch.judgements[0].desirable);
  CHECK(batch.judgements[1].desirable);
  data.job.data.max_length = 12, data.job.data.truncation_side = TruncationSide::left;
  const Prepared cut = data.prepare(judged(std::string(200, 'x') + " end of the question", " yes", true));
  REQUIRE(cut.data->size() == 1);
  CHECK(cut.data->length(0) == 12);
  CHECK(cut.data->example(0).supervised.back() == 1);
  CHECK(cut.summary.cuts.prompts == 1);
}

TEST_CASE("the two answers of a preference row are a good and a bad one where each is judged by itself") {
  Pairs data;
  data.job.objective.become(ObjectiveType::kto);
  const Prepared prepared = data.prepare(many_rows(5));
  CHECK(prepared.data->atoms() == 10);
  CHECK(prepared.summary.pairs.desirable == 5);
  CHECK(prepared.summary.pairs.undesirable == 5);
}

TEST_CASE("answers meet the prompt behind theirs, of a step's examples, whatever their order, and never their own") {
  Pairs data;
  data.job.objective.become(ObjectiveType::kto);
  std::string rows;
  for (const char* prompt : {"alpha", "alpha", "beta", "gamma", "gamma"})
    rows += row(prompt, " yes of " + std::to_string(rows.size()), " no of " + std::to_string(rows.size()));
  const Prepared prepared = data.prepare(rows);
  const DataSet& set = *prepared.data;  // two examples a row: alpha 0 to 3, beta 4 and 5, gamma 6 to 9
  const std::vector<Mismatch> all = mismatches(set, {6, 0, 4, 2});
  CHECK(all == std::vector<Mismatch>{{0, 6}, {2, 6}, {4, 2}, {6, 4}});
  CHECK(mismatches(set, {2, 4, 6, 0}) == all);
  CHECK(mismatches(set, {0, 1, 2}).empty());
  const Example made = mismatched_example(set, {4, 2}, 4096), before = set.example(4), behind = set.example(2);
  const auto first = [](const Example& e) { return std::find(e.supervised.begin(), e.supervised.end(), 1) - e.supervised.begin(); };
  CHECK(std::equal(before.ids.begin(), before.ids.begin() + first(before), made.ids.begin()));
  CHECK(std::equal(behind.ids.begin() + first(behind), behind.ids.end(), made.ids.begin() + first(made)));
  CHECK(static_cast<int64_t>(made.ids.size()) == first(before) + set.length(2) - first(behind));
  const Example shortened = mismatched_example(set, {4, 2}, 3);
  CHECK(shortened.ids.size() == 3);
  CHECK(shortened.supervised.front() == 0);
}

TEST_CASE("a reward model's pairs have margins, and none whose answer has no end") {
  Pairs data;
  data.job.objective.become(ObjectiveType::reward);
  const Prepared prepared = data.prepare(
      dump_json({{"prompt", "q"}, {"chosen", " a"}, {"rejected", " b"}, {"margin", 0.75}}) + "\n" + row("q", " c", " d"));
  REQUIRE(prepared.data->size() == 4);
  CHECK(prepared.data->atoms() == 2);
  CHECK(prepared.data->judgement(0).margin == 0.75);
  CHECK(prepared.data->judgement(2).margin == 0);
  data.job.data.max_length = 16;
  const Prepared cut = data.prepare(row("q", std::string(300, 'y'), " d") + row("q", " c", " d"));
  CHECK(cut.data->atoms() == 1);
  CHECK(cut.summary.dropped == 1);
}

TEST_CASE("a margin that nothing reads is counted, and one that is no number is a fault") {
  Pairs data;
  const std::string rows = dump_json({{"prompt", "q"}, {"chosen", " a"}, {"rejected", " b"}, {"margin", 2}}) + "\n";
  CHECK(data.prepare(rows).summary.unread_keys.at("margin") == 1);
  CHECK_THROWS_WITH(data.prepare(dump_json({{"prompt", "q"}, {"chosen", " a"}, {"rejected", " b"}, {"margin", "much"}}) + "\n"),
                    Catch::Contains("margin is a text, expected a number"));
}
