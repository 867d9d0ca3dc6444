#include "core/lib/io/known_hashes.h"

#include <sys/stat.h>

#include "core/lib/base/file.h"
#include "core/lib/base/hash.h"
#include "tests/test.h"

namespace forge {
namespace {

// Sets the file's modification time one hour back. ctime cannot be set back, which the test of
// ctime relies on.
void age(const std::string& path) {
  namespace fs = std::filesystem;
  fs::last_write_time(path, fs::last_write_time(path) - std::chrono::hours(1));
}

}  // namespace

TEST_CASE("a file is hashed by its content, and one just written is not taken for settled") {
  TemporaryFolder folder;
  const std::string file = folder.write("weights", "abc"), list = folder.path("cache/hashes.json");
  int64_t reads = 0;
  const auto hash = [&] {
    KnownHashes hashes(list);
    hashes.on_read = [&](const std::string&, int64_t) { ++reads; };
    std::string result = hashes.of(file);
    hashes.save();
    return result;
  };
  CHECK(hash() == hash_hex("abc"));
  folder.write("weights", "abd");
  age(file);
  CHECK(hash() == hash_hex("abd"));
  CHECK(reads == 2);
  CHECK_FALSE(file_exists(list));
}

TEST_CASE("a known file is not read again until its stamp is another") {
  TemporaryFolder folder;
  const std::string file = "/proc/self/exe", list = folder.path("hashes.json");
  const std::string program = std::filesystem::read_symlink(file);
  int64_t reads = 0;
  const auto hash = [&](const std::string& path) {
    KnownHashes hashes(list);
    hashes.on_read = [&](const std::string&, int64_t) { ++reads; };
    std::string result = hashes.of(path);
    hashes.save();
    return result;
  };
  // Its change time is older than the settling time, except right after linking.
  while (std::time(nullptr) - [&] {
    struct stat s {};
    ::stat(program.c_str(), &s);
    return s.st_ctim.tv_sec;
  }() < 4)
    ::sleep(1);
  const std::string first = hash(program);
  CHECK(hash(program) == first);
  CHECK(reads == 1);
  Json known = parse_json(read_file(list, 1 << 20, ErrorKind::environment), list, ErrorKind::environment);
  for (size_t part = 0; part < 5; ++part) {
    Json other = known;
    other[program]["stamp"][part] = other[program]["stamp"][part].get<int64_t>() + 1;
    folder.write("hashes.json", dump_json(other));
    CHECK(hash(program) == first);
    CHECK(reads == 2 + static_cast<int64_t>(part));
  }
  for (const char* damaged : {"", "{", "[]", "{\"x\": 1}", "\xff"}) {
    folder.write("hashes.json", damaged);
    CHECK(hash(program) == first);
  }
}

}  // namespace forge
