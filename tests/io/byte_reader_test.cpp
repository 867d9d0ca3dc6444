#include "core/lib/io/byte_reader.h"

#include <sys/stat.h>

#include <map>

#include "tests/io/pack.h"
#include "tests/test.h"

using namespace forge;

namespace {

using Lines = std::vector<std::string>;

Lines read(const std::string& path, int64_t limit = 64 << 20) {
  Lines lines;
  ByteReader reader(path);
  for (std::string line; reader.read_line(line, limit);) lines.push_back(line);
  return lines;
}

// Returns the problem without the file's path.
std::string problem(const std::string& content) {
  TemporaryFolder folder;
  const std::string path = folder.write("a", content);
  return error_of([&] { read(path); }).substr(path.size());
}

std::string repeated(const std::string& text, int64_t count) {
  std::string all;
  for (int64_t i = 0; i < count; ++i) all += text;
  return all;
}

// Returns lines of text that hardly compress.
std::string noise(int64_t lines) {
  std::string text;
  uint64_t state = 1;
  for (int64_t i = 0; i < lines; ++i) {
    for (int k = 0; k < 60; ++k)
      text += static_cast<char>('!' + ((state = state * 6364136223846793005u + 1) >> 40) % 90);
    text += '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("lines end with a newline or the file") {
  TemporaryFolder folder;
  CHECK(read(folder.write("a", "one\ntwo\r\n\nthree\r\r\nfour")) ==
        Lines{"one", "two\r", "", "three\r\r", "four"});
  CHECK(read(folder.write("b", "")).empty());
  CHECK(read(folder.write("c", "\n")) == Lines{""});
  CHECK(read(folder.write("d", "x")) == Lines{"x"});
  CHECK(read(folder.write("e", std::string("a\0b\n", 4))) == Lines{std::string("a\0b", 3)});
  CHECK(read(folder.write("f", "\xef\xbb\xbfone\n\xef\xbb\xbftwo")) == Lines{"one", "\xef\xbb\xbftwo"});
  CHECK(read(folder.write("g", "\xef\xbb\xbf")).empty());
}

TEST_CASE("lines of every length come back whole, across the borders of reads") {
  TemporaryFolder folder;
  std::string content;
  Lines expected;
  for (size_t length : {0, 1, 262142, 262143, 262144, 262145, 5, 700000, 3, 1000001, 0, 2}) {
    expected.emplace_back(length, static_cast<char>('a' + expected.size()));
    content += expected.back() + "\n";
  }
  CHECK((read(folder.write("plain", content)) == expected));
  CHECK((read(folder.write("gz", gzip_of(content))) == expected));
  CHECK((read(folder.write("zst", zstd_of(content))) == expected));
}

TEST_CASE("bytes come with their line and column in characters") {
  TemporaryFolder folder;
  ByteReader reader(folder.write("a", "é\nab"));
  CHECK((reader.line() == 1 && reader.column() == 1));
  for (int i = 0; i < 2; ++i) reader.advance();
  CHECK((reader.line() == 1 && reader.column() == 2));
  for (int i = 0; i < 3; ++i) reader.advance();
  CHECK((reader.line() == 2 && reader.column() == 3));
  CHECK(reader.peek() == -1);
}

TEST_CASE("a line longer than the limit stops there") {
  TemporaryFolder folder;
  ByteReader reader(folder.write("a", std::string(5'000'000, 'x')));
  std::string line;
  REQUIRE(reader.read_line(line, 1000));
  CHECK((line.size() > 1000 && line.size() < 1'000'000));
}

TEST_CASE("gzip and zstd are told by their first bytes, in any number of pieces") {
  TemporaryFolder folder;
  const std::string text = noise(9000);  // larger than every buffer
  for (const auto& [name, packed] : std::map<std::string, std::string>{
           {"gzip", gzip_of(text)},
           {"members", gzip_of(text.substr(0, 300'001)) + gzip_of("") + gzip_of(text.substr(300'001))},
           {"padded", gzip_of(text) + std::string(1024, '\0')},
           {"zstd", zstd_of(text)},
           {"frames", zstd_of(text.substr(0, 77)) + zstd_of("") + zstd_of(text.substr(77))},
           {"skippable", std::string("\x50\x2a\x4d\x18\x03\x00\x00\x00"
                                     "abc",
                                     11) +
                             zstd_of(text)}}) {
    INFO(name);
    std::string all;
    for (const std::string& line : read(folder.write(name + ".jsonl", packed))) all += line + "\n";
    CHECK((all == text));
  }
  CHECK(read(folder.write("empty", gzip_of(""))).empty());
  CHECK(read(folder.write("empty", zstd_of(""))).empty());
  CHECK(read(folder.write("bom", gzip_of("\xef\xbb\xbfone"))) == Lines{"one"});
}

TEST_CASE("a damaged compressed file is an error with the line and the byte") {
  using Catch::Contains;
  using Catch::StartsWith;
  const std::string text = noise(1000);
  std::string packed = gzip_of(text);
  CHECK_THAT(problem(packed.substr(0, packed.size() / 2)),
             Contains(": the file ends inside its gzip data at byte "));
  CHECK_THAT(problem(packed.substr(0, packed.size() - 1)),
             StartsWith(":1001:1: the file ends inside its gzip data at byte " + std::string()));
  CHECK_THAT(problem(packed.substr(0, 5)),
             StartsWith(":1:1: the file ends inside its gzip data at byte 5 of the"));
  CHECK_THAT(problem(packed + "junk"), StartsWith(":1001:1: damaged gzip data"));
  CHECK_THAT(problem(packed + "junk"), Contains("bytes that are not gzip follow the data"));
  packed[packed.size() - 6] ^= 1;
  CHECK_THAT(problem(packed), StartsWith(":1001:1: damaged gzip data at byte "));
  CHECK_THAT(problem(packed), Contains("incorrect data check"));
  CHECK_THAT(problem("\x1f\x8b\x07 a method that is none"), Contains("unknown compression method"));

  packed = zstd_of(text);
  CHECK_THAT(problem(packed.substr(0, packed.size() / 2)),
             Contains(": the file ends inside its zstd data at byte "));
  CHECK_THAT(problem(packed.substr(0, 4)),
             StartsWith(":1:1: the file ends inside its zstd data at byte 4 of the"));
  CHECK_THAT(problem(packed + "junk"), StartsWith(":1001:1: damaged zstd data"));
  packed[packed.size() - 2] ^= 1;
  CHECK_THAT(problem(packed), Contains("damaged zstd data"));
  CHECK_THAT(problem(packed), Contains("checksum"));
}

TEST_CASE("what makes unreasonably much of little is refused before it is read through") {
  const std::string blanks(100'000'000, '\n');
  CHECK_THAT(problem(gzip_of(blanks)), Catch::Contains("(a decompression bomb?)"));
  CHECK_THAT(problem(zstd_of(blanks)), Catch::Contains("(a decompression bomb?)"));
  // Repetitive rows are not a decompression bomb.
  TemporaryFolder folder;
  CHECK(read(folder.write("a", gzip_of(repeated(noise(100), 1000)))).size() == 100'000);
}

TEST_CASE("a zstd window of more than 128 MiB is refused, not allocated") {
  CHECK_THAT(problem(zstd_of(noise(100), 28)), Catch::Contains("needs a window of more than 128 MiB"));
  TemporaryFolder folder;
  CHECK(read(folder.write("a", zstd_of(noise(100), 27))).size() == 100);
}

TEST_CASE("what is no text is refused by name") {
  CHECK(problem("PK\x03\x04 zip") == ": is a zip archive, expected text");
  CHECK(problem("PK\x03\x04 [Content_Types].xml xl/workbook.xml") ==
        ": is a workbook (Excel), expected text");
  CHECK(problem("%PDF-1.4\nx") == ": is a PDF, expected text");
  CHECK(problem("{\\rtf1\\ansi x}") == ": is rich text (RTF), expected plain text");
  CHECK(problem(std::string("\xFD"
                            "7zXZ\0 ",
                            7)) == ": is compressed with xz, expected text, gzip or zstd");
  CHECK(problem("BZh91AY&SY   ") == ": is compressed with bzip2, expected text, gzip or zstd");
  CHECK(problem("PAR1....PAR1") == ": is Parquet, expected text");
  CHECK(problem(std::string("ARROW1\0\0", 8)) == ": is an Arrow file, expected text");
  CHECK(problem("\xff\xfe{") == ": is UTF-16, expected UTF-8");
  CHECK(problem(gzip_of("\xfe\xff{")) == ": is UTF-16, expected UTF-8");
  CHECK(problem(gzip_of(gzip_of("{}"))) == ": is compressed twice, expected once");
}

TEST_CASE("only regular files are read, and errors are of the data") {
  TemporaryFolder folder;
  REQUIRE(mkfifo(folder.path("pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { ByteReader(folder.path("pipe")); }),
             Catch::EndsWith("is not a regular file (a pipe or device)"));
  CHECK_THAT(error_of([&] { ByteReader(folder.path()); }), Catch::EndsWith("is a folder, expected a file"));
  try {
    ByteReader reader(folder.path("absent"));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    CHECK_THAT(error.what(), Catch::EndsWith("cannot open: No such file or directory"));
  }
}
