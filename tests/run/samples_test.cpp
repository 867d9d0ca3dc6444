#include "core/run/samples.h"

#include "core/data/token_cache.h"
#include "core/lib/base/file.h"
#include "tests/test.h"

using namespace forge;

namespace {

DataSet data_of(const TemporaryFolder& folder, const std::vector<Example>& examples) {
  const std::string path = folder.path("data.tokens");
  TokenCacheWriter writer(path);
  for (const Example& example : examples) writer.add(example.ids, example.supervised, 0, 1, "");
  DataSummary summary;
  summary.content_hash = writer.content_hash();
  writer.finish({{"sources", {"train.jsonl"}}, {"summary", to_json(summary)}});
  return DataSet::open(path);
}

}  // namespace

TEST_CASE("Samples are asked what stands before the first trained token") {
  TemporaryFolder folder;
  const DataSet data = data_of(folder, {{0, {5, 6, 7, 8}, {0, 0, 0, 1}},     // a prompt of three tokens
                                        {1, {1, 2, 3, 4, 5, 6}, {0, 1, 1, 1, 1, 1}},  // trained from its start
                                        {2, {9, 9, 9, 9, 9, 9, 9}, {0, 0, 0, 0, 0, 0, 1}},
                                        {3, {4, 3}, {0, 0}}});
  using Prompts = std::vector<std::vector<int32_t>>;
  CHECK(sample_prompts(data, 2, 7) == Prompts{{5, 6, 7}, {1, 2, 3}});
  // An answer must fit after the prompt.
  CHECK(sample_prompts(data, 9, 6) == Prompts{{5, 6, 7}, {1, 2, 3}, {4, 3}});
  CHECK(sample_prompts(data, 0, 7).empty());
}

TEST_CASE("Samples that cannot be trusted are none") {
  TemporaryFolder folder;
  CHECK(read_samples(folder.path(), 10).empty());
  write_samples(folder.path(), {{{1, 2}, {3}}});
  REQUIRE(read_samples(folder.path(), 10).size() == 1);
  CHECK(read_samples(folder.path(), 10)[0].before == std::vector<int32_t>{3});
  CHECK(read_samples(folder.path(), 3).empty());  // another vocabulary
  for (const char* broken : {"", "[1]", "{}", "[{\"prompt\":[1]}]", "[{\"prompt\":[-1],\"before\":[]}]",
                             "[{\"prompt\":[],\"before\":[]}]", "[{\"prompt\":\"1\",\"before\":[]}]"}) {
    INFO(broken);
    folder.write("samples.json", broken);
    CHECK(read_samples(folder.path(), 10).empty());
  }
}
