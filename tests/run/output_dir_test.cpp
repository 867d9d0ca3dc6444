// Tests refusals of a file system that its free bytes do not show. The system calls are replaced
// for this program: no test machine has a quota to run into.
#include "core/run/output_dir.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include <cerrno>

#include "tests/test.h"

using namespace forge;

namespace {

struct Disk {
  int error = 0;          // of reserving
  int64_t reserved = -1;  // bytes asked for, -1: not asked
  long kind = EXT4_SUPER_MAGIC;
} disk;

}  // namespace

extern "C" int fallocate(int, int, off_t, off_t bytes) noexcept {
  disk.reserved = bytes;
  errno = disk.error;
  return disk.error == 0 ? 0 : -1;
}

extern "C" int fstatfs(int, struct statfs* status) noexcept {
  *status = {};
  status->f_type = disk.kind;
  return 0;
}

namespace {

struct Fixture {
  TemporaryFolder folder;
  Plan plan;
  Fixture() {
    disk = {};
    plan.job.output_dir = folder.path("runs");
    plan.disk_bytes = 5'000'000;
  }
  std::string run() const { return plan.job.output_dir + "/a"; }
  std::string refusal() {
    return error_of([&] { require_room(plan, run()); });
  }
  bool left_nothing() const { return std::filesystem::is_empty(plan.job.output_dir); }
};

}  // namespace

TEST_CASE("a quota is found before the run starts, and the probe leaves nothing") {
  Fixture fixture;
  REQUIRE_NOTHROW(require_room(fixture.plan, fixture.run()));
  CHECK(disk.reserved == 5'000'000);
  CHECK(fixture.left_nothing());
  disk.error = EDQUOT;
  CHECK_THAT(fixture.refusal(),
             Catch::Contains("the run writes up to 4.8 MiB, your quota does not allow it"));
  disk.error = ENOSPC;
  CHECK_THAT(fixture.refusal(), Catch::Contains("the disk does not allow it"));
  CHECK(fixture.left_nothing());
  disk.error = EOPNOTSUPP;  // a file system that cannot reserve space is not an error
  CHECK(fixture.refusal() == "no error");
}

TEST_CASE("what a run holds already needs no more room") {
  Fixture fixture;
  fixture.folder.write("runs/a/checkpoints/step-000001/state", std::string(3'000'000, 'x'));
  disk.error = EDQUOT;
  CHECK_THAT(fixture.refusal(), Catch::Contains("your quota"));
  CHECK(disk.reserved == 2'000'000);
  fixture.folder.write("runs/a/more", std::string(2'000'000, 'x'));
  CHECK(fixture.refusal() == "no error");
}

TEST_CASE("blocks are not reserved in memory, nor past the limit on a file's size") {
  Fixture fixture;
  disk.error = EDQUOT;
  disk.kind = TMPFS_MAGIC;
  CHECK(fixture.refusal() == "no error");
  disk.kind = EXT4_SUPER_MAGIC;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit low = before;
  low.rlim_cur = 1'000'000;  // reserving more would be answered by SIGXFSZ
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &low) == 0);
  CHECK(fixture.refusal() == "no error");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(disk.reserved == -1);
}

TEST_CASE("too little room and a folder that cannot be written are told apart") {
  Fixture fixture;
  fixture.plan.disk_bytes = int64_t{1} << 60;
  CHECK_THAT(fixture.refusal(), Catch::Contains(" are free"));
  CHECK(disk.reserved == -1);
  fixture.plan.disk_bytes = 0;
  fixture.plan.job.output_dir = "/proc/self";  // not writable, not even by root
  CHECK_THAT(fixture.refusal(), Catch::StartsWith("/proc/self: cannot write: "));
}
