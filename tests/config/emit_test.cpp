// The files generated from the tables match the checked-in ones, and the parser accepts them.
#include "core/job/emit.h"

#include <ctime>
#include <iostream>

#include "core/job/field.h"
#include "core/job/job_json.h"
#include "core/job/load.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string source_file(const std::string& name) {
  return read_file(std::string(FORGE_SOURCE_DIR) + "/" + name, 1 << 22, ErrorKind::internal);
}

std::vector<std::string> example_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(FORGE_SOURCE_DIR) + "/examples"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  return files;
}

}  // namespace

TEST_CASE("schemas/job.schema.json and docs/job.md are what the tables say") {
  INFO("write them again: forge schema job > schemas/job.schema.json; forge schema --docs > docs/job.md");
  CHECK((source_file("schemas/job.schema.json") == job_schema_json()));
  CHECK((source_file("docs/job.md") == job_reference_markdown()));
}

TEST_CASE("every example and the starter load") {
  std::vector<std::string> files = example_files();
  CHECK(files.size() >= 5);
  for (const std::string& file : files) {
    INFO(file);
    CHECK(error_of([&] { load_job(file); }) == "no error");
  }
  TemporaryFolder folder;
  folder.write("job.yaml", starter_job());
  CHECK(error_of([&] { load_job(folder.path("job.yaml")); }) == "no error");
}

TEST_CASE("the starter knows every objective") {
  TemporaryFolder folder;
  const std::vector<std::string> names = objective_names();
  CHECK(names.size() >= 18);
  for (const std::string& name : names) {
    INFO(name);
    folder.write("job.yaml", starter_job("", name));
    folder.write("job.json", starter_job_json("", name));
    for (const char* file : {"job.yaml", "job.json"})
      CHECK(error_of([&] { load_job(folder.path(file)); }) == "no error");
    CHECK_THAT(starter_job("", "sft"), Catch::Contains(name));
  }
}

TEST_CASE("every value that the starter shows in a comment is the default") {
  // Uncomments "# key: value  # …" lines; the job must stay valid and keep its values.
  TemporaryFolder folder;
  std::string text;
  int lines = 0;
  for (const std::string& line : split(starter_job(), '\n')) {
    size_t hash = line.find("# ");
    bool is_key = hash != std::string::npos && line.find_first_not_of(' ') == hash &&
                  line.find(": ") != std::string::npos && line.find("# eval: ") == std::string::npos &&
                  line.find("early_stopping") == std::string::npos &&
                  line.find("# name: ") == std::string::npos && line[hash + 2] >= 'a';
    std::string rest =
        is_key && line.find("language-server") == std::string::npos ? line.substr(hash + 2) : "";
    lines += rest.empty() ? 0 : 1;
    text += (rest.empty() ? line : line.substr(0, hash) + rest) + "\n";
  }
  CHECK(lines >= 9);
  folder.write("a/job.yaml", starter_job());
  folder.write("b/job.yaml", text);
  LoadedJob given = load_job("job.yaml", {.cwd = folder.path("a")});
  LoadedJob full = load_job("job.yaml", {.cwd = folder.path("b")});
  std::string a = dump_json(to_json(given.job)), b = dump_json(to_json(full.job));
  for (size_t at = b.find("/b/"); at != std::string::npos; at = b.find("/b/")) b.replace(at, 3, "/a/");
  CHECK(a == b);
}

TEST_CASE("every key has a sentence, and choices hold their default") {
  Job job;
  for (const std::string& key : dotted_keys(job_fields())) {
    INFO(key);
    const Field* field = find_field(key);
    REQUIRE(field);
    CHECK(field->doc.ends_with("."));
    if (field->kind != FieldKind::choice || inside_list(key)) continue;
    Json value = value_of(job, key);
    bool known = value == "auto" ||
                 std::find(field->choices.begin(), field->choices.end(), value) != field->choices.end();
    CHECK(known);
  }
}

// A new key must state what a changed value means: nothing else keeps a run from continuing with
// another job.
TEST_CASE("every key has a role, and only what rows give is part of the token cache's key") {
  for (const std::string& key : dotted_keys(job_fields())) {
    INFO(key);
    const Field* field = find_field(key);
    if (field->kind == FieldKind::section) continue;
    CHECK(field->role != KeyRole::none);
    const bool of_rows = key.starts_with("data.") || key.starts_with("objective.");
    if (field->makes_examples) CHECK(of_rows);
    // Examples are part of the identity by their content. Other properties of theirs must be
    // identity keys themselves.
    if (field->makes_examples && !key.starts_with("data.eval."))
      CHECK((field->role == KeyRole::content || field->role == KeyRole::identity));
  }
  const auto role = [](const char* key) { return find_field(key)->role; };
  CHECK(role("adapter.rank_pattern") == KeyRole::identity);
  CHECK(role("eval.early_stopping.patience") == KeyRole::settings);
  CHECK(role("hardware.memory_limit") == KeyRole::execution);
  CHECK(keys_of_role(KeyRole::limit) ==
        std::vector<std::string>{"train.epochs", "train.max_steps", "train.max_tokens", "train.max_time"});
}

TEST_CASE("a typical job is checked in well under two milliseconds") {
  std::string file = std::string(FORGE_SOURCE_DIR) + "/examples/qlora-8b.yaml";
  load_job(file);  // builds the tables
  double best = 1e9;
  for (int i = 0; i < 50; ++i) {
    const std::clock_t begin = std::clock();
    load_job(file);
    best = std::min(best, 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::cout << "load_job of examples/qlora-8b.yaml: " << best << " ms\n";
#ifdef __SANITIZE_ADDRESS__
  CHECK(best < 40);
#else
  CHECK(best < 2);
#endif
}
