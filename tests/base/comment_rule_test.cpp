// Comments are sentences about the thing declared ("Returns …", "True if …"): none begins as a
// clause whose subject is elsewhere, and no line of one has more than 100 columns.
#include <regex>

#include "core/base/file.h"
#include "core/base/text.h"
#include "tests/test.h"

using namespace forge;
namespace fs = std::filesystem;

namespace {

constexpr size_t kMostColumns = 100;

// The column of the comment in a line of code, past texts in quotes; npos without one.
size_t comment_in(std::string_view line) {
  char quote = 0;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == '\\') ++i;
      else if (line[i] == quote) quote = 0;
    } else if (line[i] == '"' || (line[i] == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(line[i - 1]))))) {
      quote = line[i];
    } else if (line[i] == '/' && line[i + 1] == '/') {
      return i;
    }
  }
  return std::string_view::npos;
}

// UTF-8 characters.
size_t columns(std::string_view line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

// Faults of a file's comments, each "LINE: fault".
std::vector<std::string> faults_of(const std::string& text) {
  static const std::regex kHeadless(R"(^//+ *(Of|What|Whether|Those|The same|How|As|And back|Which|Who)\b.*)");
  std::vector<std::string> faults;
  bool goes_on = false;  // the line before is a comment of its own
  size_t number = 0;
  std::string raw_end;  // what ends the raw string that the line is in
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (!raw_end.empty()) {
      if (line.find(raw_end) != std::string::npos) raw_end.clear();
      continue;
    }
    if (const size_t raw = line.find("R\""); raw != std::string::npos) {
      const size_t open = line.find('(', raw);
      const std::string end = open == std::string::npos ? "" : ")" + line.substr(raw + 2, open - raw - 2) + "\"";
      if (!end.empty() && line.find(end, open) == std::string::npos) raw_end = end;
      goes_on = false;
      continue;
    }
    const size_t at = comment_in(line);
    const bool alone = at != std::string::npos && trim(line.substr(0, at)).empty();
    if (at != std::string::npos && !(alone && goes_on) && std::regex_match(line.substr(at), kHeadless))
      faults.push_back(std::to_string(number) + ": begins as a clause without a subject: " + line.substr(at));
    // An indented line is a formula or an example.
    if (alone && columns(line) > kMostColumns && line.compare(at, 4, "//  ") != 0)
      faults.push_back(std::to_string(number) + ": has " + std::to_string(columns(line)) + " columns, expected at most " + std::to_string(kMostColumns));
    goes_on = alone;
  }
  return faults;
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

TEST_CASE("comments are sentences") {
  size_t files = 0;
  for (const char* part : {"bench", "cli", "core", "engine", "kernels", "providers", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(std::string(FORGE_SOURCE_DIR) + "/" + part)) {
      const std::string path = entry.path().string();
      if (!ends_with(path, ".h") && !ends_with(path, ".cpp") && !ends_with(path, ".cu") && !ends_with(path, ".cuh")) continue;
      ++files;
      for (const std::string& fault : faults_of(read_file(path, 1 << 24, ErrorKind::internal)))
        FAIL_CHECK(fs::relative(path, FORGE_SOURCE_DIR).string() << ":" << fault);
    }
  CHECK(files > 1000);  // the tree was found
}
