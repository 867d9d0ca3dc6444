// Checks the dependency rule of docs/architecture.md on every #include line of the tree.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "core/base/text.h"
#include "tests/test.h"

using namespace forge;
namespace fs = std::filesystem;

namespace {

const std::string kRoot = FORGE_SOURCE_DIR;

// The folders that a folder may include besides itself. The longest prefix decides.
const std::map<std::string, std::set<std::string>> kMay{
    {"core/base", {}},
    {"core/net", {"core/base", "core/io"}},
    {"core/hub", {"core/base", "core/io", "core/net"}},
    {"core/config", {"core/base", "core/io", "core/hub"}},
    {"core/io", {"core/base"}},
    {"core/objective", {"core/base", "core/config"}},
    {"core/text", {"core/base", "core/io"}},
    {"core/data", {"core/base", "core/config", "core/io", "core/objective", "core/text"}},
    {"core/reward", {"core/base", "core/config", "core/io", "core/net", "core/text", "core/data"}},
    {"core/reinforce", {"core/base", "core/config"}},
    {"core/rollout", {"core/base", "core/config", "core/io", "core/objective", "core/reinforce"}},
    {"core/rollout/host",
     {"core/base", "core/config", "core/io", "core/net", "core/text", "core/data", "core/plan", "core/reward", "core/rollout", "core/run"}},
    {"core/graph", {"core/base", "core/config"}},
    {"core/families", {"core/base", "core/config", "core/io", "core/graph"}},
    {"core/plan",
     {"core/base", "core/config", "core/io", "core/objective", "core/text", "core/data", "core/graph", "core/families"}},
    {"core/run", {"core/base", "core/config", "core/io", "core/text", "core/data", "core/families", "core/plan"}},
    {"core/constrain", {"core/base", "core/io", "core/text", "core/reward"}},
    {"core/evaluate", {"core/base", "core/io", "core/text", "core/data", "core/run"}},
    {"core/export", {"core/base", "core/config", "core/io", "core/text", "core/families", "core/plan", "core/run", "kernels"}},
    {"cli",
     {"core/base", "core/config", "core/io", "core/objective", "core/text", "core/data", "core/families", "core/plan", "core/run", "core/constrain", "core/evaluate", "core/export", "core/hub", "core/net",
      "core/reward", "core/rollout", "core/rollout/host", "providers"}},
    {"core/tensor", {"core/base", "core/config", "core/io"}},
    {"kernels", {"core/base", "core/tensor"}},
    {"core/model",
     {"core/base", "core/config", "core/io", "core/data", "core/graph", "core/families", "core/plan", "core/tensor",
      "kernels"}},
    {"core/adapter",
     {"core/base", "core/config", "core/io", "core/families", "core/plan", "core/tensor", "core/model", "kernels"}},
    {"core/optim",
     {"core/base", "core/config", "core/families", "core/plan", "core/tensor", "core/model", "kernels"}},
    {"providers",
     {"core/base", "core/config", "core/graph", "core/families", "core/plan", "core/model", "kernels"}},
    {"core/train",
     {"core/base", "core/config", "core/io", "core/data", "core/graph", "core/families", "core/plan", "core/run", "core/tensor",
      "core/model", "core/adapter", "core/objective", "core/rollout", "core/reinforce", "core/optim", "providers", "kernels"}},
    {"engine",
     {"core/base", "core/config", "core/io", "core/text", "core/data", "core/families", "core/plan", "core/run", "core/tensor",
      "core/model", "core/train", "providers", "kernels"}},
};

std::string folder_of(const std::string& path) {
  std::string best;
  for (const auto& [folder, may] : kMay)
    if (starts_with(path, folder + "/") && folder.size() > best.size()) best = folder;
  return best;
}

bool torch_free(const std::string& path) {
  static const std::set<std::string> kFree{"core/base", "core/net", "core/hub", "core/config", "core/objective", "core/io",  "core/text",
                                           "core/data", "core/reward", "core/reinforce", "core/rollout", "core/rollout/host", "core/graph", "core/families", "core/plan", "core/run", "core/constrain", "core/evaluate", "core/export", "cli"};
  return kFree.count(folder_of(path)) > 0;
}

std::vector<std::string> sources() {
  std::vector<std::string> paths;
  for (const char* top : {"cli", "core", "engine", "kernels", "providers"})
    for (const auto& entry : fs::recursive_directory_iterator(kRoot + "/" + top)) {
      std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cpp")
        paths.push_back(fs::relative(entry.path(), kRoot).string());
    }
  return paths;
}

}  // namespace

TEST_CASE("includes follow the dependency rule") {
  std::vector<std::string> paths = sources();
  CHECK(paths.size() > 100);  // the tree was found
  std::vector<std::string> faults;
  for (const std::string& path : paths) {
    std::string from = folder_of(path);
    if (from.empty()) faults.push_back(path + " lies in no folder of the rule");
    std::ifstream file(kRoot + "/" + path);
    for (std::string line; std::getline(file, line);) {
      if (!starts_with(line, "#include")) continue;
      size_t begin = line.find_first_of("\"<"), end = line.find_last_of("\">");
      if (begin == std::string::npos) continue;  // a macro's file
      std::string included = line.substr(begin + 1, end - begin - 1);
      bool torch = line[begin] == '<' && (starts_with(included, "ATen/") || starts_with(included, "torch/") ||
                                          starts_with(included, "c10/"));
      if (torch && torch_free(path)) faults.push_back(path + " includes " + included);
      if (line[begin] != '"') continue;
      std::string to = folder_of(included);
      if (to.empty() || to == from) continue;
      if (!kMay.at(from).count(to)) faults.push_back(path + " includes " + included);
    }
  }
  INFO(join(faults, "\n"));
  CHECK(faults.empty());
}

TEST_CASE("the trainer does not know objectives, adapters, families or providers") {
  std::ifstream file(kRoot + "/core/train/trainer.cpp");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  REQUIRE(text.size() > 1000);
  for (const char* word :
       {"ObjectiveType", "AdapterType", "LoraInit", "family", "\"reference\"", "OptimizerType"}) {
    INFO(word);
    CHECK(text.find(word) == std::string::npos);
  }
}

TEST_CASE("a precompiled header holds none of the project's own") {
  static const std::regex kPrecompiled(R"(target_precompile_headers\(\w+ PRIVATE([^)]*)\))");
  int found = 0;
  for (const char* path : {"cmake/toolchain.cmake", "cmake/torch.cmake", "tests/CMakeLists.txt"}) {
    std::ifstream file(kRoot + "/" + path);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    for (std::sregex_iterator match(text.begin(), text.end(), kPrecompiled), none; match != none; ++match, ++found) {
      std::istringstream headers((*match)[1]);
      for (std::string header; headers >> header;) {
        INFO(path << ": " << header);
        CHECK(header.front() == '<');
      }
    }
  }
  CHECK(found == 3);
}
