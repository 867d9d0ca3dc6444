// Checks the rule of the rooms (docs/architecture.md) on every #include line of the tree.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;
namespace fs = std::filesystem;

namespace {

const std::string kRoot = FORGE_SOURCE_DIR;

// The rooms of core in their order: each may include those before it.
const std::vector<std::string> kRooms{"core/lib", "core/graph", "core/job", "core/learn", "core/data", "core/model", "core/plan", "core/run", "core/train"};

// The folders of a room in their order, by the same rule.
const std::map<std::string, std::vector<std::string>> kInside{
    {"core/lib", {"core/lib/base", "core/lib/io", "core/lib/net", "core/lib/hub", "core/lib/text", "core/lib/schema", "core/lib/tensor"}},
    {"core/learn", {"core/learn/objective", "core/learn/reward", "core/learn/reinforce", "core/learn/rollout"}},
    {"core/data", {"core/data/batch", "core/data/rows", "core/data/read", "core/data/examples", "core/data/report", "core/data"}},
    {"core/model", {"core/model/graph", "core/model/stored", "core/model/families", "core/model", "core/model/adapter"}},
    {"core/plan", {"core/plan/machine", "core/plan/files", "core/plan/memory", "core/plan/stages", "core/plan/fit", "core/plan"}},
    {"core/run", {"core/run", "core/run/host", "core/run/evaluate", "core/run/export"}},
    {"core/train", {"core/train/optim", "core/train"}},
};

// Folders that a room may include besides, and those that a folder beside core may.
const std::map<std::string, std::set<std::string>> kBeside{
    {"core/model", {"kernels"}},
    {"core/plan", {"kernels"}},
    {"core/run", {"kernels"}},
    {"core/train", {"kernels", "providers"}},
    {"kernels", {"core/lib", "core/graph"}},
    {"providers", {"core/lib", "core/graph", "core/job", "core/model", "core/plan", "kernels"}},
    {"cli", {"core/lib", "core/job", "core/learn", "core/data", "core/model", "core/plan", "core/run", "providers"}},
    {"engine", {"core/lib", "core/job", "core/learn", "core/data", "core/model", "core/plan", "core/run", "core/train", "kernels", "providers"}},
};

std::string room_of(const std::string& path) {
  for (const std::string& room : kRooms)
    if (starts_with(path, room + "/")) return room;
  for (const char* folder : {"kernels", "providers", "cli", "engine"})
    if (starts_with(path, folder + std::string("/"))) return folder;
  return "";
}

// Returns the place in a list of folders; the longest one that holds the path counts. -1 if none
// does.
int64_t place_in(const std::vector<std::string>& folders, const std::string& path) {
  int64_t best = -1;
  for (size_t i = 0; i < folders.size(); ++i)
    if (starts_with(path, folders[i] + "/") && (best < 0 || folders[i].size() > folders[static_cast<size_t>(best)].size()))
      best = static_cast<int64_t>(i);
  return best;
}

bool may_include(const std::string& path, const std::string& included) {
  const std::string from = room_of(path), to = room_of(included);
  if (const auto beside = kBeside.find(from); beside != kBeside.end() && beside->second.count(to) > 0) return true;
  if (from != to) return starts_with(from, "core/") && starts_with(to, "core/") && place_in(kRooms, included) < place_in(kRooms, path);
  const auto inside = kInside.find(from);
  return inside == kInside.end() || place_in(inside->second, included) <= place_in(inside->second, path);
}

bool torch_free(const std::string& path) {
  static const std::vector<std::string> kWithTorch{"core/lib/tensor", "core/model/adapter", "core/train"};
  if (room_of(path) == "core/model")
    return starts_with(path, "core/model/graph/") || starts_with(path, "core/model/stored/") || starts_with(path, "core/model/families/");
  if (starts_with(path, "kernels/call/") || path.find("_op.") != std::string::npos) return true;
  return (starts_with(path, "core/") || starts_with(path, "cli/")) && place_in(kWithTorch, path) < 0;
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
    if (room_of(path).empty()) faults.push_back(path + " lies in no room");
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
      if (!room_of(included).empty() && !may_include(path, included)) faults.push_back(path + " includes " + included);
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
