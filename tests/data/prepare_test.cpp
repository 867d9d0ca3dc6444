#include "core/data/prepare.h"

#include <filesystem>
#include <map>
#include <set>

#include "core/data/read/sources.h"
#include "core/data/show.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kGoldens = std::string(FORGE_SOURCE_DIR) + "/tests/data/goldens/";

struct Fixture {
  TemporaryFolder folder;
  Tokenizer tokenizer = open_tokenizer(kGoldens + "tokenizer");
  ChatTemplate chat =
      ChatTemplate::parse({read_file(kGoldens + "smollm2.jinja", 1 << 20, ErrorKind::data), "smollm2"}, {});
  Job job;

  Fixture() { job.data.max_length = 4096; }
  void source(const std::string& name, const std::string& content, RowFormat format = RowFormat::automatic) {
    job.data.train.push_back({folder.write(name, content), format, {}});
  }
  Prepared prepare(Split split = Split::train, int64_t threads = 2) {
    return prepare_dataset(job, split, tokenizer, &chat,
                           {.cache_folder = folder.path("cache"), .threads = threads});
  }
  // Returns the message of the error without the folder's name.
  std::string problem(Split split = Split::train) {
    std::string text = error_of([&] { prepare(split); });
    for (size_t at; (at = text.find(folder.path("") + "/")) != std::string::npos;)
      text.erase(at, folder.path("").size() + 1);
    return text;
  }
  size_t files_in_cache() const {
    if (!std::filesystem::exists(folder.path("cache"))) return 0;
    const std::filesystem::directory_iterator files(folder.path("cache"));
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }
};

std::string chat_row(const std::string& question, const std::string& answer) {
  return dump_json(
             {{"messages",
               {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}}) +
         "\n";
}

std::string many_rows(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += chat_row("q" + std::to_string(i), std::string(static_cast<size_t>(i % 57), 'a') + " the cat");
  return text;
}

}  // namespace

TEST_CASE("a row that is too long is a bad row like others") {
  Fixture fixture;
  const std::string huge = chat_row("q", std::string(static_cast<size_t>(2 * kMaxRowBytes), 'a'));
  fixture.source("a.jsonl", many_rows(3) + huge + many_rows(2));
  CHECK_THAT(fixture.problem(),
             Catch::StartsWith("a.jsonl:4:1: a row of 32.0 MiB, expected at most 16.0 MiB"));
  fixture.job.data.on_bad_row = BadRow::skip;
  const Prepared prepared = fixture.prepare();
  CHECK(prepared.summary.skipped == 1);
  CHECK(prepared.summary.examples == 5);
}

TEST_CASE("a column that no row has is named, with the field that it was meant for") {
  Fixture fixture;
  fixture.source("a.csv", "question,answer\none,two\n");
  fixture.job.data.train[0].columns = {{"instruction", "frage"}, {"output", "answer"}};
  CHECK_THAT(fixture.problem(), Catch::Contains("a.csv: columns names frage for instruction, which the first row does not have"));
  fixture.job.data.train[0].format = RowFormat::alpaca;
  CHECK_THAT(fixture.problem(), Catch::Contains("a.csv:2:1: instruction is missing: columns names frage for it, which the row does not have"));
}

TEST_CASE("a column that no row has never changes the format that rows are read in") {
  Fixture fixture;
  fixture.source("a.jsonl", R"({"question": "one", "answer": "two"})" "\n" R"({"question": "three", "answer": "four"})" "\n");
  const std::map<std::string, std::string> wrong[] = {{{"prompt", "question"}, {"completion", "answers"}},
                                                      {{"prompt", "frage"}, {"completion", "answer"}},
                                                      {{"text", "texts"}, {"completion", "answer"}}};
  const char* named[] = {"answers for completion", "frage for prompt", "texts for text"};
  for (int i = 0; i < 3; ++i) {
    fixture.job.data.train[0].columns = wrong[i];
    CHECK_THAT(fixture.problem(), Catch::Contains(std::string("a.jsonl: columns names ") + named[i] + ", which none of the first 2 rows has"));
  }
  fixture.job.data.train[0].columns = wrong[0];
  CHECK_THAT(fixture.problem(), Catch::Contains("did you mean \"answer\"?"));
}

