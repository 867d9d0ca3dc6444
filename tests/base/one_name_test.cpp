// Checks that a name has one type: two types of one name in one namespace violate the
// one-definition rule, and no compiler reports it. The test reads every definition at the left
// margin. A type that is private to a file counts too if another file has a public type of the same
// name, since a header may bring both together.
#include <map>
#include <regex>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;
namespace fs = std::filesystem;

namespace {

// Returns the types of a file by their full names; those of unnamed namespaces are left out.
std::vector<std::string> types_of(const std::string& text) {
  static const std::regex kOpens(R"(^namespace\s*([\w:]*)\s*\{$)"), kType(R"(^(?:struct|class|enum class) (\w+)(?: final)?(?: : [^;(]*)? \{.*$)");
  std::vector<std::string> scopes, types;
  for (const std::string& line : split(text, '\n')) {
    std::smatch match;
    if (std::regex_match(line, match, kOpens)) scopes.push_back(match[1]);
    if (starts_with(line, "}  // namespace") && !scopes.empty()) scopes.pop_back();
    if (!std::regex_match(line, match, kType)) continue;
    const bool unnamed = std::find(scopes.begin(), scopes.end(), "") != scopes.end();
    if (!unnamed) types.push_back(join(scopes, "::") + "::" + match[1].str());
  }
  return types;
}

}  // namespace

TEST_CASE("the types of a file are found") {
  CHECK(types_of("namespace forge {\nstruct A {\nnamespace {\nstruct B {\n}  // namespace\nclass C final : public A {\n"
                 "enum class D { x };\nstruct E;\nstruct F f() {\n") ==
        std::vector<std::string>{"forge::A", "forge::C", "forge::D"});
}

TEST_CASE("no two types have one name") {
  std::map<std::string, std::vector<std::string>> places;
  for (const char* part : {"cli", "core", "engine", "kernels", "providers"})
    for (const auto& entry : fs::recursive_directory_iterator(std::string(FORGE_SOURCE_DIR) + "/" + part)) {
      const std::string path = entry.path().string();
      // Kernels are compiled once for each set of instructions, in a namespace each.
      if (!ends_with(path, ".h") && !ends_with(path, ".cpp")) continue;
      for (const std::string& type : types_of(read_file(path, 1 << 24, ErrorKind::internal)))
        if (type.find("FORGE_ISA") == std::string::npos) places[type].push_back(path);
    }
  CHECK(places.size() > 300);
  for (const auto& [type, files] : places) {
    INFO(type << ": " << join(files, ", "));
    CHECK(files.size() == 1);
  }
}
