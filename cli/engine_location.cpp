#include "cli/engine_location.h"

#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/base/file.h"
#include "core/base/text.h"
#include "forge_build.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool executable(const fs::path& path) {
  return file_exists(path.string()) && ::access(path.c_str(), X_OK) == 0;
}

// python3's own answer, without a shell. Costs about 15 ms, so it is asked last.
std::vector<std::string> python_folders() {
  FILE* pipe = ::popen("python3 -c 'import sys; print(\"\\n\".join(sys.path))' 2>/dev/null", "r");
  if (!pipe) return {};
  std::string output;
  char buffer[4096];
  for (size_t count; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0 && output.size() < 65536;)
    output.append(buffer, count);
  ::pclose(pipe);
  std::vector<std::string> folders;
  for (const std::string& line : split(output, '\n'))
    if (!line.empty()) folders.push_back(line);
  return folders;
}

bool holds_torch(const std::string& folder) {
  return !folder.empty() && file_exists(folder + "/torch/lib/libtorch_cpu.so");
}

// The text between the first pair of quotes after "__version__", in torch/version.py.
std::string version_of(const std::string& folder) {
  std::string path = folder + "/torch/version.py";
  if (!file_exists(path)) return "";
  std::string text = read_file(path, 1 << 20, ErrorKind::environment);
  size_t key = text.find("__version__ =");
  size_t begin = key == std::string::npos ? key : text.find('\'', key);
  size_t end = begin == std::string::npos ? begin : text.find('\'', begin + 1);
  return end == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
}

std::vector<std::string> library_folders_of(const std::string& folder) {
  std::vector<std::string> folders{folder + "/torch/lib"};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder + "/nvidia", error))
    if (is_directory(entry.path() / "lib")) folders.push_back(entry.path() / "lib");
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

std::string install_hint() {
  return std::string("install it with: python3 -m pip install torch==") + kTorchVersion +
         " and set FORGE_TORCH_DIR to the folder that holds torch/";
}

void search_program(const std::string& name, EngineSearch& search) {
  std::vector<fs::path> candidates;
  if (std::string given = environment("FORGE_ENGINE"); !given.empty()) {
    candidates = {given};  // an explicit choice is never ignored
  } else {
    const fs::path here = program_folder();
    candidates = {here / name, here / "../libexec" / name};
  }
  std::vector<std::string> looked;
  for (const fs::path& candidate : candidates) {
    if (executable(candidate)) {
      search.location.program = fs::absolute(candidate).lexically_normal();
      return;
    }
    looked.push_back(candidate.lexically_normal());
  }
  search.engine_fault = "cannot find the engine " + name + "; looked for " + join(looked, ", ");
  search.engine_hint = "build it with -DFORGE_ENGINE=ON, or set FORGE_ENGINE to its path";
}

void search_torch(EngineSearch& search) {
  std::string given = environment("FORGE_TORCH_DIR");
  std::string folder;
  if (!given.empty()) {
    if (!holds_torch(given)) {
      search.torch_fault = "FORGE_TORCH_DIR=" + given + ": holds no torch/lib/libtorch_cpu.so";
      search.torch_hint = install_hint();
      return;
    }
    folder = given;
  } else if (holds_torch(kTorchFolder)) {
    folder = kTorchFolder;
  } else {
    for (const std::string& candidate : python_folders())
      if (folder.empty() && holds_torch(candidate)) folder = candidate;
  }
  if (folder.empty()) {
    search.torch_fault = std::string("cannot find LibTorch ") + kTorchVersion;
    search.torch_hint = install_hint();
    return;
  }
  search.location.torch_folder = fs::absolute(folder).lexically_normal();
  search.location.torch_version = version_of(folder);
  search.location.library_folders = library_folders_of(search.location.torch_folder);
  std::string release = search.location.torch_version.substr(0, search.location.torch_version.find('+'));
  if (release != kTorchVersion) {
    search.torch_fault = folder + ": LibTorch " + (release.empty() ? "of an unknown version" : release) +
                         ", expected " + kTorchVersion;
    search.torch_hint = install_hint();
  }
}

}  // namespace

std::string program_folder() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) return program.parent_path();
  // Without /proc: the path the program was started with.
  const auto* started_as = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return fs::weakly_canonical(started_as ? started_as : ".", error).parent_path();
}

EngineSearch search_engine(const std::string& name) {
  EngineSearch search;
  search_torch(search);
  search_program(name, search);
  return search;
}

// With less than this LibTorch's libraries crash or hang while they start, without a word.
static void require_address_space() {
  constexpr rlim_t kNeeded = rlim_t{1} << 30;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kNeeded) return;
  throw Error(ErrorKind::fit, "the address space is limited to " + format_bytes(static_cast<int64_t>(limit.rlim_cur)) +
                                  " (ulimit -v), and the engine with its libraries needs " +
                                  format_bytes(static_cast<int64_t>(kNeeded)) + " or more")
      .hint("ulimit -v unlimited; hardware.memory_limit bounds what a run may use");
}

EngineLocation find_engine(const std::string& name) {
  require_address_space();
  EngineSearch search = search_engine(name);
  if (!search.engine_fault.empty())
    throw Error(ErrorKind::environment, search.engine_fault).hint(search.engine_hint);
  if (!search.torch_fault.empty())
    throw Error(ErrorKind::environment, search.torch_fault).hint(search.torch_hint);
  return search.location;
}

std::string engine_file(const std::string& engine) {
  return engine == "cpu" ? "forge-engine" : "forge-engine-" + engine;
}

std::map<std::string, std::string> engine_environment(const EngineLocation& location,
                                                      const EngineSettings& settings) {
  std::map<std::string, std::string> variables;
  std::vector<std::string> folders = location.library_folders;
  if (std::string own = environment("LD_LIBRARY_PATH"); !own.empty()) folders.push_back(own);
  if (!folders.empty()) variables["LD_LIBRARY_PATH"] = join(folders, ":");
  if (settings.threads > 0) {
    // Sums depend on how work is cut into threads: the count is the plan's, and nothing may change it on the
    // way.
    variables["OMP_NUM_THREADS"] = variables["MKL_NUM_THREADS"] = std::to_string(settings.threads);
  }
  variables["OMP_DYNAMIC"] = "false";
  variables["MKL_DYNAMIC"] = "FALSE";
  // Threads meet thousands of times a step. Where others want the cores too, one that spins keeps away the one it waits for.
  if (environment("GOMP_SPINCOUNT").empty() && environment("OMP_WAIT_POLICY").empty()) variables["GOMP_SPINCOUNT"] = "3000";
  // Freed buffers stay in the heap: mapping and zeroing them anew in every step costs as much as filling
  // them. 32 MiB is the largest threshold that glibc accepts.
  variables["MALLOC_MMAP_THRESHOLD_"] = "33554432";
  variables["MALLOC_TRIM_THRESHOLD_"] = "1073741824";
  if (environment("PYTORCH_CUDA_ALLOC_CONF").empty())
    variables["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True";
  if (settings.deterministic) variables["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8";
  return variables;
}

}  // namespace forge
