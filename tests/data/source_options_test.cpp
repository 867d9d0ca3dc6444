// Folders, patterns, CSV, text files and a source's settings, through the whole preparation.
#include <zlib.h>

#include "core/lib/base/text.h"
#include "core/data/read/expand.h"
#include "core/data/prepare.h"
#include "tests/io/pack.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kGoldens = std::string(FORGE_SOURCE_DIR) + "/tests/data/goldens/";

struct Prepare {
  TemporaryFolder folder;
  Tokenizer tokenizer = open_tokenizer(kGoldens + "tokenizer");
  ChatTemplate chat =
      ChatTemplate::parse({read_file(kGoldens + "smollm2.jinja", 1 << 20, ErrorKind::data), "smollm2"}, {});
  Job job;

  Prepare() { job.objective.find<LikelihoodConfig>()->train_on = TrainOn::assistant; }
  DataSource& source(const std::string& name) {
    job.data.train.push_back({folder.path(name)});
    return job.data.train.back();
  }
  Prepared prepare(Split split = Split::train) {
    return prepare_dataset(job, split, tokenizer, &chat,
                           {.cache_folder = folder.path("cache"), .threads = 2});
  }
  // Returns the texts of the examples, joined by " | ".
  std::string texts(Split split = Split::train) {
    const Prepared prepared = prepare(split);
    std::vector<std::string> all;
    for (int64_t i = 0; i < prepared.data->size(); ++i) {
      std::string text = tokenizer.decode(prepared.data->example(i).ids);
      if (ends_with(text, "<|endoftext|>")) text.resize(text.size() - 13);
      all.push_back(text);
    }
    return join(all, " | ");
  }
  std::string problem(Split split = Split::train) {
    std::string text = error_of([&] { texts(split); });
    for (size_t at; (at = text.find(folder.path("") + "/")) != std::string::npos;)
      text.erase(at, folder.path("").size() + 1);
    return text;
  }
};

std::string row(int64_t n) { return "{\"prompt\": \"p\", \"completion\": \" " + std::to_string(n) + "\"}\n"; }

}  // namespace

TEST_CASE("a folder gives its data files by name, a pattern what it matches") {
  Prepare set;
  std::filesystem::create_directories(set.folder.path("d/sub/deep"));
  set.folder.write("d/b.jsonl", row(2));
  set.folder.write("d/a.jsonl.gz", gzip_of(row(1)));
  set.folder.write("d/README.md", "not data");
  set.folder.write("d/.hidden.jsonl", row(9));
  set.folder.write("d/sub/c.jsonl", row(3));
  set.folder.write("d/sub/deep/d.jsonl", row(4));
  auto files = [&](const std::string& path) {
    set.job.data.train = {{set.folder.path(path)}};
    return set.texts();
  };
  CHECK(files("d") == "p 1 | p 2");
  CHECK(files("d/*.jsonl") == "p 2");
  CHECK(files("d/*").empty() == false);
  CHECK(files("d/**/*.jsonl") == "p 2 | p 3 | p 4");
  CHECK(files("*/sub/?.jsonl") == "p 3");
  CHECK(files("d/[ab].jsonl*") == "p 1 | p 2");
  set.folder.write("d/[x].jsonl", row(5));
  CHECK(files("d/[x].jsonl") == "p 5");  // a file of that name is no pattern
}

TEST_CASE("a folder or pattern without data, or with several kinds, is an error") {
  Prepare set;
  std::filesystem::create_directories(set.folder.path("empty/below"));
  std::filesystem::create_directories(set.folder.path("mixed"));
  set.folder.write("mixed/train.jsonl", row(1));
  set.folder.write("mixed/LICENSE.txt", "MIT");
  auto problem = [&](const std::string& path) {
    set.job.data.train = {{set.folder.path(path)}};
    return set.problem();
  };
  CHECK(problem("none*.jsonl") == "none*.jsonl: no file matches the pattern");
  CHECK(problem("empty") ==
        "empty: the folder holds no data file, expected .jsonl, .json, .csv, .tsv, .txt or .parquet");
  CHECK(problem("mixed") ==
        "mixed: the folder holds files of several kinds (train.jsonl, LICENSE.txt), expected one kind");
}

TEST_CASE("skip and limit count over all files of a source") {
  Prepare set;
  std::filesystem::create_directories(set.folder.path("d"));
  set.folder.write("d/a.jsonl", row(1) + row(2));
  set.folder.write("d/b.jsonl", row(3) + row(4));
  DataSource& source = set.source("d");
  source.skip = 1;
  source.limit = 2;
  CHECK(set.texts() == "p 2 | p 3");
  set.source("d").limit = 1;
  CHECK(set.texts() == "p 2 | p 3 | p 1");
}

