// Resolves names of the hub to paths of its cache, for any content of the cache.
#include <filesystem>

#include "core/job/load.h"
#include "core/job/job_json.h"
#include "tests/test.h"

using namespace forge;

namespace {

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

LoadedJob load(const TemporaryFolder& folder, const std::string& model, const std::string& source = "a.jsonl", std::vector<std::string> sets = {}) {
  LoadOptions options{.sets = std::move(sets), .cwd = folder.path()};
  options.environment = [home = folder.path("hf")](const std::string& name) {
    return name == "HF_HOME" ? std::optional(home) : std::nullopt;
  };
  folder.write("job.yaml", "model: " + model + "\ndata: {train: [" + source + "]}\n");
  return load_job("job.yaml", options);
}

std::string faults_of(const TemporaryFolder& folder, const std::string& model, const std::string& source = "a.jsonl") {
  try {
    load(folder, model, source);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// Writes a snapshot of the commit, to which the branch main points.
void fetched(const TemporaryFolder& folder, const std::string& repository) {
  std::filesystem::create_directories(folder.path("hf/hub/" + repository + "/snapshots/" + kCommit));
  std::filesystem::create_directories(folder.path("hf/hub/" + repository + "/refs"));
  folder.write("hf/hub/" + repository + "/refs/main", kCommit);
}

}  // namespace

TEST_CASE("a repository is the folder of its revision in the cache") {
  TemporaryFolder folder;
  const std::string place = folder.path("hf/hub/models--org--name/snapshots/");
  CHECK(load(folder, "{repo: org/name}").job.model.path == place + "main");
  fetched(folder, "models--org--name");
  const LoadedJob loaded = load(folder, "{repo: org/name}");
  CHECK(loaded.job.model.path == place + kCommit);
  CHECK((loaded.origins.at("model.path").kind == OriginKind::derived));
  CHECK(load(folder, std::string("{repo: org/name, revision: ") + kCommit + "}").job.model.path == place + kCommit);
  CHECK(load(folder, "{repo: org/name, revision: pr/1}").job.model.path == place + "pr/1");
  CHECK(load(folder, "{repo: gpt2}").job.model.path == folder.path("hf/hub/models--gpt2/snapshots/main"));
  CHECK(load(folder, "{repo: org/other}", "a.jsonl", {"model.repo=org/name"}).job.model.path == place + kCommit);
}

TEST_CASE("a path beside a repository lies in it, unless it is whole") {
  TemporaryFolder folder;
  fetched(folder, "datasets--org--rows");
  const std::string place = folder.path(std::string("hf/hub/datasets--org--rows/snapshots/") + kCommit);
  const Job job = load(folder, "{repo: org/name, path: x.gguf}", "{repo: org/rows, path: data/*.jsonl}, {repo: org/rows}, {repo: org/rows, path: /d/a.jsonl}").job;
  CHECK(job.model.path == folder.path("hf/hub/models--org--name/snapshots/main/x.gguf"));
  REQUIRE(job.data.train.size() == 3);
  CHECK(job.data.train[0].path == place + "/data/*.jsonl");
  CHECK(job.data.train[1].path == place);
  CHECK(job.data.train[2].path == "/d/a.jsonl");
}

TEST_CASE("what is no name of the hub is refused where it stands") {
  TemporaryFolder folder;
  for (const char* name : {"a/b/c", "../x", "org/..", "/x/y", "org/.x", "\"a b/c\"", "a--b/c"})
    CHECK_THAT(faults_of(folder, std::string("{repo: ") + name + "}"), Catch::Contains("is not the name of a hub repository"));
  for (const char* revision : {"../../x", "a//b", "\"a b\"", "-x"})
    CHECK_THAT(faults_of(folder, std::string("{repo: org/name, revision: ") + revision + "}"), Catch::Contains("is not a branch"));
  CHECK_THAT(faults_of(folder, "{path: m, revision: main}"), Catch::Contains("there is no model.repo"));
  CHECK_THAT(faults_of(folder, "m", "{path: a.jsonl, revision: main}"), Catch::Contains("there is no data.train[0].repo"));
}
