#include "core/data/token_cache.h"

#include <unistd.h>

#include <filesystem>

#include "core/data/dataset.h"
#include "tests/test.h"

using namespace forge;

namespace {

DataSummary summary_with(const std::string& content_hash) {
  DataSummary summary;
  summary.content_hash = content_hash;
  summary.rows = 3;
  return summary;
}

std::string write_cache(const TemporaryFolder& folder) {
  const std::string path = folder.path("cache/a.tokens");
  TokenCacheWriter writer(path);
  writer.add({5, 6, 7}, {0, 0, 1}, 0, 1);
  writer.add({1}, {0}, 1, 4);
  writer.add({8, 9, 10, 11}, {0, 1, 1, 1}, 1, 9);
  const DataSummary summary = summary_with(writer.content_hash());
  writer.finish({{"sources", {"a.jsonl", "b.jsonl"}}, {"summary", to_json(summary)}});
  return path;
}

std::string content_of(const std::string& path) { return read_file(path, 1 << 20, ErrorKind::data); }

}  // namespace

TEST_CASE("a token cache gives back what was written") {
  TemporaryFolder folder;
  const DataSet data = DataSet::open(write_cache(folder));
  CHECK(data.size() == 3);
  CHECK(data.example(2).id == 2);
  CHECK(data.example(2).ids == std::vector<int32_t>{8, 9, 10, 11});
  CHECK(data.example(2).supervised == std::vector<uint8_t>{0, 1, 1, 1});
  CHECK(data.example(1).ids == std::vector<int32_t>{1});
  CHECK(data.lengths() == std::vector<int64_t>{3, 1, 4});
  CHECK(data.length(0) == 3);
  CHECK(data.supervised(2) == 3);
  CHECK(data.total_tokens() == 8);
  CHECK(data.total_supervised_tokens() == 4);
  CHECK(data.source_path(2) == "b.jsonl");
  CHECK(data.source_line(2) == 9);
  CHECK(data.summary().rows == 3);
  CHECK(DataSet::open(data.path(), {"x", "y"}).source_path(0) == "x");
  CHECK_THROWS(data.example(3));
  CHECK_THROWS(data.example(-1));
  const Batch batch = make_batch(data, {2, 0});
  CHECK(batch.token_ids == std::vector<int32_t>{8, 9, 10, 11, 5, 6, 7});
  CHECK(batch.example_ids == std::vector<int64_t>{2, 0});
}

TEST_CASE("the content hash knows ids, masks and boundaries") {
  TemporaryFolder folder;
  auto hash = [&](const std::vector<std::vector<int32_t>>& rows, uint8_t mask) {
    TokenCacheWriter writer(folder.path("h.tokens"));
    for (const auto& ids : rows) {
      std::vector<uint8_t> supervised(ids.size(), mask);
      supervised[0] = 0;
      writer.add(ids, supervised, 0, 1);
    }
    return writer.content_hash();
  };
  CHECK(hash({{1, 2}, {3, 4}}, 1) == hash({{1, 2}, {3, 4}}, 1));
  CHECK(hash({{1, 2}, {3, 4}}, 1) != hash({{1, 2}, {3, 4}}, 0));
  CHECK(hash({{1, 2}, {3, 4}}, 1) != hash({{1, 2, 3, 4}}, 1));
  CHECK(hash({{1, 2}, {3, 4}}, 1) != hash({{3, 4}, {1, 2}}, 1));
}

TEST_CASE("a cache that is cut or changed anywhere is refused") {
  TemporaryFolder folder;
  const std::string path = write_cache(folder), whole = content_of(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string part = folder.write("part.tokens", whole.substr(0, length));
    CAPTURE(length);
    CHECK_THAT(error_of([&] { DataSet::open(part); }), Catch::Contains("damaged token cache"));
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x40);
    // The last 8 bytes are zeros that mean nothing.
    if (i + 8 >= whole.size()) continue;
    const std::string file = folder.write("changed.tokens", changed);
    CAPTURE(i);
    CHECK_THAT(error_of([&] { DataSet::open(file); }), Catch::Contains("damaged token cache"));
  }
}

TEST_CASE("an unfinished cache leaves nothing, and litter of dead writers is removed") {
  TemporaryFolder folder;
  const std::string path = folder.path("cache/a.tokens");
  {
    TokenCacheWriter writer(path);
    writer.add({1, 2}, {0, 1}, 0, 1);
  }
  CHECK(std::filesystem::is_empty(folder.path("cache")));
  folder.write("cache/a.tokens.tmp-999999999", "left by a killed process");
  folder.write("cache/a.tokens.tmp-1", "process 1 is alive");
  folder.write("cache/b.tokens.tmp-999999999", "another cache");
  write_cache(folder);
  CHECK_FALSE(file_exists(folder.path("cache/a.tokens.tmp-999999999")));
  CHECK(file_exists(folder.path("cache/a.tokens.tmp-1")));
  CHECK(file_exists(folder.path("cache/b.tokens.tmp-999999999")));
}

TEST_CASE("summaries survive JSON") {
  DataSummary summary = summary_with("abc");
  summary.truncated = 4;
  summary.estimated = true;
  summary.lost_rows_path = "x";
  CHECK(to_json(data_summary_from_json(to_json(summary))) == to_json(summary));
  CHECK_THAT(error_of([] { data_summary_from_json(Json::object()); }), Catch::Contains("missing or wrong"));
}
