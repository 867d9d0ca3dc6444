#include "core/data/read/sources.h"

#include <sys/stat.h>
#include <ctime>

#include "tests/test.h"

using namespace forge;

namespace {

// Returns "line:column text" of every row, joined by " | ".
std::string rows_of(const std::string& path) {
  auto source = open_source(path);
  std::string all;
  for (SourceRow row; source->next(row);)
    all += (all.empty() ? "" : " | ") + std::to_string(row.line) + ":" + std::to_string(row.column) + " " +
           row.text;
  return all;
}

}  // namespace

TEST_CASE("JSON lines come with their numbers, blank ones are skipped") {
  TemporaryFolder folder;
  CHECK(rows_of(folder.write("a.jsonl", "\xEF\xBB\xBF{\"a\":1}\r\n\n  \n{\"a\":2}\n3")) ==
        "1:1 {\"a\":1} | 4:1 {\"a\":2} | 5:1 3");
  CHECK(rows_of(folder.write("b.ndjson", "")) == "");
  // A row that is longer than the reader's buffer, and one that ends exactly on it.
  const std::string big(3'000'000, 'x'), edge((1 << 20) - 1, 'y');
  CHECK(rows_of(folder.write("c.jsonl", edge + "\n" + big + "\nz")) ==
        "1:1 " + edge + " | 2:1 " + big + " | 3:1 z");
}

TEST_CASE("a JSON file gives the elements of its array with their places") {
  TemporaryFolder folder;
  CHECK(rows_of(folder.write("a.json", "[]")) == "");
  CHECK(rows_of(folder.write("b.json", "[{\"a\": \"],}\\\"\"},\n  [1, [2]], \"é\", 5 ]\n")) ==
        "1:2 {\"a\": \"],}\\\"\"} | 2:3 [1, [2]] | 2:13 \"é\" | 2:18 5");
  CHECK(rows_of(folder.write("c.json", "{\"version\": {\"x\": 1}, \"data\": [1, 2], \"n\": 3}")) ==
        "1:32 1 | 1:35 2");
}

// Tokenising a row takes many times its size in memory, so one that is too long must not reach the
// tokenizer. The other rows of its file are unaffected.
TEST_CASE("a row that is too long is passed over without being held, and refused when it is parsed") {
  TemporaryFolder folder;
  const auto bytes = static_cast<size_t>(kMaxRowBytes);
  const std::string fits(bytes - 11, 'x'), huge(3 * bytes, 'y'), just(bytes - 10, 'z');
  const auto text_row = [](const std::string& text) { return "{\"text\":\"" + text + "\"}"; };
  const auto lengths = [](const std::string& path, const DataSource& source = {}) {
    auto rows = open_source(path, source);
    std::vector<int64_t> all;  // of the text, or minus the bytes of a row that is too long
    for (SourceRow row; rows->next(row);) {
      if (row.too_long > 0) CHECK(row.text.capacity() < 100);
      all.push_back(row.too_long > 0 ? -row.too_long : static_cast<int64_t>(row.text.size()));
      if (row.too_long > 0)
        CHECK_THAT(error_of([&] { parse_row(row, "f"); }),
                   Catch::Contains(" MiB, expected at most 16.0 MiB"));
    }
    return all;
  };
  const auto size = [](const std::string& text) { return static_cast<int64_t>(text.size()); };
  const std::vector<int64_t> expected{size(text_row(fits)), -size(text_row(huge)), -size(text_row(just)), 12};
  const std::string a = text_row(fits), b = text_row(huge), c = text_row(just), d = text_row("d");
  CHECK(lengths(folder.write("a.jsonl", a + "\n" + b + "\n" + c + "\n" + d + "\n")) == expected);
  CHECK(lengths(folder.write("a.json", "[" + a + ",\n" + b + "," + c + "," + d + "]")) == expected);
  CHECK(lengths(folder.write("b.json", d + a + b + c)) ==
        std::vector<int64_t>{expected[3], expected[0], expected[1], expected[2]});
  CHECK(lengths(folder.write("a.csv", "text\n" + huge + "\n\"a\n" + huge + "\n\"\n" + d.substr(8, 3) +
                                          "\n")) == std::vector<int64_t>{-size(huge), -size(huge) - 4, 3});
  DataSource lines, paragraphs;
  lines.sample_by = SampleBy::line;
  paragraphs.sample_by = SampleBy::paragraph;
  const std::string text = folder.write("a.txt", "a\n" + huge + "\nb\n\nc\n");
  CHECK(lengths(text, lines) == std::vector<int64_t>{1, -size(huge), 1, 1});
  CHECK(lengths(text, paragraphs) == std::vector<int64_t>{-size(huge) - 3, 1});
  CHECK(lengths(text) == std::vector<int64_t>{size(huge) + 8});  // a document may be longer
}