TEST_CASE("CSV rows have texts, empty cells are absent, and faults stand at their cell") {
  Prepare set;
  set.folder.write("a.csv", "id,prompt,completion\n1,p,\" 1\"\n2,\"a\nb\",\" 2, or \"\"3\"\"\"\n");
  set.source("a.csv");
  CHECK(set.texts() == "p 1 | a\nb 2, or \"3\"");
  set.folder.write("a.csv", "id,prompt,completion\n1,p, x\n2,\"a\nb\",\n3,p\n4,p,\"q\"z\n5,p,\xFF\n");
  CHECK(set.problem() ==
        "a.csv:4:4: completion is null, expected a text\n"
        "a.csv:5:1: 2 cells, expected 3 as in the header\n"
        "a.csv:6:8: text after a closing quote, expected the end of the cell\n"
        "a.csv:7:5: not valid UTF-8\n"
        "4 of 5 rows cannot be used");
  set.folder.write("a.csv",
                   "messages\n\"[{\"\"role\"\": \"\"user\"\", \"\"content\"\": \"\"q\"\"}, {\"\"role\"\": "
                   "\"\"assistant\"\", \"\"content\"\": \"\"a\"\"}]\"\n");
  CHECK_THAT(set.texts(), Catch::Contains("user\nq<|im_end|>"));
  set.folder.write("a.csv", "messages\n\"[{\"\n");
  CHECK(set.problem() == "a.csv:2:1: messages starts like JSON but is not valid JSON, expected a list");
}

TEST_CASE("a text file is a document, its paragraphs or its lines") {
  Prepare set;
  set.folder.write("a.txt", "one\ntwo\r\n\n \nthree\n");
  DataSource& source = set.source("a.txt");
  CHECK(set.texts() == "one\ntwo\r\n\n \nthree\n");
  source.sample_by = SampleBy::paragraph;
  CHECK(set.texts() == "one\ntwo | three");
  source.sample_by = SampleBy::line;
  CHECK(set.texts() == "one | two | three");
  set.folder.write("a.txt", "one\ntw\xFFo\n");
  CHECK(set.problem() == "a.txt:2:3: not valid UTF-8");
  set.folder.write("b.jsonl", row(1));
  source.path = set.folder.path("b.jsonl");
  CHECK(set.problem() == "b.jsonl: has rows of its own; sample_by is for text files");
}

TEST_CASE("columns name where fields stand, by key or dotted path") {
  Prepare set;
  set.folder.write("a.jsonl",
                   "{\"q\": \"p\", \"answer\": {\"texts\": [\" 1\", \" 2\"]}, \"a.b\": 1}\n"
                   "{\"q\": \"p\", \"answer\": {\"texts\": [\" 1\"]}}\n{\"q\": 7, \"answer\": 3}\n");
  DataSource& source = set.source("a.jsonl");
  source.columns = {{"prompt", "q"}, {"completion", "answer.texts.1"}};
  set.job.data.on_bad_row = BadRow::skip;
  CHECK(set.texts() == "p 2");
  set.job.data.on_bad_row = BadRow::error;
  CHECK(set.problem() ==
        "a.jsonl:2:32: completion is missing: columns names answer.texts.1 for it, which the row does not have\n"
        "a.jsonl:3:7: prompt is the number 7, expected a text\n"
        "a.jsonl:3:20: completion is missing: columns names answer.texts.1 for it, which the row does not have\n"
        "2 of 3 rows cannot be used");
}

TEST_CASE("roles and keys of turns are mapped") {
  Prepare set;
  set.folder.write(
      "a.jsonl",
      "{\"dialog\": [{\"who\": \"Kunde\", \"says\": \"q\"}, {\"who\": \"Agent\", \"says\": \"a\"}]}\n");
  DataSource& source = set.source("a.jsonl");
  source.columns = {{"messages", "dialog"}, {"role", "who"}, {"content", "says"}};
  source.roles = {{"Kunde", "user"}, {"Agent", "assistant"}};
  CHECK_THAT(set.texts(), Catch::Contains("user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>"));
  source.roles.erase("Agent");
  CHECK_THAT(set.problem(), Catch::StartsWith("a.jsonl:1:52: unknown role \"Agent\""));
}

TEST_CASE("rows become pairs by a user's own templates") {
  Prepare set;
  set.folder.write("a.jsonl",
                   "{\"q\": \"why\", \"n\": 3, \"a\": {\"t\": \"so\"}}\n{\"q\": null, \"a\": {\"t\": []}}\n");
  DataSource& source = set.source("a.jsonl");
  source.prompt = "Q{{{n}}}: {q}\nA:";
  source.completion = " {a.t}";
  source.limit = 1;
  CHECK(set.texts() == "Q{3}: why\nA: so");
  source.limit.reset();
  CHECK(set.problem() ==
        "a.jsonl:2:1: n is missing, expected a text for {n}\n"
        "a.jsonl:2:7: q is null, expected a text for {q}\n"
        "a.jsonl:2:24: a.t is a list, expected a text for {a.t}\n"
        "1 of 2 rows cannot be used");
}

