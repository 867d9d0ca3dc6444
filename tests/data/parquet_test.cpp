// Tests the component that reads Parquet. It is built if Arrow's libraries are available.
#include "core/lib/io/parquet.h"

#include <fstream>

#include "core/data/prepare.h"
#include "core/data/read/sources.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kGoldens = std::string(FORGE_SOURCE_DIR) + "/tests/data/goldens/";

std::string golden(const std::string& name) { return kGoldens + "parquet/" + name; }

std::vector<Json> rows_of(const std::string& path) {
  std::vector<Json> rows;
  auto source = open_source(path);
  for (SourceRow row; source->next(row);) rows.push_back(parse_row(row, path));
  return rows;
}

std::string problem_of(const std::string& path, const DataSource& source = {}) {
  std::string text = error_of([&] {
    auto rows = open_source(path, source);
    for (SourceRow row; rows->next(row);) parse_row(row, path);
  });
  return starts_with(text, path) ? text.substr(path.size()) : text;
}

}  // namespace

TEST_CASE("rows of Parquet are the values that pyarrow reads") {
  for (const char* name : {"types", "chat_none", "chat_snappy", "chat_gzip", "chat_brotli", "chat_zstd",
                           "chat_lz4", "chat_v2", "chat_old", "empty", "long"}) {
    INFO(name);
    const std::vector<Json> rows = rows_of(golden(name) + std::string(".parquet"));
    const std::vector<Json> expected = rows_of(golden(name) + std::string(".jsonl"));
    REQUIRE(rows.size() == expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      INFO("row " << i + 1);
      CHECK(dump_json(rows[i]) == dump_json(expected[i]));
    }
  }
}

TEST_CASE("columns that JSON cannot say are left out, and refused where rows need them") {
  const auto file = open_parquet(golden("types.parquet"));
  std::string columns;
  for (const ParquetColumn& column : file->left_out()) columns += column.name + ": " + column.type + "\n";
  CHECK(columns ==
        "when: timestamp[us]\nday: date32[day]\nbytes: binary\nmoney: decimal128(9, 2)\nimage: binary\n"
        "numbered: map<int32, string ('numbered')>\n");
  DataSource source;
  source.columns = {{"prompt", "text"}, {"completion", "when"}};
  CHECK(problem_of(golden("types.parquet"), source) ==
        ": the column when is timestamp[us], expected texts, numbers, lists or structs");
  source.columns = {{"text", "image.path"}};
  CHECK_THAT(problem_of(golden("types.parquet"), source), Catch::StartsWith(": the column image is binary"));
  source.columns = {};
  source.prompt = "{day}";
  source.completion = "{text}";
  CHECK_THAT(problem_of(golden("types.parquet"), source),
             Catch::StartsWith(": the column day is date32[day]"));
  source.prompt = "{int8}";
  CHECK(problem_of(golden("types.parquet"), source) == "no error");
}

TEST_CASE("a fault in Parquet is named by its row") {
  CHECK(problem_of(golden("bad_text.parquet")) == ":row 3: text: a text that is not valid UTF-8");
  const TemporaryFolder folder;
  Job job;
  job.data.train = {{golden("chat_none.parquet")}};
  const Tokenizer tokenizer = open_tokenizer(kGoldens + "tokenizer");
  const ChatTemplate chat =
      ChatTemplate::parse({read_file(kGoldens + "smollm2.jinja", 1 << 20, ErrorKind::data), "smollm2"}, {});
  const std::string text = error_of(
      [&] { prepare_dataset(job, Split::train, tokenizer, &chat, {.cache_folder = folder.path("cache")}); });
  CHECK_THAT(text, Catch::Contains("chat_none.parquet:row 1: "));
}

TEST_CASE("Parquet that is cut off or changed anywhere is refused or read, and nothing worse") {
  const TemporaryFolder folder;
  int64_t refused = 0, read = 0;
  const auto check = [&](const std::string& content) {
    const std::string problem = problem_of(folder.write("a.parquet", content));
    ++(problem == "no error" ? read : refused);
    if (problem != "no error") CHECK_THAT(problem, Catch::StartsWith(":"));
  };
  for (const char* name : {"types.parquet", "chat_snappy.parquet", "chat_v2.parquet", "chat_zstd.parquet"}) {
    const std::string whole = read_file(golden(name), 1 << 20, ErrorKind::data);
    for (size_t size = 0; size < whole.size(); size += whole.size() / 40) check(whole.substr(0, size));
    CHECK(read == 0);
    uint32_t state = 1;
    for (int i = 0; i < 300; ++i) {
      std::string changed = whole;
      for (int flips = i % 3; flips >= 0; --flips) {
        state = state * 1664525 + 1013904223;
        // Every second change is in the footer, which describes everything else.
        const size_t from = i % 2 == 0 ? 0 : changed.size() - changed.size() / 4;
        changed[from + (state >> 8) % (changed.size() - from)] = static_cast<char>(state >> 3);
      }
      check(changed);
    }
    CHECK(refused > 100);
    read = refused = 0;
  }
}