TEST_CASE("a table of very many columns takes time in proportion") {
  TemporaryFolder folder;
  constexpr int kColumns = 100'000;
  std::string names = "text", cells = "hello";
  for (int i = 0; i < kColumns; ++i) {
    names += ",c" + std::to_string(i);
    cells += "," + std::to_string(i);
  }
  const std::string path = folder.write("wide.csv", names + "\n" + cells + "\n");
  auto source = open_source(path);
  SourceRow row;
  REQUIRE(source->next(row));
  const std::clock_t begin = std::clock();
  const Json parsed = parse_row(row, path);
  CHECK(std::clock() - begin < 5 * CLOCKS_PER_SEC);  // looking every name up took a minute
  CHECK(parsed.size() == kColumns + 1);
  CHECK(parsed["c99999"] == "99999");
}

TEST_CASE("objects one behind the other are rows of a .json file too") {
  TemporaryFolder folder;
  CHECK(rows_of(folder.write("a.json", "{\"a\": 1}\n{\"a\": \"}{\\\"\"}\n")) ==
        "1:1 {\"a\": 1} | 2:1 {\"a\": \"}{\\\"\"}");
  CHECK(rows_of(folder.write("a.json", "{\n\"messages\": [1]}\n\n {\"b\":\n2}")) ==
        "1:1 {\n\"messages\": [1]} | 4:2 {\"b\":\n2}");
  CHECK(rows_of(folder.write("a.json", "{\"messages\": [{\"role\": 1}]}")) ==
        "1:1 {\"messages\": [{\"role\": 1}]}");
  CHECK(rows_of(folder.write("a.json", "{\"rows\": [{\"role\": 1}]}")) == "1:11 {\"role\": 1}");
  // Rows may lie under a name that rows have for their turns.
  CHECK(rows_of(folder.write("a.json", "{\"messages\": [{\"messages\": [1]}]}")) == "1:15 {\"messages\": [1]}");
  CHECK(rows_of(folder.write("a.json", "{\"conversations\": [{\"id\": 1, \"conversations\": []}, {}]}")) ==
        "1:20 {\"id\": 1, \"conversations\": []} | 1:52 {}");
  CHECK(rows_of(folder.write("a.json", "{\"conversations\": [[1], [2]]}")) == "1:20 [1] | 1:25 [2]");
}

TEST_CASE("a text file is one row") {
  TemporaryFolder folder;
  CHECK(rows_of(folder.write("a.txt", "one\n\ntwo\n")) == "1:1 one\n\ntwo\n");
  CHECK(rows_of(folder.write("a.md", "")) == "1:1 ");
}

