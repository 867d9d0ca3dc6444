#include "core/base/user_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "tests/test.h"

using namespace forge;

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
