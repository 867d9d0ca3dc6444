#include "core/lib/io/members.h"
#include "core/run/checkpoints.h"
#include "core/run/heartbeat.h"
#include "core/run/run_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <thread>

#include "core/lib/base/file.h"
#include "core/lib/base/temporary.h"
#include "core/lib/base/text.h"
#include "core/run/staging.h"
#include "tests/test.h"

using namespace forge;

static struct {
  bool exchange_refused = false;  // as by NFS
  bool counts = false;
  int renames_before_death = 0;
} system_calls;

// The next two take the place of the C library's functions.
extern "C" int renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept {
  if (!system_calls.exchange_refused) return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags));
  errno = EINVAL;
  return -1;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  if (system_calls.counts && system_calls.renames_before_death-- == 0) ::kill(::getpid(), SIGKILL);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace {

void save(const std::string& folder, int64_t step) {
  CheckpointWriter writer(folder, step);
  write_file_durably(writer.path() + "/state.json", std::to_string(step));
  writer.commit();
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

TEST_CASE("Another machine's fresh beat refuses a start, a stale one and this machine's own do not") {
  TemporaryFolder folder;
  const std::string path = folder.path(kHeartbeat);
  const auto beat_of = [&](const std::string& boot) { folder.write(kHeartbeat, R"({"host": "node-7", "boot": ")" + boot + R"(", "process": 1})"); };
  {
    const Heartbeat first(folder.path()), second(folder.path());
    const std::string boot = Json::parse(read_file(path, 4096, ErrorKind::environment)).at("boot");
    CHECK(boot.size() > 8);
  }
  CHECK_FALSE(file_exists(path));
  beat_of("elsewhere");
  CHECK_THAT(error_of([&] { Heartbeat{folder.path()}; }), Catch::Contains("the machine \"node-7\" is working on this run"));
  CHECK(file_exists(path));
  std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now() - kStaleBeat - std::chrono::seconds(1));
  { const Heartbeat taken_over(folder.path()); }
  CHECK_FALSE(file_exists(path));
  std::filesystem::create_symlink(folder.path("elsewhere"), path);
  { const Heartbeat beside_a_link(folder.path()); }
  CHECK_FALSE(file_exists(folder.path("elsewhere")));
}

namespace {

// Puts another machine's beat into a folder, whole from one moment to the next.
void beat_elsewhere(const TemporaryFolder& folder) {
  folder.write("other", R"({"host": "node-7", "boot": "elsewhere", "process": 1})");
  std::filesystem::rename(folder.path("other"), folder.path(kHeartbeat));
}

}  // namespace

TEST_CASE("Another machine's beat during a run ends the run and stays") {
  using namespace std::chrono_literals;
  TemporaryFolder folder;
  {
    Heartbeat heartbeat(folder.path(), {.beat = 20ms});
    std::this_thread::sleep_for(100ms);
    CHECK(error_of([&] { heartbeat.require_alone(); }) == "no error");
    std::string said = "no error";
    for (int tries = 0; tries < 500 && said == "no error"; ++tries) {
      beat_elsewhere(folder);
      std::this_thread::sleep_for(20ms);
      said = error_of([&] { heartbeat.require_alone(); });
    }
    CHECK_THAT(said, Catch::Contains("the machine \"node-7\" is working on this run") && Catch::Contains("it ends here"));
    beat_elsewhere(folder);
    std::this_thread::sleep_for(100ms);
  }
  CHECK_THAT(read_file(folder.path(kHeartbeat), 4096, ErrorKind::environment), Catch::Contains("node-7"));
}

TEST_CASE("Of two machines that start at once one finds the other's beat at its second look") {
  using namespace std::chrono_literals;
  TemporaryFolder folder;
  std::thread other([&] {
    while (!file_exists(folder.path(kHeartbeat))) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(20ms);
    beat_elsewhere(folder);
  });
  CHECK_THAT(error_of([&] { Heartbeat(folder.path(), {.second_look = 1s}); }), Catch::Contains("\"node-7\" is working on this run"));
  other.join();
  CHECK_THAT(read_file(folder.path(kHeartbeat), 4096, ErrorKind::environment), Catch::Contains("node-7"));
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

TEST_CASE("Litter is what processes left that run no longer") {
  TemporaryFolder folder;
  const std::string run = folder.path("run");
  const std::string alive = temporary_of(run + "/gguf"), dead = run + "/merged.tmp-" + alive.substr(alive.find(".tmp-") + 5, alive.rfind('-') - alive.find(".tmp-") - 5) + "-999999999";
  for (const std::string& name : {alive, dead, run + "/adapter.tmp-77", run + "/.trash-model", run + "/model.tmp-elsewhere-12.34", run + "/checkpoints/step-000004.tmp-77"})
    std::filesystem::create_directories(name);
  remove_litter(run);
  CHECK(is_directory(alive));  // a merge or an export that is writing
  CHECK(is_directory(run + "/model.tmp-elsewhere-12.34"));
  CHECK_FALSE(is_directory(dead));
  CHECK_FALSE(is_directory(run + "/adapter.tmp-77"));
  CHECK_FALSE(is_directory(run + "/.trash-model"));
  CHECK_FALSE(is_directory(run + "/checkpoints/step-000004.tmp-77"));
}

TEST_CASE("A folder that takes another's place leaves nothing behind, and one that cannot leaves the other") {
  TemporaryFolder folder;
  folder.write("old/a", "old");
  folder.write("new/a", "new");
  replace_directory(folder.path("new"), folder.path("old"));
  CHECK(read_file(folder.path("old/a"), 9, ErrorKind::data) == "new");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"old"});
  CHECK_THROWS_AS(replace_directory(folder.path("none"), folder.path("old")), Error);
  CHECK(read_file(folder.path("old/a"), 9, ErrorKind::data) == "new");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"old"});
  folder.write("next/a", "next");
  replace_directory(folder.path("next"), folder.path("fresh"));
  CHECK(read_file(folder.path("fresh/a"), 9, ErrorKind::data) == "next");
}

