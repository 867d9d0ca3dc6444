#include "cli/engine_location.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/installation.h"
#include "core/lib/base/program_output.h"
#include "core/lib/base/text.h"
#include "core/plan/machine/card_fault.h"
#include "core/plan/machine/profile.h"
#include "forge_build.h"

extern char** environ;

namespace forge {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool holds_torch(const std::string& folder) {
  return !folder.empty() && file_exists(folder + "/torch/lib/libtorch_cpu.so");
}

// Returns the text between the first pair of quotes after "__version__", in torch/version.py.
std::string version_of(const std::string& folder) {
  std::string path = folder + "/torch/version.py";
  if (!file_exists(path)) return "";
  std::string text = read_file(path, 1 << 20, ErrorKind::environment);
  size_t key = text.find("__version__ =");
  size_t begin = key == std::string::npos ? key : text.find('\'', key);
  size_t end = begin == std::string::npos ? begin : text.find('\'', begin + 1);
  return end == std::string::npos ? "" : text.substr(begin + 1, end - begin - 1);
}

// Returns 2.11.0 for "2.11.0+cu130".
std::string release_of(const std::string& version) { return version.substr(0, version.find('+')); }

std::vector<std::string> library_folders_of(const std::string& folder) {
  std::vector<std::string> folders{folder + "/torch/lib"};
  for (const std::string& name : names_in(folder + "/nvidia"))
    if (const std::string lib = folder + "/nvidia/" + name + "/lib"; is_directory(lib))
      folders.push_back(lib);
  std::sort(folders.begin() + 1, folders.end());
  return folders;
}

std::string install_hint() {
  const fs::path packages = (fs::path(program_folder()) / "../libexec/forge/site-packages").lexically_normal();
  return std::string("install it: python3 -m pip install torch==") + kTorchVersion + " --target '" + packages.string() +
         "'; or set FORGE_TORCH_DIR to a folder that holds torch/";
}

// Returns how to build or get an engine that is not beside the program.
std::string way_to(const std::string& name) {
  if (name == engine_file("cpu")) return "scripts/build.sh -DFORGE_ENGINE=ON builds it";
  return "scripts/setup.sh --cuda && scripts/build.sh builds it (docs/install.md)";
}

void search_program(const std::string& name, EngineSearch& search) {
  std::vector<fs::path> candidates;
  search.stated = engine_stated();
  if (search.stated) {
    candidates = {environment("FORGE_ENGINE")};  // an explicit choice is never ignored
  } else {
    const fs::path here = program_folder();
    candidates = {here / name, here / "../libexec" / name};
  }
  std::vector<std::string> looked;
  for (const fs::path& candidate : candidates) {
    if (file_exists(candidate.string()) && ::access(candidate.c_str(), X_OK) == 0) {
      search.location.program = fs::absolute(candidate).lexically_normal();
      return;
    }
    looked.push_back(candidate.lexically_normal());
  }
  if (search.stated) {
    search.engine_fault = {
        "FORGE_ENGINE=" + looked[0] + ": there is no such program",
        "unset FORGE_ENGINE to use the engine beside forge, or set it to the path of one"};
    return;
  }
  search.engine_fault = {"the engine " + name + " is not installed; looked for " + join(looked, ", "),
                         way_to(name)};
}

void search_torch(EngineSearch& search) {
  std::string given = environment("FORGE_TORCH_DIR");
  std::string folder;
  if (!given.empty()) {
    if (!holds_torch(given)) {
      search.torch_fault = {"FORGE_TORCH_DIR=" + given + ": holds no torch/lib/libtorch_cpu.so", install_hint()};
      return;
    }
    folder = given;
  } else {
    const auto has_release = [](const std::string& candidate) {
      return holds_torch(candidate) && release_of(version_of(candidate)) == kTorchVersion;
    };
    folder = find_package_folder(has_release);
    if (folder.empty()) folder = find_package_folder(holds_torch);  // another release, to be named
    std::error_code error;
    if (fs::path real = fs::canonical(folder, error); !error) folder = real;
  }
  if (folder.empty()) {
    search.torch_fault = {std::string("cannot find LibTorch ") + kTorchVersion, install_hint()};
    return;
  }
  search.location.torch_folder = fs::absolute(folder).lexically_normal();
  search.location.torch_version = version_of(folder);
  search.location.library_folders = library_folders_of(search.location.torch_folder);
  std::string release = release_of(search.location.torch_version);
  if (release != kTorchVersion)
    search.torch_fault = {folder + ": LibTorch " + (release.empty() ? "of an unknown version" : release) +
                              ", expected " + kTorchVersion,
                          install_hint()};
}

// True for libraries of CUDA and LibTorch, which Python's wheels contain.
bool in_wheels(const std::string& name) {
  constexpr const char* kBeginnings[] = {"libcu",    "libnv",  "libnccl",
                                         "libtorch", "libc10", "libshm"};
  return std::ranges::any_of(kBeginnings, [&](auto* begin) { return starts_with(name, begin); });
}

}  // namespace

bool engine_stated() { return !environment("FORGE_ENGINE").empty(); }

EngineSearch search_engine(const std::string& name) {
  EngineSearch search;
  search_torch(search);
  search_program(name, search);
  return search;
}

