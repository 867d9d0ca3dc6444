#include "core/data/token_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "core/data/dataset.h"
#include "core/lib/base/temporary.h"
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
    const std::string file = folder.write("changed.tokens", changed);
    CAPTURE(i);
    auto use = [&] {
      const DataSet data = DataSet::open(file);
      for (int64_t index = 0; index < data.size(); ++index) data.example(index);
    };
    CHECK_THAT(error_of(use), Catch::Contains("damaged token cache"));
    CHECK_THAT(error_of([&] { DataSet::open(file).verify(); }), Catch::Contains("damaged token cache"));
  }
}

TEST_CASE("a large cache is verified block by block as it is read") {
  TemporaryFolder folder;
  const std::string path = folder.path("a.tokens");
  TokenCacheWriter writer(path);
  const std::vector<int32_t> ids(1000, 7);
  std::vector<uint8_t> supervised(1000, 1);
  supervised[0] = 0;
  for (int64_t i = 0; i < 200; ++i)
    writer.add(ids, supervised, 0, i + 1);  // about a million bytes: four blocks
  writer.finish({{"sources", {"a.jsonl"}}, {"summary", to_json(summary_with("x"))}});
  {
    const DataSet data = DataSet::open(path);
    data.verify();
    for (int64_t i = 0; i < 200; ++i) CHECK(data.example(i).ids == ids);
  }
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(600'000) << 'x';
  const DataSet data = DataSet::open(path);
  CHECK(data.example(0).ids == ids);
  CHECK(data.example(199).ids == ids);
  CHECK_THAT(error_of([&] { data.example(119); }), Catch::Contains("the bytes from 524,288 on do not match their hash"));
  CHECK_THAT(error_of([&] { data.example(105); }), Catch::Contains("damaged token cache"));
  CHECK_THAT(error_of([&] { data.verify(); }), Catch::Contains("damaged token cache"));
}

TEST_CASE("two writers of one cache do not disturb each other") {
  TemporaryFolder folder;
  const std::string path = folder.path("cache/a.tokens");
  const pid_t child = ::fork();
  auto write = [&] {
    for (int64_t round = 0; round < 20; ++round) {
      write_cache(folder);
      DataSet::open(path).verify();
    }
  };
  if (child == 0) {
    const bool sound = error_of(write) == "no error";
    ::_exit(sound ? 0 : 1);
  }
  CHECK(error_of(write) == "no error");
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const std::filesystem::directory_iterator files(folder.path("cache"));
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("an unfinished cache leaves nothing, and litter of dead writers is removed") {
  TemporaryFolder folder;
  const std::string path = folder.path("cache/a.tokens");
  {
    TokenCacheWriter writer(path);
    writer.add({1, 2}, {0, 1}, 0, 1);
  }
  CHECK(std::filesystem::is_empty(folder.path("cache")));
  const std::string own = temporary_of("a.tokens");  // "a.tokens.tmp-machine-PID.START"
  const std::string mark = own.substr(0, own.rfind('-') + 1).substr(8);
  const std::string dead = "cache/a.tokens" + mark + "999999999", alive = "cache/a.tokens" + mark + "1";
  const std::string other = "cache/b.tokens" + mark + "999999999";
  // The files have a reused process id, here this process's own, and the id of another user's
  // process.
  const std::string reused = "cache/c" + own.substr(0, own.rfind('.')) + ".17", init = "cache/c.tokens" + mark + "1.987654321";
  const std::string mine = "cache/" + own + "-XYZ";
  const std::string elsewhere = "cache/a.tokens.tmp-another.machine-999999999";
  // A process that was killed and that its parent has not reaped yet.
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t ended;
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  const std::string zombie = "cache/z.tokens" + mark + std::to_string(child);
  for (const std::string& name : {dead, alive, other, elsewhere, reused, init, mine, zombie}) folder.write(name, "litter");
  write_cache(folder);
  CHECK_FALSE(file_exists(folder.path(dead)));
  CHECK_FALSE(file_exists(folder.path(other)));
  CHECK_FALSE(file_exists(folder.path(reused)));
  CHECK_FALSE(file_exists(folder.path(init)));
  CHECK_FALSE(file_exists(folder.path(zombie)));
  CHECK(::waitpid(child, nullptr, 0) == child);
  CHECK(file_exists(folder.path(alive)));
  CHECK(file_exists(folder.path(mine)));
  CHECK(file_exists(folder.path(elsewhere)));
}

TEST_CASE("summaries survive JSON") {
  DataSummary summary = summary_with("abc");
  summary.truncated = 4;
  summary.estimated = true;
  summary.lost_rows_path = "x";
  CHECK(to_json(data_summary_from_json(to_json(summary))) == to_json(summary));
  CHECK_THAT(error_of([] { data_summary_from_json(Json::object()); }), Catch::Contains("missing or wrong"));
}
