#pragma once
// The engine as a child process: find it, start it, read its events, forward signals, explain its end.
// The two speak as docs/engine-protocol.md says.
//
//   EngineLocation location = find_engine(EngineKind::cpu);
//   EngineProcess engine(location, {.threads = 2});
//   Json done = engine.request({{"command", "info"}}, [](const Json& event) { … });
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/io/json.h"

namespace forge {

struct EngineLocation {
  std::string program;  // absolute path of forge-engine
  std::string
      torch_folder;  // the folder that holds torch/ and nvidia/; empty: the engine finds LibTorch by itself
  std::string torch_version;                 // "2.11.0+cu130"
  std::vector<std::string> library_folders;  // torch/lib and nvidia/*/lib
};

// The folder of the running program, from which its other files are found.
std::string program_folder();

// `name` is the engine the plan takes: "forge-engine", "forge-engine-cuda", "forge-engine-cuda12". Looked for
// as FORGE_ENGINE, beside the program, in ../libexec. LibTorch: FORGE_TORCH_DIR, the path recorded at build,
// python3's site-packages. Throws Error(environment) that lists where it looked and says what to install.
EngineLocation find_engine(const std::string& name = "forge-engine");
// The file of a plan's engine: cpu is forge-engine, cuda13 forge-engine-cuda13.
std::string engine_file(const std::string& engine);
// The same without throwing: what was found, and each fault in words (empty: none).
struct EngineSearch {
  EngineLocation location;
  std::string engine_fault, engine_hint;
  std::string torch_fault, torch_hint;
};
EngineSearch search_engine(const std::string& name = "forge-engine");

struct EngineSettings {
  int64_t threads = 0;         // 0: leave the environment's
  bool deterministic = false;  // fixes cuBLAS' workspace
  std::optional<int> lock;     // RunLock::descriptor(): the engine shares it as its descriptor kEngineLock
};
constexpr int kEngineLock = 3;

// Variables that the engine is started with, on top of the program's own.
std::map<std::string, std::string> engine_environment(const EngineLocation& location,
                                                      const EngineSettings& settings);

class EngineProcess {
 public:
  using OnEvent = std::function<void(const Json&)>;

  // Starts the engine in its own process group, so that Ctrl-C reaches it once and through the program only.
  EngineProcess(const EngineLocation& location, const EngineSettings& settings);
  // Closes the engine's stdin, which asks it to checkpoint and leave, and waits for its end.
  ~EngineProcess();
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  // Sends the request (one for each engine) and passes every event to `on_event`, up to and including `done`,
  // whose object it returns once the engine has ended. A signal to stop (core/base/signals.h) is passed on once, as
  // SIGTERM; a second SIGINT or SIGTERM kills the engine. Throws the engine's own error with its kind and hint, or an
  // explanation of how the engine ended.
  Json request(const Json& request, const OnEvent& on_event);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// How an engine ended, for explain_end.
struct EngineEnd {
  int status = 0;              // as waitpid gives it
  std::string standard_error;  // its last lines
  bool out_of_memory = false;  // the kernel's counter of kills for memory rose meanwhile
  int stop_requests = 0;       // signals that asked it to stop
  bool trains = true;          // else it writes no checkpoint to continue from
};
// The error that an end without an `error` event means.
Error explain_end(const EngineEnd& end);

}  // namespace forge