TEST_CASE("columns that the job names are counted, so that one that no row has can be told") {
  Fixture fixture;
  fixture.source("a.jsonl", R"({"q": "one", "a": "two"})" "\n" R"({"q": "three", "a": "four", "sys": "Be kind."})" "\n");
  fixture.job.data.train[0].columns = {{"instruction", "q"}, {"output", "a"}, {"system", "sys"}, {"input", "context"}};
  const Prepared prepared = fixture.prepare();
  CHECK(prepared.summary.columns == std::map<std::string, int64_t>{{"q for instruction", 2}, {"a for output", 2}, {"sys for system", 1}, {"context for input", 0}});
}

TEST_CASE("several sources become one data set in order, with where each example came from") {
  Fixture fixture;
  fixture.source("a.jsonl", chat_row("1", "one") + "\n" + chat_row("2", "two"));
  fixture.source("b.json", "[\n " + chat_row("3", "three") + "]");
  fixture.source("c.txt", "the whole file\n\nis one document");
  fixture.source("d.jsonl", "{\"ids\": [5, 6], \"mask\": [0, 1], \"text\": \"\"}");
  const Prepared prepared = fixture.prepare();
  REQUIRE(prepared.data);
  const DataSet& data = *prepared.data;
  REQUIRE(data.size() == 5);
  CHECK(data.source_path(0) == fixture.job.data.train[0].path);
  CHECK(data.source_line(0) == 1);
  CHECK(data.source_line(1) == 3);
  CHECK(data.source_path(2) == fixture.job.data.train[1].path);
  CHECK(data.source_line(2) == 2);
  CHECK(data.example(4).ids == std::vector<int32_t>{5, 6});
  CHECK_THAT(fixture.tokenizer.decode(data.example(2).ids),
             Catch::Contains("user\n3<|im_end|>\n<|im_start|>assistant\nthree"));
  CHECK(fixture.tokenizer.decode(data.example(3).ids) == "the whole file\n\nis one document<|endoftext|>");
  CHECK(prepared.summary.format ==
        "messages: 2 of the first 2 rows have messages; text: a text file; tokens: 1 of the first 1 row has "
        "token ids");
  CHECK(prepared.summary.rows == 5);
  CHECK(prepared.summary.examples == 5);
  CHECK(prepared.summary.supervised_tokens == data.total_supervised_tokens());
  CHECK(prepared.lengths == data.lengths());
  CHECK(prepared.summary.lost_rows_path.empty());
}

TEST_CASE("a second preparation reads the cache, wherever the same data lies") {
  Fixture fixture;
  fixture.source("a.jsonl", many_rows(50));
  const Prepared first = fixture.prepare();
  CHECK_FALSE(first.from_cache);
  const Prepared second = fixture.prepare();
  CHECK(second.from_cache);
  CHECK(to_json(second.summary) == to_json(first.summary));
  CHECK(second.data->content_hash() == first.data->content_hash());
  CHECK(fixture.files_in_cache() == 1);

  std::filesystem::rename(fixture.job.data.train[0].path, fixture.folder.path("moved.jsonl"));
  fixture.job.data.train[0].path = fixture.folder.path("moved.jsonl");
  const Prepared moved = fixture.prepare();
  CHECK(moved.from_cache);
  CHECK(moved.data->source_path(0) == fixture.folder.path("moved.jsonl"));
  CHECK(DataSet::open(first.summary.cache_path).example(49).ids == first.data->example(49).ids);
}

