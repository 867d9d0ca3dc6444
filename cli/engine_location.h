#pragma once
// Finds the engine and LibTorch, makes the environment that they are started in, and says which
// devices they and the libraries of this machine can compute on.
//
//   EngineLocation location = engine_of(plan.device, plan.engine);
//   const DeviceChoice choice = choose_device(probe_hardware(), job.hardware, fault_here);
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/machine/device.h"

namespace forge {

struct EngineLocation {
  std::string program;  // absolute path of forge-engine
  // The folder that holds torch/ and nvidia/; empty: the engine finds LibTorch by itself.
  std::string torch_folder;
  std::string torch_version;                 // "2.11.0+cu130"
  std::vector<std::string> library_folders;  // torch/lib and nvidia/*/lib
};

// Returns the file of a plan's engine: cpu is forge-engine, cuda13 is forge-engine-cuda13.
std::string engine_file(const std::string& engine);
// True if FORGE_ENGINE names the program that is started for every engine.
bool engine_stated();
// The result of a search that does not throw: what was found, and each fault with its remedy. A
// fault of the engine lists where it was looked for and says what to install.
struct EngineSearch {
  EngineLocation location;
  bool stated = false;  // engine_stated()
  CardFault engine_fault, torch_fault;
};
// Looks for the engine `name`, "forge-engine" or "forge-engine-cuda13", at FORGE_ENGINE, beside the
// program and in ../libexec; and for LibTorch in FORGE_TORCH_DIR, or where find_package_folder has
// the release that the engine was built with.
EngineSearch search_engine(const std::string& name = "forge-engine");

struct EngineSettings {
  int64_t threads = 0;         // 0: leave the environment's
  bool deterministic = false;  // fixes cuBLAS' workspace
  std::optional<int> lock;     // RunLock::descriptor(): the engine shares it as its descriptor kEngineLock
};
constexpr int kEngineLock = 3;

// Returns the variables that the engine is started with, on top of the program's own.
std::map<std::string, std::string> engine_environment(const EngineLocation& location,
                                                      const EngineSettings& settings);

// Returns this program's variables with `extra` in place of those of the same names, each as
// NAME=VALUE.
std::vector<std::string> merged_environment(const std::map<std::string, std::string>& extra);

// Returns the shared libraries that an engine lacks on this machine: {"libcufile.so.0"}. Asks the
// loader itself, as ldd does, without starting the engine: with every run path, cache and variable
// that the engine's start obeys. Takes about 10 ms. Empty also if the loader does not answer: the
// engine's start will then say what is wrong.
std::vector<std::string> missing_libraries(const EngineLocation& location);

// Returns how to get them: LibTorch's wheels with their CUDA libraries, or the system's packages.
std::string library_remedy(const std::vector<std::string>& names);

// Returns the card's own fault, else why its engine cannot be started; without words if nothing is
// known against it. Throws Error(environment) if FORGE_ENGINE names a program that is not there: a
// choice of the user is never passed over.
CardFault fault_here(const Device& device);

// Returns the engine that computes a planned device. Throws Error(environment) for a fault of the
// search, if no engine computes on such a card, or if the card is not in this machine and
// FORGE_ENGINE names no engine that stands in for it; Error(fit) if the address space is limited
// too far.
EngineLocation engine_of(const Device& device, const std::string& engine);

}  // namespace forge