namespace {

// Replaces folder/old by a new one in a process that is killed between the two renames.
void replace_and_die(const std::string& folder) {
  const pid_t child = ::fork();
  if (child == 0) {
    system_calls.exchange_refused = true;
    system_calls.renames_before_death = 1;
    try {
      const std::string source = make_temporary_sibling(folder + "/old");
      write_file_durably(source + "/a", "new");
      system_calls.counts = true;
      replace_directory(source, folder + "/old");
    } catch (...) {
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
}

}  // namespace

TEST_CASE("A kill between two renames loses no result where folders cannot be exchanged") {
  TemporaryFolder folder;
  for (const auto& clear : std::vector<std::function<void(const std::string&)>>{remove_litter, remove_abandoned}) {
    folder.write("old/a", "old");
    replace_and_die(folder.path());
    CHECK_FALSE(is_directory(folder.path("old")));
    CHECK(names_in(folder.path()).size() == 2);
    clear(folder.path());
    CHECK(names_in(folder.path()) == std::vector<std::string>{"old"});
    CHECK(read_file(folder.path("old/a"), 9, ErrorKind::data) == "old");
  }
  // One that was replaced in the end is litter.
  const std::string condemned = folder.path(".trash-old.tmp-77");
  std::filesystem::create_directories(condemned);
  CHECK_FALSE(put_back(condemned));
  remove_litter(folder.path());
  CHECK(names_in(folder.path()) == std::vector<std::string>{"old"});
  CHECK_FALSE(put_back(folder.path("old")));
}

TEST_CASE("Only a run, or what is left of one, is discarded") {
  TemporaryFolder folder;
  folder.write("thesis/log.txt", "x");
  folder.write("thesis/chapter.txt", "x");
  CHECK(error_of([&] { discard_run(folder.path("thesis")); }).find("is not a run folder") != std::string::npos);
  folder.write("model/model/weights.bin", "x");  // no trace of a run except the name
  CHECK(error_of([&] { discard_run(folder.path("model")); }).find("is not a run folder") != std::string::npos);
  folder.write("left/checkpoints/step-000004.tmp-77/state.json", "x");
  folder.write("left/checkpoints/step-000002/state.json", "x");
  CHECK(error_of([&] { inspect_run(folder.path("left")); }).find("what is left of a run") !=
        std::string::npos);
  discard_run(folder.path("left"));
  CHECK_FALSE(is_directory(folder.path("left")));
  CHECK(is_directory(folder.path("thesis")));
}

TEST_CASE("An amendment that was edited, removed or moved is noticed") {
  TemporaryFolder folder;
  const std::string path = folder.path("amendments.jsonl");
  const auto amendment = [](int64_t step) {
    return to_json(
        Amendment{.kind = AmendmentKind::out_of_memory, .step = step, .micro_batch_divisor = 2 * step});
  };
  for (int64_t step : {1, 2, 3}) append_amendment(path, amendment(step));
  const std::vector<Amendment> amendments = read_amendments(path);
  REQUIRE(amendments.size() == 3);
  CHECK(amendments[2].step == 3);
  CHECK(to_json(amendments[2]) == amendment(3));
  const std::string text = read_file(path, 1 << 20, ErrorKind::data);
  std::vector<std::string> lines = split(text, '\n');
  const auto fault = [&](const std::vector<std::string>& left) {
    folder.write("amendments.jsonl", join(left, "\n"));
    return error_of([&] { read_amendments(path); });
  };
  std::string edited = lines[1];
  edited.replace(edited.find("\"step\":2"), 8, "\"step\":9");
  CHECK_THAT(fault({lines[0], edited, lines[2]}), Catch::Contains("amendments.jsonl:2: was edited"));
  CHECK_THAT(fault({lines[0], lines[2]}), Catch::Contains("amendments.jsonl:2: was edited"));
  CHECK_THAT(fault({lines[1], lines[0], lines[2]}), Catch::Contains("amendments.jsonl:1: was edited"));
  CHECK(fault({"", lines[0], lines[1], "", lines[2], ""}) == "no error");
  // A run of an older version has no hashes; lines that this version appends have one.
  CHECK(fault({dump_json(amendment(1)), dump_json(amendment(2))}) == "no error");
  append_amendment(path, amendment(3));
  lines = split(read_file(path, 1 << 20, ErrorKind::data), '\n');
  REQUIRE(read_amendments(path).size() == 3);
  CHECK(lines[2].find("\"hash\"") != std::string::npos);
}

TEST_CASE("A value of an amendment is one that its key can have") {
  const auto fault = [](const char* key, const Json& value) {
    try {
      amendment_from_json({{"kind", "extend"}, {"step", 4}, {"micro_batch_divisor", 1}, {"changes", {{key, value}}}});
    } catch (const MemberFault& fault) {
      return fault.at("amendments.jsonl:1");
    }
    return std::string("no error");
  };
  CHECK(fault("train.max_steps", 80) == "no error");
  CHECK(fault("train.epochs", nullptr) == "no error");
  CHECK(fault("steps", 80) == "no error");
  CHECK_THAT(fault("train.max_steps", "x"), Catch::Contains("amendments.jsonl:1: changes.train.max_steps: \"x\" is text"));
  CHECK_THAT(fault("train.max_steps", 0), Catch::Contains("out of range"));
  CHECK_THAT(fault("train.max_step", 4), Catch::Contains("is not a key of a job"));
}
