#include "core/lib/base/user_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <thread>

#include "tests/test.h"

using namespace forge;

static std::string_view mounted;  // a path that no file can be renamed to

// Takes the place of the C library's function.
extern "C" int rename(const char* from, const char* to) noexcept {
  if (!mounted.empty() && mounted == to) {
    errno = EBUSY;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace {

std::string content(const std::string& path) { return read_file(path, 1 << 20, ErrorKind::data); }

mode_t mode_of(const std::string& path) {
  struct stat status{};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode;
}

}  // namespace

TEST_CASE("a user's file is replaced whole and keeps its mode") {
  TemporaryFolder folder;
  const std::string path = folder.write("a", "old");
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  write_user_file(path, "new");
  CHECK(content(path) == "new");
  CHECK((mode_of(path) & 07777) == 0600);
  CHECK_THROWS(write_user_file(path, [](OutputFile& file) {
    file.write("half");
    throw Error(ErrorKind::data, "x");
  }));
  CHECK(content(path) == "new");
  write_user_file(folder.path("b"), "fresh");
  CHECK(content(folder.path("b")) == "fresh");
  CHECK(names_in(folder.path()).size() == 2);
  CHECK_THAT(error_of([&] { write_user_file(folder.path(), "x"); }), Catch::Contains("is a folder"));
}

TEST_CASE("a file that is mounted by itself is written in place, and once") {
  TemporaryFolder folder;
  const std::string path = folder.write("a", "old and longer");
  mounted = path;
  int calls = 0;
  write_user_file(path, [&](OutputFile& file) {
    ++calls;
    file.write(std::string(3 << 20, 'x') + "end");
  });
  CHECK_THROWS(write_user_file(path, [](OutputFile&) { throw Error(ErrorKind::data, "x"); }));
  mounted = {};
  CHECK(calls == 1);
  CHECK(read_file(path, 4 << 20, ErrorKind::data) == std::string(3 << 20, 'x') + "end");
  CHECK(names_in(folder.path()).size() == 1);
}

TEST_CASE("a user's file keeps its group") {
  TemporaryFolder folder;
  const std::string path = folder.write("a", "old");
  std::array<gid_t, 64> groups{};
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  gid_t other = ::geteuid() == 0 ? 4711 : ::getegid();
  for (int i = 0; i < count && other == ::getegid(); ++i) other = groups[static_cast<size_t>(i)];
  if (::chown(path.c_str(), static_cast<uid_t>(-1), other) != 0) return;  // a user of one group
  REQUIRE(::chmod(path.c_str(), 0660) == 0);
  write_user_file(path, "new");
  struct stat status{};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  CHECK(status.st_gid == other);
  CHECK((status.st_mode & 07777) == 0660);
  CHECK(content(path) == "new");
}

TEST_CASE("a file that nobody may write stays as it is") {
  TemporaryFolder folder;
  const std::string path = folder.write("a", "old");
  REQUIRE(::chmod(path.c_str(), 0444) == 0);
  CHECK_THAT(error_of([&] { write_user_file(path, "new"); }), Catch::Contains("a: is read-only"));
  CHECK(content(path) == "old");
}

TEST_CASE("links, devices and pipes are written through") {
  TemporaryFolder folder;
  const std::string target = folder.write("target", "old"), link = folder.path("link"), other = folder.path("other");
  REQUIRE(::symlink(target.c_str(), link.c_str()) == 0);
  write_user_file(link, "new");
  CHECK(S_ISLNK(mode_of(link)));
  CHECK(content(target) == "new");
  REQUIRE(::link(target.c_str(), other.c_str()) == 0);
  write_user_file(target, "both");
  CHECK(content(other) == "both");
  const std::string dangling = folder.path("dangling"), made = folder.path("made");
  REQUIRE(::symlink(made.c_str(), dangling.c_str()) == 0);
  write_user_file(dangling, "there");
  CHECK(S_ISLNK(mode_of(dangling)));
  CHECK(content(made) == "there");
  const mode_t before = mode_of("/dev/null");
  write_user_file("/dev/null", "gone");
  CHECK(mode_of("/dev/null") == before);
  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::string heard;
  std::thread reader([&] {
    std::ifstream in(pipe);
    std::getline(in, heard);
  });
  write_user_file(pipe, "through\n");
  reader.join();
  CHECK(heard == "through");
  CHECK(S_ISFIFO(mode_of(pipe)));
}

TEST_CASE("a line is added behind the end of the last") {
  TemporaryFolder folder;
  const std::string path = folder.write("rows", "one");
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  append_line_to_user_file(path, "two");
  append_line_to_user_file(path, "three");
  CHECK(content(path) == "one\ntwo\nthree\n");
  CHECK((mode_of(path) & 07777) == 0600);
  append_line_to_user_file(folder.path("new"), "x");
  CHECK(content(folder.path("new")) == "x\n");
  append_line_to_user_file("/dev/null", "x");
  CHECK_THAT(error_of([&] { append_line_to_user_file(folder.path("none/x"), "x"); }), Catch::Contains("cannot open"));
}
