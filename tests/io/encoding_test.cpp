#include "core/lib/io/encoding.h"

#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string problem(const std::string& text) {
  size_t bad = 0;
  REQUIRE_FALSE(valid_utf8(text, &bad));
  return utf8_problem(text, bad);
}

}  // namespace

TEST_CASE("text of Windows-1252 is named, with the way to convert it") {
  for (const auto& [text, character] : std::vector<std::pair<std::string, std::string>>{
           {"a caf\xE9 in town", "é"},
           {"it\x92s here", "’"},
           {"\x93Hello\x94, he said", "“"},
           {"cr\xE9\xE9" "e hier", "é"},
           {"Gr\xFC\xDF" "e aus K\xF6ln", "ü"},
           {"yes \x96 no", "–"},
           {"\x84so\x93, sagt er", "„"},
           {"1;\x80 5", "€"}})
    CHECK_THAT(problem(text), Catch::StartsWith("not valid UTF-8: the byte is " + character + " in Latin-1") &&
                                  Catch::Contains("iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"));
}

TEST_CASE("other bytes are not taken for Windows-1252") {
  for (const std::string text : {std::string("caf\xC3\xA9 \xE9t\xE9"),               // damaged UTF-8
                                 std::string("\xCF\xF0\xE8\xE2\xE5\xF2"),            // Windows-1251
                                 std::string("\x93\xFA\x96\x7B\x8C\xEA"),            // Shift-JIS
                                 std::string("\xFF\xFEh\0i\0", 6),                   // UTF-16
                                 std::string("\x01\x02" "abc\xE9" "def")})
    CHECK(problem(text) == "not valid UTF-8");
}