// Throws Error(fit) if the address space is too small: with less than this, LibTorch's libraries
// crash or hang without a message while they start.
static void require_address_space() {
  constexpr rlim_t kNeeded = rlim_t{1} << 30;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kNeeded) return;
  throw Error(ErrorKind::fit, "the address space is limited to " + format_bytes(static_cast<int64_t>(limit.rlim_cur)) +
                                  " (ulimit -v), and the engine with its libraries needs " +
                                  format_bytes(static_cast<int64_t>(kNeeded)) + " or more")
      .hint("ulimit -v unlimited; hardware.memory_limit bounds what a run may use");
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
    // Sums depend on how work is cut into threads: the plan states the count, and nothing may
    // change it.
    variables["OMP_NUM_THREADS"] = variables["MKL_NUM_THREADS"] = std::to_string(settings.threads);
  }
  variables["OMP_DYNAMIC"] = "false";
  variables["MKL_DYNAMIC"] = "FALSE";
  // Threads meet thousands of times a step. If other processes want the cores too, a spinning
  // thread keeps away the one that it waits for. SmolLM2, two threads on two cores of an AMD EPYC,
  // tokens/s alone and beside two busy processes: bf16 1,038 and 316 with libgomp's default, 1,007
  // and 417 with 3000; fp32 334 and 115, 330 and 165. Threads that sleep at once
  // (OMP_WAIT_POLICY=passive) cost 9 % on a quiet machine.
  if (environment("GOMP_SPINCOUNT").empty() && environment("OMP_WAIT_POLICY").empty()) variables["GOMP_SPINCOUNT"] = "3000";
  // Freed buffers stay in the heap: mapping and zeroing them anew in every step costs as much as
  // filling them. 32 MiB is the largest threshold that glibc accepts.
  variables["MALLOC_MMAP_THRESHOLD_"] = "33554432";
  variables["MALLOC_TRIM_THRESHOLD_"] = "1073741824";
  if (environment("PYTORCH_CUDA_ALLOC_CONF").empty())
    variables["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True";
  if (settings.deterministic) variables["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8";
  return variables;
}

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& extra) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry; ++entry) {
    std::string_view text = *entry;
    if (!extra.contains(std::string(text.substr(0, text.find('='))))) merged.emplace_back(text);
  }
  for (const auto& [name, value] : extra) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<std::string> missing_libraries(const EngineLocation& location) {
  // ld.so(8): with this variable the loader lists what a program needs and leaves before it begins.
  auto variables = engine_environment(location, {});
  variables["LD_TRACE_LOADED_OBJECTS"] = "1";
  std::vector<std::string> names;
  const std::string listed = program_output({location.program}, merged_environment(variables));
  for (const std::string& line : split(listed, '\n'))
    if (const size_t at = line.find(" => not found"); at != std::string::npos)
      if (const std::string name(trim(line.substr(0, at))); std::ranges::count(names, name) == 0)
        names.push_back(name);
  return names;
}

std::string library_remedy(const std::vector<std::string>& names) {
  if (!std::ranges::all_of(names, in_wheels))
    return "install the packages of this system that hold them";
  // pip installs into the environment that LibTorch is in, or else replaces what is in its folder.
  const fs::path packages = search_engine().location.torch_folder;
  const fs::path python = (packages / "../../../bin/python3").lexically_normal();
  const bool environment = starts_with(packages.parent_path().filename().string(), "python3") && file_exists(python.string());
  const std::string install = fmt::format("{}python3 -m pip install torch=={}",
                                          environment ? python.parent_path().string() + "/" : "", kTorchVersion);
  return "in a checkout scripts/setup.sh --cuda brings CUDA's libraries; elsewhere " + install +
         (environment ? "" : " --upgrade --target '" + packages.string() + "'") +
         "; or set FORGE_TORCH_DIR to a folder that holds torch/ and nvidia/";
}

static CardFault engine_fault(const std::string& engine, int64_t compute_capability) {
  const EngineSearch search = search_engine(engine_file(engine));
  if (search.engine_fault && search.stated)
    throw Error(ErrorKind::environment, search.engine_fault.what).hint(search.engine_fault.remedy);
  if (search.engine_fault) return search.engine_fault;
  if (search.torch_fault) return {};  // the CPU's engine lacks it too; engine_of says so
  if (!search.stated)
    if (CardFault fault = generation_fault(compute_capability, kCudaTargets)) return fault;
  const std::vector<std::string> missing = missing_libraries(search.location);
  if (missing.empty()) return {};
  return {"its engine " + engine_file(engine) + " lacks " + join(missing, ", "), library_remedy(missing)};
}

CardFault fault_here(const Device& device) {
  if (CardFault fault = card_fault(device)) return fault;
  return engine_fault(pick_profile(device, {}).engine.value, device.gpu.compute_capability);
}

EngineLocation engine_of(const Device& device, const std::string& engine) {
  if (engine == kNoEngine)
    throw Error(ErrorKind::environment, "no engine computes on " + device.name()).hint("hardware.device: cpu");
  if (device.cuda && !device.gpu.probed && !engine_stated())
    throw Error(ErrorKind::environment, "a " + device.name() + " is not in this machine")
        .hint("forge plan shows what would happen on it; hardware.device: auto takes what is here");
  require_address_space();
  const EngineSearch search = search_engine(engine_file(engine));
  for (const CardFault& fault : {search.engine_fault, search.torch_fault})
    if (fault) throw Error(ErrorKind::environment, fault.what).hint(fault.remedy);
  return search.location;
}

}  // namespace forge
