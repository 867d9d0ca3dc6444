#pragma once
// The engine as a child process: start it, read its events, forward signals, explain its end.
// The two speak as docs/engine-protocol.md says.
//
//   EngineLocation location = find_engine(EngineKind::cpu);
//   EngineProcess engine(location, {.threads = 2});
//   Json done = engine.request({{"command", "info"}}, [](const Json& event) { … });
#include <functional>
#include <memory>

#include "cli/engine_location.h"
#include "core/io/json.h"
#include "core/rollout/host/answer_thread.h"

namespace forge {

class EngineProcess {
 public:
  using OnEvent = std::function<void(const Json&)>;

  // Starts the engine in its own process group, so that Ctrl-C reaches it once and through the program only.
  EngineProcess(const EngineLocation& location, const EngineSettings& settings);
  // Closes the engine's stdin, which asks it to checkpoint and exit, and waits for it.
  ~EngineProcess();
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  // Sends the request (the only one of this engine) and passes every event to `on_event`, up to and including `done`,
  // whose object it returns once the engine has ended. A signal to stop (core/base/signals.h) is passed on once, as
  // SIGTERM; a second SIGINT or SIGTERM kills the engine. Throws the engine's own error with its kind and hint, or an
  // explanation of how the engine ended.
  Json request(const Json& request, const OnEvent& on_event);
  // A request with `turns`: passes every event up to `turn`, which it returns with the engine waiting for the next one. Signals are
  // the program's own again until then.
  Json turn(const Json& request, const OnEvent& on_event);
  // From within `on_event`: does the work that an event asks for in a thread of its own, while events and signals are listened
  // to, and sends what comes of it. What it throws, `request` throws. A signal to stop lets the engine go on without the answer.
  void answer(AnswerThread::Work work);
  // From within `on_event`: what the engine says to a question of that work.
  void hear(const Json& reply);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forge
