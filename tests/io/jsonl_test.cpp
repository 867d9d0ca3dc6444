#include "core/io/jsonl.h"

#include <sys/stat.h>

#include "tests/test.h"

using namespace forge;

namespace {

struct Read {
  std::vector<std::string> lines;
  std::vector<int64_t> numbers, offsets;
};

Read read(const std::string& path, int64_t longest = 64 << 20) {
  Read result;
  LineReader reader(path, longest);
  for (Line line; reader.next(&line);) {
    result.lines.emplace_back(line.text);
    result.numbers.push_back(line.number);
    result.offsets.push_back(line.offset);
  }
  return result;
}

using Lines = std::vector<std::string>;
using Numbers = std::vector<int64_t>;

}  // namespace

TEST_CASE("lines end with a newline, a carriage return and newline, or the file") {
  TemporaryFolder folder;
  Read result = read(folder.write("a.jsonl", "one\ntwo\r\n\nthree\r\r\nfour"));
  CHECK(result.lines == Lines{"one", "two", "", "three\r", "four"});
  CHECK(result.numbers == Numbers{1, 2, 3, 4, 5});
  CHECK(result.offsets == Numbers{0, 4, 9, 10, 18});
  CHECK(read(folder.write("b", "")).lines.empty());
  CHECK(read(folder.write("c", "\n")).lines == Lines{""});
  CHECK(read(folder.write("d", "x")).lines == Lines{"x"});
  CHECK(read(folder.write("e", std::string("a\0b\n", 4))).lines == Lines{std::string("a\0b", 3)});
}

TEST_CASE("a byte order mark is skipped and counted in the offset") {
  TemporaryFolder folder;
  Read result = read(folder.write("a", "\xef\xbb\xbfone\ntwo\n"));
  CHECK(result.lines == Lines{"one", "two"});
  CHECK(result.offsets == Numbers{3, 7});
  CHECK(read(folder.write("b", "\xef\xbb\xbf")).lines.empty());
  CHECK(read(folder.write("c", "one\n\xef\xbb\xbftwo")).lines == Lines{"one", "\xef\xbb\xbftwo"});
}

TEST_CASE("lines of every length come back whole, across the borders of reads") {
  TemporaryFolder folder;
  std::string content;
  Lines expected;
  for (size_t length : {0, 1, 262142, 262143, 262144, 262145, 5, 700000, 3, 1000001, 0, 2}) {
    expected.emplace_back(length, static_cast<char>('a' + expected.size()));
    content += expected.back() + "\n";
  }
  Read result = read(folder.write("a", content));
  CHECK((result.lines == expected));
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(content.substr(static_cast<size_t>(result.offsets[i]), expected[i].size()) == expected[i]);
}

TEST_CASE("what is no UTF-8 text is refused with its place") {
  using Catch::EndsWith;
  TemporaryFolder folder;
  auto problem = [&](const std::string& content, int64_t longest = 64 << 20) {
    return error_of([&] { read(folder.write("a", content), longest); });
  };
  CHECK_THAT(problem("good\né\xff\n"), EndsWith("a:2:2: not valid UTF-8 (byte 7 of the file)"));
  CHECK_THAT(problem("good\n\xed\xa0\x80"), EndsWith("a:2:1: not valid UTF-8 (byte 5 of the file)"));
  CHECK_THAT(problem("\xff\xfe{\0"), EndsWith("a:1: is UTF-16, expected UTF-8"));
  CHECK_THAT(problem("\x1f\x8b\x08\x00"), EndsWith("a:1: is compressed, expected plain text"));
  CHECK_THAT(problem("\x28\xb5\x2f\xfd"), EndsWith("a:1: is compressed, expected plain text"));
  CHECK_THAT(problem("ok\n" + std::string(1001, 'x') + "\n", 1000),
             EndsWith("a:2: the line is longer than 1000 B"));
  CHECK_THAT(problem("ok\n" + std::string(5'000'000, 'x'), 1000),
             EndsWith("a:2: the line is longer than 1000 B"));
  CHECK(problem(std::string(1000, 'x') + "\n", 1000) == "no error");
}

TEST_CASE("only regular files are read, and errors are of the data") {
  TemporaryFolder folder;
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { LineReader(folder.path("pipe")); }), Catch::EndsWith("is not a regular file"));
  CHECK_THAT(error_of([&] { LineReader(folder.path()); }), Catch::EndsWith("is a folder, expected a file"));
  try {
    LineReader reader(folder.path("absent"));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    CHECK_THAT(error.what(), Catch::EndsWith("cannot open: No such file or directory"));
  }
}
