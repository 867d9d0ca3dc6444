#include "core/lib/base/file.h"

#include <sys/stat.h>

#include "core/lib/base/hash.h"
#include "tests/test.h"

using namespace forge;

TEST_CASE("a durable write replaces the whole file and leaves no litter") {
  TemporaryFolder folder;
  std::string path = folder.write("a.txt", "old");
  write_file_durably(path, "new");
  CHECK(read_file(path, 100, ErrorKind::data) == "new");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_THROWS_AS(write_file_durably(folder.path("missing/a.txt"), "x"), Error);
}

TEST_CASE("pipes, folders, missing and oversized files are refused by name") {
  TemporaryFolder folder;
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { MappedFile file(folder.path("pipe")); }), Catch::Contains("not a regular file"));
  CHECK_THAT(error_of([&] { MappedFile file(folder.path()); }), Catch::Contains("is a folder"));
  CHECK_THAT(error_of([&] { read_file(folder.path("none"), 1, ErrorKind::data); }), Catch::Contains("No such file"));
  folder.write("big", "12345");
  CHECK_THAT(error_of([&] { read_file(folder.path("big"), 4, ErrorKind::data); }), Catch::Contains("the limit is 4 B"));
}

TEST_CASE("names from inside files cannot leave their folder") {
  for (const char* name : {"", ".", "..", "a/b", "a\\b", "-rf", "/etc/passwd"}) CHECK_FALSE(safe_file_name(name));
  CHECK_FALSE(safe_file_name(std::string("a\0b", 3)));
  CHECK_FALSE(safe_file_name(std::string(256, 'a')));
  CHECK(safe_file_name("model-00001-of-00002.safetensors"));
}

TEST_CASE("hashes are XXH3-128 and depend on where texts end") {
  CHECK(hash_hex("") == "99aa06d3014798d86001c324468d497f");
  CHECK(Hasher().add(std::string_view("ab")).add(std::string_view("c")).hex() !=
        Hasher().add(std::string_view("a")).add(std::string_view("bc")).hex());
  TemporaryFolder folder;
  CHECK(hash_file(folder.write("a", "hello")) == hash_hex("hello"));
}

TEST_CASE("a large file's hash is the hash of its blocks' hashes, and every byte decides it") {
  TemporaryFolder folder;
  std::string content(static_cast<size_t>(2 * kHashBlockBytes + 70'001), '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 2654435761u >> 24);
  const auto block = [&](size_t index) {
    return hash_hex(std::string_view(content).substr(index * kHashBlockBytes, kHashBlockBytes));
  };
  const std::string hash = hash_file(folder.write("a", content));
  CHECK(hash == hash_hex(block(0) + block(1) + block(2)));
  for (size_t at : {size_t{0}, static_cast<size_t>(kHashBlockBytes), content.size() - 1}) {
    std::string changed = content;
    changed[at] ^= 1;
    CHECK(hash_file(folder.write("a", changed)) != hash);
  }
  CHECK(hash_file(folder.write("whole", content.substr(0, kHashBlockBytes))) == block(0));
  CHECK(hash_file(folder.write("empty", "")) == hash_hex(""));
  CHECK_THAT(error_of([&] { hash_file(folder.path("none"), ErrorKind::data); }), Catch::Contains("cannot open"));
}
