// Checks that functions are defined beside their header: a .cpp with a header of its name defines
// nothing that another header declares, any other .cpp serves one header, and both are in one
// folder (or the .cpp in one below). The test reads declarations and definitions at the left
// margin. Names that several headers declare or several files define are left out, since a name
// alone does not distinguish them.
#include <map>
#include <regex>
#include <set>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;
namespace fs = std::filesystem;

namespace {

using FilesOfName = std::map<std::string, std::set<std::string>>;

// Returns the names of the functions whose heads end in `end`: ';' finds declarations, '{'
// definitions.
std::vector<std::string> functions_of(const std::string& text, char end) {
  static const std::regex kComment(R"(//[^\n]*)");
  static const std::string kHead =
      R"((?:^|\n)(?!using|typedef|struct|class|enum|template|constexpr|inline|static|namespace|friend|return)[A-Za-z][\w:<>,&* \[\]]*[ &*](\w+)\([^;{}]*\)\s*(?:noexcept)?\s*)";
  static const std::regex kDeclared(kHead + ";"), kDefined(kHead + R"(\{)");
  const std::string code = std::regex_replace(text, kComment, "");
  const std::regex& wanted = end == ';' ? kDeclared : kDefined;
  std::vector<std::string> names;
  for (std::sregex_iterator match(code.begin(), code.end(), wanted), none; match != none; ++match)
    names.push_back((*match)[1]);
  return names;
}

// Returns what is wrong if `source` defines a function that `header` declares; empty if nothing is.
std::string misplaced(const std::string& header, const std::string& source, bool source_has_header) {
  const fs::path above = fs::path(header).parent_path(), below = fs::path(source).parent_path();
  if (fs::path(header).replace_extension() == fs::path(source).replace_extension()) return "";
  if (source_has_header) return "it has a header of its own";
  if (below != above && !starts_with(below.string(), above.string() + "/"))
    return "it lies in another folder";
  return "";
}

}  // namespace

TEST_CASE("functions of a file are found") {
  const std::string text =
      "// int in_comment(int);\nstruct A {\n  int member();\n};\nint declared(int a,\n             int b);\n"
      "std::vector<int>& made(const A& a) {\n  return call(a);\n}\nstatic int hidden();\n";
  CHECK(functions_of(text, ';') == std::vector<std::string>{"declared"});
  CHECK(functions_of(text, '{') == std::vector<std::string>{"made"});
}

TEST_CASE("a misplaced function is told") {
  CHECK(misplaced("core/a/x.h", "core/a/x.cpp", true).empty());
  CHECK(misplaced("core/a/x.h", "core/a/b/y.cpp", false).empty());
  CHECK(misplaced("core/a/x.h", "core/a/y.cpp", true) == "it has a header of its own");
  CHECK(misplaced("core/a/x.h", "core/b/y.cpp", false) == "it lies in another folder");
}

TEST_CASE("functions stand beside their header") {
  FilesOfName declared, defined;
  std::set<std::string> headers;
  for (const char* part : {"cli", "core", "engine", "kernels", "providers"})
    for (const auto& entry : fs::recursive_directory_iterator(std::string(FORGE_SOURCE_DIR) + "/" + part)) {
      const std::string path = entry.path().string();
      const bool header = ends_with(path, ".h");
      if (!header && !ends_with(path, ".cpp")) continue;
      const std::string name = fs::relative(path, FORGE_SOURCE_DIR).string();
      if (header) headers.insert(name);
      for (const std::string& function :
           functions_of(read_file(path, 1 << 24, ErrorKind::internal), header ? ';' : '{'))
        (header ? declared : defined)[function].insert(name);
    }
  size_t looked_at = 0;
  std::map<std::string, std::set<std::string>> served;  // by .cpp
  for (const auto& [function, in] : declared) {
    const auto by = defined.find(function);
    if (in.size() != 1 || by == defined.end() || by->second.size() != 1) continue;
    ++looked_at;
    const std::string &header = *in.begin(), &source = *by->second.begin();
    served[source].insert(header);
    const std::string fault =
        misplaced(header, source, headers.count(fs::path(source).replace_extension(".h").string()) > 0);
    INFO(function << ", declared in " << header << ", is defined in " << source << ": " << fault);
    CHECK(fault.empty());
  }
  CHECK(looked_at > 400);  // the tree was found
  for (const auto& [source, of] : served) {
    INFO(source << " defines what several headers declare: " << join({of.begin(), of.end()}, ", "));
    CHECK(of.size() == 1);
  }
}