TEST_CASE("whatever changes examples changes the cache's name, and nothing else does") {
  Fixture fixture;
  fixture.source("a.jsonl", many_rows(20));
  const std::string name = fixture.prepare().summary.cache_path;
  auto changed = [&](auto change) {
    const Job before = fixture.job;
    change(fixture.job);
    const std::string path = fixture.prepare().summary.cache_path;
    fixture.job = before;
    return path != name;
  };
  CHECK(changed([](Job& job) { job.data.max_length = 4000; }));
  CHECK(changed([](Job& job) { job.objective.find<LikelihoodConfig>()->train_on = TrainOn::all; }));
  CHECK(changed([](Job& job) { job.objective.become(ObjectiveType::pretrain); }));
  CHECK(changed([](Job& job) { job.data.overlong = Overlong::drop; }));
  CHECK(changed([](Job& job) { job.data.truncation_side = TruncationSide::left; }));
  CHECK(changed([](Job& job) { job.data.max_prompt_length = 7; }));
  CHECK(changed([](Job& job) { job.data.max_completion_length = 7; }));
  CHECK(changed([](Job& job) { job.data.train[0].limit = 3; }));
  CHECK(changed([](Job& job) { job.data.eval_fraction = 0.3; }));
  CHECK(changed([](Job& job) { job.data.on_bad_row = BadRow::skip; }));
  CHECK(changed([](Job& job) { job.data.train.push_back(job.data.train[0]); }));
  CHECK_FALSE(changed([](Job& job) { job.seed = 7; }));
  CHECK_FALSE(changed([](Job& job) { job.data.packing = false; }));
  CHECK_FALSE(changed([](Job& job) { job.data.shuffle = false; }));
  CHECK_FALSE(changed([](Job& job) { job.train.epochs = 9; }));
  fixture.chat =
      ChatTemplate::parse({read_file(kGoldens + "marked.jinja", 1 << 20, ErrorKind::data), "marked"}, {});
  CHECK(changed([](Job&) {}));
  fixture.folder.write("a.jsonl", many_rows(21));
  CHECK(changed([](Job&) {}));
}

TEST_CASE("a damaged cache is made anew") {
  Fixture fixture;
  fixture.source("a.jsonl", many_rows(50));
  const Prepared first = fixture.prepare();
  std::filesystem::resize_file(first.summary.cache_path, 1000);
  const Prepared again = fixture.prepare();
  CHECK_FALSE(again.from_cache);
  CHECK(again.data->content_hash() == first.data->content_hash());
  CHECK(fixture.prepare().from_cache);
}