TEST_CASE("a file that cannot be cut into rows is refused with the place") {
  TemporaryFolder folder;
  auto problem = [&](const std::string& name, const std::string& content) {
    const std::string path = folder.write(name, content);
    return error_of([&] { rows_of(path); }).substr(path.size());
  };
  CHECK(problem("a.json", "") == ":1:1: empty, expected a JSON array of rows");
  CHECK(problem("a.json", "7") ==
        ":1:1: found '7', expected [ (an array of rows) or { (an object that holds one)");
  CHECK(problem("a.json", "[1 2]") == ":1:4: found '2', expected a comma or ] after a row");
  CHECK(problem("a.json", "[1,]") == ":1:4: found ']', expected a value");
  CHECK(problem("a.json", "[1,\n2") == ":2:2: the file ends here, expected the rest of the value");
  CHECK(problem("a.json", "[\"abc") == ":1:6: the file ends here, expected the end of a text");
  CHECK(problem("a.json", "[1] x") == ":1:5: found 'x', expected the end of the file");
  CHECK(problem("a.json", "{\"a\": 1} {\"b\": 2} x") == ":1:19: found 'x', expected {, the next row");
  CHECK(problem("a.json", "{}") == ":1:2: the object holds no array, expected one array of rows");
  CHECK_THAT(problem("a.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
             Catch::Contains("is a Git LFS pointer"));
  CHECK(problem("a.json", "{\"a\": [], \"b\": [1]}") ==
        ":1:16: a second array in the object, \"b\" beside \"a\", expected one array of rows");
  try {
    rows_of(folder.write("b.json", "{\"columns\": [\"a\"], \"index\": [0], \"data\": [[1]]}"));
    FAIL("columns and data are no rows");
  } catch (const Error& error) {
    CHECK_THAT(error.hint(), Catch::Contains("orient=\"split\""));
  }
  try {
    rows_of(folder.write("b.json", "{\"instruction\": [\"a\"], \"output\": [\"b\"]}"));
    FAIL("columns are no rows");
  } catch (const Error& error) {
    CHECK_THAT(error.hint(), Catch::Contains("a dictionary of columns"));
  }
  // A file that is too long to look at as a row.
  const std::string long_text(size_t{1} << 20, 'x');
  try {
    rows_of(folder.write("b.json", "{\"data\": {\"about\": \"" + long_text + "\", \"train\": [{\"prompt\": \"p\"}]}}"));
    FAIL("rows that lie deeper are no rows of the file");
  } catch (const Error& error) {
    CHECK(error.hint() == "the rows lie under data.train: write that list alone to a file, as jq '.data.train' does");
  }
  CHECK(problem("a.json", "{\"a\" [1]}") == ":1:6: found '[', expected a colon");
  CHECK(error_of([] { parse_row({1, 1, "ab\nc\xFF", RowKind::text}, "f"); }) == "f:2:2: not valid UTF-8");
  CHECK(problem("a.xlsx", "a,b") ==
        ": unknown extension \".xlsx\", expected .jsonl, .ndjson, .json, .csv, .tsv, .txt, .md or .parquet");
  CHECK_THAT(problem("a.jsonl", "\x1f\x8b\x08 123"), Catch::StartsWith(":1:1: damaged gzip data"));
  CHECK(problem("a.jsonl", "\xff\xfe{") == ": is UTF-16, expected UTF-8");
  CHECK_THAT(error_of([&] { rows_of(folder.path("none.jsonl")); }),
             Catch::EndsWith("none.jsonl: no such file"));
  CHECK_THAT(error_of([&] { rows_of(folder.path()); }), Catch::Contains("is a folder, expected a file"));
  mkfifo(folder.path("pipe.jsonl").c_str(), 0600);
  CHECK_THAT(error_of([&] { rows_of(folder.path("pipe.jsonl")); }), Catch::Contains("is not a regular file"));
}

TEST_CASE("a deeply nested or endless row costs no more than its bytes") {
  TemporaryFolder folder;
  const std::string path = folder.write("a.json", std::string(2'000'000, '['));
  CHECK_THAT(error_of([&] { rows_of(path); }), Catch::Contains("the file ends here"));
}

TEST_CASE("the place of a value inside a row is found again") {
  const SourceRow row{3, 5,
                      "{\"é\": 1, \"messages\": [\n {\"role\": \"user\"}, {\"a\\\"b\": [true, \"x\"]}]}"};
  CHECK(place_of(row, "") == "3:5");
  CHECK(place_of(row, "/é") == "3:11");
  CHECK(place_of(row, "/messages") == "3:26");
  CHECK(place_of(row, "/messages/0/role") == "4:11");
  CHECK(place_of(row, "/messages/1/a\"b/1") == "4:36");
  CHECK(place_of(row, "/messages/1/missing") == "4:20");
  CHECK(place_of(row, "/messages/7") == "3:26");
}

TEST_CASE("a row is parsed at its place") {
  CHECK(parse_row({1, 1, "{\"a\": 1}"}, "f")["a"] == 1);
  CHECK_THAT(error_of([&] { parse_row({4, 9, "{\"a\": nul}"}, "f.json"); }), Catch::StartsWith("f.json:4:1"));
  CHECK(error_of([&] {
          parse_row({4, 9, "{\"a\": 1, \"a\": 2}"}, "f.json");
        }) == "f.json:4:20: the key \"a\" appears twice in one object");
}
