// Comments are sentences about the thing declared ("Returns …", "True if …"): none begins as a
// clause whose subject is elsewhere, and no line of one has more than 100 columns. This holds for
// C++ and CUDA (//), and for Python, shell and CMake (#).
#include <regex>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;
namespace fs = std::filesystem;

namespace {

constexpr size_t kMostColumns = 100;
constexpr const char* kTripleQuote = "\"\"\"";

// True if a comment begins at `i`. A # must stand between blanks: $# and ${#names[@]} are code.
bool begins_comment(std::string_view line, size_t i, std::string_view mark) {
  if (line.substr(i, mark.size()) != mark) return false;
  return mark != "#" || ((i == 0 || line[i - 1] == ' ') && line.substr(i + 1, 1) == " ");
}

// The column of the comment in a line of code, past texts in quotes; npos without one.
size_t comment_in(std::string_view line, std::string_view mark) {
  char quote = 0;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == '\\') ++i;
      else if (line[i] == quote) quote = 0;
    } else if (line[i] == '"' || (line[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(line[i - 1]))))) {
      quote = line[i];
    } else if (begins_comment(line, i, mark)) {
      return i;
    }
  }
  return std::string_view::npos;
}

// The text that ends a raw (C++) or triple-quoted (Python) string which begins at `raw` and goes on
// after the line; empty if the string ends in it.
std::string end_of_string(const std::string& line, size_t raw, std::string_view mark) {
  if (mark == "#") return line.find(kTripleQuote, raw + 3) == std::string::npos ? kTripleQuote : "";
  const size_t open = line.find('(', raw);
  if (open == std::string::npos) return "";
  const std::string end = ")" + line.substr(raw + 2, open - raw - 2) + "\"";
  return line.find(end, open) == std::string::npos ? end : "";
}

// UTF-8 characters.
size_t columns(std::string_view line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

// Faults of a file's comments, each "LINE: fault". `mark` begins a comment: // or #.
std::vector<std::string> faults_of(const std::string& text, std::string_view mark = "//") {
  static const std::regex kHeadless(R"(^(//+|#) *(Of|What|Whether|Those|The same|How|As|And back|Which|Who)\b.*)");
  std::vector<std::string> faults;
  bool goes_on = false;  // the line before is a comment of its own
  size_t number = 0;
  std::string raw_end;  // ends the string that the line is in
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (!raw_end.empty()) {
      if (line.find(raw_end) != std::string::npos) raw_end.clear();
      continue;
    }
    if (const size_t raw = line.find(mark == "//" ? "R\"" : kTripleQuote); raw != std::string::npos) {
      raw_end = end_of_string(line, raw, mark);
      goes_on = false;
      continue;
    }
    const size_t at = comment_in(line, mark);
    const bool alone = at != std::string::npos && trim(line.substr(0, at)).empty();
    if (at != std::string::npos && !(alone && goes_on) && std::regex_match(line.substr(at), kHeadless))
      faults.push_back(std::to_string(number) + ": begins as a clause without a subject: " + line.substr(at));
    // An indented line is a formula or an example.
    if (alone && columns(line) > kMostColumns && line.compare(at, mark.size() + 2, std::string(mark) + "  ") != 0)
      faults.push_back(std::to_string(number) + ": has " + std::to_string(columns(line)) + " columns, expected at most " + std::to_string(kMostColumns));
    goes_on = alone;
  }
  return faults;
}

// The mark of comments in a file of the tree; empty for a file that is not checked.
std::string_view mark_of(const std::string& path) {
  for (const char* end : {".h", ".cpp", ".cu", ".cuh"})
    if (ends_with(path, end)) return "//";
  for (const char* end : {".py", ".sh", ".cmake", "CMakeLists.txt", ".ci/run"})
    if (ends_with(path, end)) return "#";
  return "";
}

}  // namespace

TEST_CASE("a comment without a subject is found") {
  CHECK(faults_of("// Returns it.\n// Of course this goes on.\nint a();  // bytes\nauto t = \"// Of\";\n").empty());
  CHECK(faults_of("int a();  // Of the rows.\n").size() == 1);
  CHECK(faults_of("// Whether it is.\nbool a();\n").size() == 1);
  CHECK(faults_of("auto t = R\"(\n// What a text says\n)\";\n// The same.\n").size() == 1);
  CHECK(faults_of("// " + std::string(98, 'x') + "\n").size() == 1);
  CHECK(faults_of("// " + std::string(97, 'x') + "\n").empty());
}

TEST_CASE("a comment without a subject is found in scripts") {
  CHECK(faults_of("#!/bin/sh\n# Returns it.\n# Of course this goes on.\nx = 1  # bytes\ny = \"# Of\"\n[ $# = 0 ]\n", "#").empty());
  CHECK(faults_of("x = 1  # Of the rows.\n", "#").size() == 1);
  CHECK(faults_of("#!/bin/sh\n# What CI runs.\n", "#").size() == 1);
  CHECK(faults_of("\"\"\"Text.\n# What a text says.\n\"\"\"\n# Who reads it.\n", "#").size() == 1);
  CHECK(faults_of("# " + std::string(99, 'x') + "\n", "#").size() == 1);
  CHECK(faults_of("# " + std::string(98, 'x') + "\n#   " + std::string(98, 'x') + "\n", "#").empty());
}

TEST_CASE("comments are sentences") {
  const fs::path root = FORGE_SOURCE_DIR;
  std::vector<fs::path> paths = {root / "CMakeLists.txt", root / ".ci/run"};
  for (const char* part : {"bench", "cli", "cmake", "core", "engine", "kernels", "packaging", "providers", "scripts", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(root / part)) paths.push_back(entry.path());
  size_t files = 0, scripts = 0;
  for (const fs::path& path : paths) {
    const std::string_view mark = mark_of(path.string());
    if (mark.empty()) continue;
    ++(mark == "#" ? scripts : files);
    for (const std::string& fault : faults_of(read_file(path.string(), 1 << 24, ErrorKind::internal), mark))
      FAIL_CHECK(fs::relative(path, root).string() << ":" << fault);
  }
  CHECK(files > 1000);  // the tree was found
  CHECK(scripts > 200);
}
