#include "core/run/run_folder.h"

#include <unistd.h>

#include "core/base/file.h"
#include "tests/test.h"

using namespace forge;

namespace {

void save(const std::string& folder, int64_t step) {
  CheckpointWriter writer(folder, step);
  write_file_durably(writer.path() + "/state.json", std::to_string(step));
  writer.commit(Json::object());
}

bool is_locked(const std::string& folder) {
  return error_of([&] { RunLock{folder}; }).find("another process is working on this run") !=
         std::string::npos;
}

}  // namespace

TEST_CASE("A lock is held until all who share it have gone") {
  TemporaryFolder folder;
  auto program = std::make_unique<RunLock>(folder.path());
  auto engine = std::make_unique<RunLock>(folder.path(), ::dup(program->descriptor()));
  CHECK(is_locked(folder.path()));
  program.reset();
  CHECK(is_locked(folder.path()));
  engine.reset();
  CHECK_FALSE(is_locked(folder.path()));
}

TEST_CASE("A lock knows when its folder has gone, also when another took its name") {
  TemporaryFolder folder;
  make_directories(folder.path("run"));
  RunLock lock(folder.path("run"));
  CHECK(lock.holds_folder());
  std::filesystem::rename(folder.path("run"), folder.path("elsewhere"));
  CHECK_FALSE(lock.holds_folder());
  make_directories(folder.path("run"));
  CHECK_FALSE(lock.holds_folder());
  CHECK_FALSE(is_locked(folder.path("run")));
}

TEST_CASE("A checkpoint that was set aside counts no more and goes once its step was done again") {
  TemporaryFolder folder;
  for (int64_t step : {4, 8}) save(folder.path(), step);
  const std::string aside = set_checkpoint_aside(folder.path(), 8);
  CHECK(list_checkpoints(folder.path()) == std::vector<int64_t>{4});
  save(folder.path(), 6);
  retain_checkpoints(folder.path(), /*keep_last=*/1, {});
  CHECK(list_checkpoints(folder.path()) == std::vector<int64_t>{6});
  CHECK(is_directory(aside));
  save(folder.path(), 8);
  retain_checkpoints(folder.path(), /*keep_last=*/1, {});
  CHECK_FALSE(is_directory(aside));
}

TEST_CASE("A run folder that was removed does not come back as a fragment") {
  TemporaryFolder folder;
  const std::string gone = folder.path("gone");
  CHECK_THROWS_AS(CheckpointWriter(gone, 1), Error);
  CHECK_THROWS_AS(make_temporary_sibling(gone + "/adapter"), Error);
  CHECK_FALSE(is_directory(gone));
}

TEST_CASE("Only a run, or what is left of one, is discarded") {
  TemporaryFolder folder;
  folder.write("thesis/log.txt", "x");
  folder.write("thesis/chapter.txt", "x");
  CHECK(error_of([&] { discard_run(folder.path("thesis")); }).find("is no run folder") != std::string::npos);
  folder.write("model/model/weights.bin", "x");  // no run's trace but for a name
  CHECK(error_of([&] { discard_run(folder.path("model")); }).find("is no run folder") != std::string::npos);
  folder.write("left/checkpoints/step-000004.tmp-77/state.json", "x");
  folder.write("left/checkpoints/step-000002/state.json", "x");
  CHECK(error_of([&] { inspect_run(folder.path("left")); }).find("what is left of a run") !=
        std::string::npos);
  discard_run(folder.path("left"));
  CHECK_FALSE(is_directory(folder.path("left")));
  CHECK(is_directory(folder.path("thesis")));
}