TEST_CASE("a weight repeats and leaves out rows by their content and the seed") {
  auto counted = [](double weight, int64_t seed, int64_t first, int64_t last) {
    Prepare set;
    std::string rows;
    for (int64_t i = first; i < last; ++i) rows += row(i);
    set.folder.write("a.jsonl", rows);
    set.source("a.jsonl").weight = weight;
    set.job.seed = seed;
    const Prepared prepared = set.prepare();
    CHECK(prepared.summary.rows + prepared.summary.unsampled == last - first);
    std::map<std::string, int64_t> counts;
    for (int64_t i = 0; i < prepared.data->size(); ++i)
      ++counts[set.tokenizer.decode(prepared.data->example(i).ids)];
    return counts;
  };
  const auto twice = counted(2, 1, 0, 100);
  CHECK(twice.size() == 100);
  for (const auto& [text, count] : twice) CHECK(count == 2);
  const auto quarter = counted(0.25, 1, 0, 1000);
  CHECK((quarter.size() > 200 && quarter.size() < 300));
  CHECK(counted(0.25, 1, 0, 1000) == quarter);
  CHECK(counted(0.25, 2, 0, 1000) != quarter);
  // Adding a source changes nothing for the others.
  const auto more = counted(0.25, 1, 0, 2000);
  for (const auto& [text, count] : quarter) CHECK(more.count(text) == 1);
  const auto both = counted(1.5, 1, 0, 1000);
  int64_t total = 0;
  for (const auto& [text, count] : both) total += count;
  CHECK((both.size() == 1000 && total > 1400 && total < 1600));
}

TEST_CASE("rows of eval are never weighted, and none is in both") {
  Prepare set;
  std::string rows;
  for (int64_t i = 0; i < 300; ++i)
    rows += "{\"id\": " + std::to_string(i) + ", \"prompt\": \"p\", \"completion\": \" " +
            std::to_string(i % 150) + "\"}\n";
  set.folder.write("a.jsonl", rows);
  set.source("a.jsonl").weight = 3;
  set.job.data.eval_fraction = 0.3;
  const std::vector<std::string> train = split(set.texts(Split::train), '|'),
                                 eval = split(set.texts(Split::eval), '|');
  CHECK(train.size() + 3 * eval.size() == 900);
  CHECK(eval.size() % 2 == 0);  // a row and its duplicate under another id
  for (const std::string& text : eval)
    CHECK(std::find_if(train.begin(), train.end(), [&](auto& other) { return trim(other) == trim(text); }) ==
          train.end());
}

TEST_CASE("answers to judge are shown and not trained on") {
  Prepare set;
  set.folder.write("a.jsonl", "{\"prompt\": \"p\", \"chosen\": \" a\", \"rejected\": \" b\"}\n");
  set.source("a.jsonl");
  CHECK(set.texts() == "p a | p b");
  const auto refusal = [&](ObjectiveType type) {
    return error_of([&] { require_trainable(set.prepare().summary, type, "data.train"); });
  };
  CHECK(refusal(ObjectiveType::sft) == "data.train: preference rows, which sft does not train on");
  CHECK(refusal(ObjectiveType::dpo) == "no error");
  set.folder.write("a.jsonl", "{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}]}\n");
  CHECK_THAT(set.texts(), Catch::EndsWith("user\nq<|im_end|>\n<|im_start|>assistant\n"));
  CHECK(refusal(ObjectiveType::sft) == "data.train: prompt rows, which sft does not train on");
  CHECK(refusal(ObjectiveType::dpo) == "data.train: prompt rows, which do not hold two answers to compare, as dpo requires");
  CHECK(set.prepare().summary.supervised_tokens == 0);
  set.folder.write("a.jsonl", "{\"prompt\": \"p\", \"completion\": \" a\", \"label\": true}\n");
  CHECK_THAT(refusal(ObjectiveType::sft), Catch::Equals("data.train: kto rows, which sft does not train on"));
  CHECK(refusal(ObjectiveType::kto) == "no error");
}

TEST_CASE("a file whose name has a line break is refused") {
  Prepare set;
  set.folder.write("a\nb.jsonl", "{\"text\": \"x\"}\n");
  set.source("*.jsonl");
  CHECK(set.problem() == "a…: a line break in the file's name, expected none");
}

// This program does not find the component even if it is built.
TEST_CASE("Parquet is told from what is not, and the way out is named") {
  Prepare set;
  set.folder.write("a.parquet", "PAR1 and more PAR1");
  set.source("a.parquet");
  CHECK(set.problem() == "a.parquet: Parquet is read by an optional component, which is not installed");
  set.folder.write("a.parquet", "a,b\n1,2\n");
  CHECK(set.problem() == "a.parquet: is not Parquet: it does not begin with PAR1");
}