TEST_CASE("the number of threads changes nothing") {
  std::set<std::string> hashes;
  for (int64_t threads : {1, 2, 7}) {
    Fixture fixture;
    fixture.source("a.jsonl", many_rows(30'000));  // several chunks
    const Prepared prepared = fixture.prepare(Split::train, threads);
    CHECK(prepared.summary.examples == 30'000);
    for (int64_t i : {0, 1, 4095, 4096, 29'999}) CHECK(prepared.data->source_line(i) == i + 1);
    hashes.insert(prepared.data->content_hash());
  }
  CHECK(hashes.size() == 1);
}

TEST_CASE("all bad rows are named at once, with file, line and column") {
  Fixture fixture;
  fixture.source("a.jsonl", chat_row("1", "one") +
                                "{\"messages\": [{\"role\": \"usr\", \"content\": \"x\"}]}\n"
                                "{\"messages\": \n" +
                                chat_row("2", "two") +
                                "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n"
                                "{\"text\": \"another format\"}\n"
                                "{\"messages\": [], \"messages\": []}\n"
                                "{\"messages\": [{\"role\": \"user\", \"content\": \"\xFF\"}]}\n"
                                "[]\n");
  CHECK(fixture.problem() ==
        "a.jsonl:2:24: unknown role \"usr\", expected system, developer, user, assistant, tool, function "
        "(did you mean "
        "\"user\"?)\n"
        "a.jsonl:3:14: syntax error while parsing value - unexpected end of input; expected '[', '{', or a "
        "literal\n"
        "a.jsonl:5:1: no token of the row is trained\n"
        "a.jsonl:6:1: messages is missing, expected a list of messages\n"
        "a.jsonl:7:27: the key \"messages\" appears twice in one object\n"
        "a.jsonl:8:44: not valid UTF-8\n"
        "a.jsonl:9:1: the row is a list, expected an object\n"
        "7 of 9 rows cannot be used");
  CHECK(fixture.files_in_cache() == 0);

  fixture.job.data.on_bad_row = BadRow::skip;
  for (bool from_cache : {false, true}) {
    const Prepared prepared = fixture.prepare();
    CHECK(prepared.from_cache == from_cache);
    CHECK(prepared.summary.rows == 9);
    CHECK(prepared.summary.skipped == 6);
    CHECK(prepared.summary.untrained == 1);
    CHECK(prepared.summary.examples == 2);
    std::string lines;
    auto list = open_source(prepared.summary.lost_rows_path);
    for (SourceRow row; list->next(row);)
      lines += std::to_string(parse_row(row, "list")["line"].get<int64_t>()) + " ";
    CHECK(lines == "2 3 5 6 7 8 9 ");
  }
}

TEST_CASE("beyond twenty bad rows the others are counted") {
  Fixture fixture;
  std::string rows = chat_row("1", "one");
  for (int i = 0; i < 10'000; ++i) rows += "{\"messages\": 1}\n";
  fixture.source("a.jsonl", rows);
  const std::string problem = fixture.problem();
  CHECK_THAT(
      problem,
      Catch::StartsWith("a.jsonl:2:14: messages is the number 1, expected a list of messages\na.jsonl:3:14"));
  CHECK_THAT(problem,
             Catch::EndsWith("\na.jsonl:21:14: messages is the number 1, expected a list of messages\n"
                             "… and 9,980 more\n10,000 of 10,001 rows cannot be used"));
}

TEST_CASE("rows whose conversation begins with an answer are one fault where the template asks for a question") {
  Fixture fixture;
  const std::string greeting = R"({"messages": [{"role": "assistant", "content": "hello"}]})";
  fixture.source("a.jsonl", chat_row("1", "one") + greeting + "\n" + greeting + "\n");
  CHECK(fixture.problem() ==
        "a.jsonl:2:1: the conversation begins with an assistant turn, which this template cannot render: leave that "
        "turn out, or put a user's turn before it (2 rows)");
  // A fault of another kind keeps its own words.
  fixture.job.data.train.clear();
  fixture.source("b.jsonl", R"({"messages": [{"role": "assistant", "content": "one", "train": false}]})");
  CHECK_THAT(fixture.problem(), !Catch::Contains("begins with"));
}

TEST_CASE("a file that changes while it is read gives no cache under the name of its old content") {
  Fixture fixture;
  fixture.source("a.jsonl", many_rows(100));
  const std::string path = fixture.job.data.train[0].path;
  bool changed = false;
  const auto append = [&](const PrepareProgress&) {
    if (!changed) std::ofstream(path, std::ios::app) << chat_row("late", "row");
    changed = true;
  };
  const std::string error = error_of([&] {
    prepare_dataset(fixture.job, Split::train, fixture.tokenizer, &fixture.chat,
                    {.cache_folder = fixture.folder.path("cache"), .threads = 1, .progress = append});
  });
  CHECK(error == path + ": changed while it was read");
  CHECK(fixture.files_in_cache() == 0);
  CHECK(fixture.prepare().data->size() == 101);
}

TEST_CASE("beyond twenty faults of one row the others are counted") {
  Fixture fixture;
  std::string messages = "1";
  for (int i = 1; i < 10'000; ++i) messages += ",1";
  fixture.source("a.jsonl", "{\"messages\": [" + messages + "]}\n");
  CHECK_THAT(fixture.problem(),
             Catch::EndsWith("\na.jsonl:1:53: a message is the number 1, expected an object with role and "
                             "content\n… and 9,980 more\n1 of 1 rows cannot be used"));

  fixture.job.data.on_bad_row = BadRow::skip;
  fixture.source("b.jsonl", chat_row("1", "one"));
  auto list = open_source(fixture.prepare().summary.lost_rows_path);
  std::string last;
  for (SourceRow row; list->next(row);) last = parse_row(row, "list")["reason"];
  CHECK(last == "and 9,980 more in this row");
}

TEST_CASE("rows are accounted for under every way of cutting") {
  for (Overlong overlong : {Overlong::truncate, Overlong::drop, Overlong::split}) {
    Fixture fixture;
    std::string rows = many_rows(300);
    for (int i = 0; i < 5; ++i)
      rows += "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n{\"oops\": 1}\n";
    rows += chat_row(std::string(3000, 'q'), "cut away");
    fixture.source("a.jsonl", rows);
    fixture.job.data.on_bad_row = BadRow::skip;
    fixture.job.data.overlong = overlong;
    fixture.job.data.max_length = 60;
    const DataSummary summary = fixture.prepare().summary;
    CAPTURE(dump_json(to_json(summary)));
    CHECK(summary.rows == 311);
    CHECK(summary.skipped == 5);
    CHECK(summary.longest <= 60);
    std::map<Overlong, int64_t> cut{{Overlong::truncate, summary.truncated},
                                    {Overlong::drop, summary.dropped},
                                    {Overlong::split, summary.split}};
    CHECK(cut[overlong] > 10);
    if (overlong == Overlong::truncate)
      CHECK(summary.dropped == 1);  // the long question takes its answer along
    else
      CHECK(summary.truncated + summary.dropped + summary.split == cut[overlong]);
    if (overlong != Overlong::split)
      CHECK(summary.rows == summary.examples + summary.skipped + summary.untrained + summary.dropped);
    CHECK(summary.untrained == 5);
  }
}

TEST_CASE("the eval fraction is chosen by content: adding rows moves none, duplicates stay together") {
  auto questions = [](const Prepared& prepared, const Tokenizer& tokenizer) {
    std::multiset<std::string> all;
    for (int64_t i = 0; i < prepared.data->size(); ++i)
      all.insert(tokenizer.decode(prepared.data->example(i).ids));
    return all;
  };
  Fixture small, large;
  for (Fixture* fixture : {&small, &large}) fixture->job.data.eval_fraction = 0.2;
  small.source("a.jsonl", many_rows(1000));
  large.source("a.jsonl",
               chat_row("new", "first") + many_rows(1000) + chat_row("new", "last") + many_rows(1000));
  const auto eval = questions(small.prepare(Split::eval), small.tokenizer);
  const auto train = questions(small.prepare(Split::train), small.tokenizer);
  CHECK(eval.size() + train.size() == 1000);
  CHECK(eval.size() > 150);
  CHECK(eval.size() < 250);
  const auto large_eval = questions(large.prepare(Split::eval), large.tokenizer);
  const auto large_train = questions(large.prepare(Split::train), large.tokenizer);
  CHECK(large_eval.size() + large_train.size() == 2002);
  for (const std::string& text : eval) CHECK(large_eval.count(text) == 2);
  for (const std::string& text : train) CHECK(large_train.count(text) == 2);
  CHECK(has_eval_data(small.job));
  CHECK_FALSE(has_eval_data(Job{}));
}

TEST_CASE("the same rows as JSON and as JSON lines are split alike and have the same identity") {
  Fixture lines, array;
  const std::string rows = many_rows(200);
  std::string elements = "[ ";
  for (const std::string& row : split(rows, '\n'))
    if (!row.empty()) elements += (elements.size() > 2 ? "  ,\n   " : "") + row;
  lines.source("a.jsonl", rows);
  array.source("a.json", elements + "]");
  for (Fixture* fixture : {&lines, &array}) fixture->job.data.eval_fraction = 0.3;
  CHECK(lines.prepare(Split::eval).data->content_hash() == array.prepare(Split::eval).data->content_hash());
}

TEST_CASE("an estimate reads a part and scales; small data is prepared whole") {
  Fixture fixture;
  fixture.source("a.jsonl", many_rows(40'000));
  PrepareOptions options{
      .cache_folder = fixture.folder.path("cache"), .threads = 2, .estimate_bytes = 1'000'000};
  const Prepared estimate =
      prepare_dataset(fixture.job, Split::train, fixture.tokenizer, &fixture.chat, options);
  CHECK(estimate.summary.estimated);
  CHECK_FALSE(estimate.data);
  CHECK(estimate.summary.sampled_rows < 20'000);
  CHECK(estimate.summary.sampled_rows == static_cast<int64_t>(estimate.lengths.size()));
  CHECK_FALSE(std::filesystem::exists(fixture.folder.path("cache")));
  const Prepared whole = fixture.prepare();
  CHECK(estimate.summary.rows == Approx(40'000).epsilon(0.05));
  CHECK(estimate.summary.tokens == Approx(whole.summary.tokens).epsilon(0.05));
  CHECK(estimate.summary.supervised_tokens == Approx(whole.summary.supervised_tokens).epsilon(0.05));
  // The cache is used from here on.
  CHECK_FALSE(prepare_dataset(fixture.job, Split::train, fixture.tokenizer, &fixture.chat, options)
                  .summary.estimated);
  options.estimate_bytes = kEstimateBytes;
  fixture.job.data.max_length = 100;
  CHECK_FALSE(prepare_dataset(fixture.job, Split::train, fixture.tokenizer, &fixture.chat, options)
                  .summary.estimated);
}

TEST_CASE("progress tells of bytes and rows, and reaches the end") {
  Fixture fixture;
  fixture.source("a.jsonl", many_rows(30'000));
  std::vector<PrepareProgress> seen;
  PrepareOptions options{.cache_folder = fixture.folder.path("cache")};
  options.progress = [&](const PrepareProgress& progress) { seen.push_back(progress); };
  prepare_dataset(fixture.job, Split::train, fixture.tokenizer, &fixture.chat, options);
  REQUIRE(seen.size() > 2);
  CHECK(seen.back().bytes == seen.back().total_bytes);
  CHECK(seen.back().rows == 30'000);
  CHECK(seen[0].rows < seen[1].rows);
}

TEST_CASE("data sets that cannot be used say why") {
  Fixture fixture;
  fixture.source("a.jsonl", "\n\n");
  CHECK(fixture.problem() == "a.jsonl: holds no rows, expected at least one");
  fixture.job.data.train.clear();
  fixture.source("b.jsonl", chat_row("1", "one"));
  fixture.job.data.eval_fraction = 1e-9;
  CHECK(fixture.problem(Split::eval) ==
        "data.eval_fraction: 1e-09 chose no row of data.train, expected at least one");
  fixture.job.data.max_length = 4;
  fixture.job.data.overlong = Overlong::drop;
  CHECK(fixture.problem() ==
        "data.train: no example is left of 1 rows (0 with faults, 0 untrained, 1 too long), expected at "
        "least one");
  CHECK(error_of([&] {
          prepare_dataset(fixture.job, Split::train, fixture.tokenizer, nullptr,
                          {.cache_folder = fixture.folder.path("c")});
        }) == "data.train: rows of messages, but the model has no chat template");
  fixture.job.data.train[0].format = RowFormat::sharegpt;
  CHECK(fixture.problem() == "b.jsonl:1:1: conversations is missing, expected a list of turns");
  fixture.job.data.train.clear();
  fixture.source("c.txt", "text", RowFormat::messages);
  CHECK(fixture.problem() == "c.txt: a text file has format text, the job says messages");
}

TEST_CASE("the dump of a data set gives the same data set again") {
  Fixture fixture;
  fixture.source("a.jsonl", many_rows(20));
  const Prepared first = fixture.prepare();
  OutputFile out(fixture.folder.path("dump.jsonl"));
  dump_dataset(*first.data, fixture.tokenizer, out);
  out.sync_and_close();
  const Json line =
      parse_json(split(read_file(fixture.folder.path("dump.jsonl"), 1 << 20, ErrorKind::data), '\n')[3], "d",
                 ErrorKind::data);
  CHECK(line["line"] == 4);
  CHECK(line["source"] == fixture.job.data.train[0].path);
  CHECK_THAT(line["text"].get<std::string>(), Catch::Contains("user\nq3<|im_end|>"));
  fixture.job.data.train = {{fixture.folder.path("dump.jsonl"), RowFormat::automatic, {}}};
  CHECK(fixture.prepare().data->content_hash() == first.data->content_hash());
}

TEST_CASE("an example is shown with what is trained, and cannot drive the terminal") {
  Fixture fixture;
  fixture.source("a.jsonl", chat_row("\x1b[31mred\x07", "yes"));
  const DataSet data = *fixture.prepare().data;
  const std::string plain = show_example(data, 0, fixture.tokenizer, false);
  CHECK_THAT(plain,
             Catch::Contains("user\n\\x1b[31mred\\x07<|im_end|>\n<|im_start|>assistant\n⟦yes<|im_end|>\n⟧"));
  CHECK_THAT(plain,
             Catch::StartsWith(data.source_path(0) + ":1: " + std::to_string(data.length(0)) + " tokens, "));
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK_THAT(show_example(data, 0, fixture.tokenizer, true),
             Catch::Contains("\x1b[32myes<|im_end|>\n\x1b[0m"));
}
