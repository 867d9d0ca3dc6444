#pragma once
// The engine as a child process: starts it, reads its events, forwards signals, explains its end.
// docs/engine-protocol.md describes the protocol.
//
//   EngineProcess engine(engine_of(plan.device, plan.engine), {.threads = 2});
//   Json done = engine.request({{"command", "info"}}, [](const Json& event) { … });
#include <functional>
#include <memory>

#include "cli/engine_location.h"
#include "core/lib/io/json.h"
#include "core/run/host/answer_thread.h"

namespace forge {

class EngineProcess {
 public:
  using OnEvent = std::function<void(const Json&)>;

  // Starts the engine in its own process group, so that Ctrl-C reaches it once and through the
  // program only.
  EngineProcess(const EngineLocation& location, const EngineSettings& settings);
  // Closes the engine's stdin, which asks it to checkpoint and exit, and waits for it.
  ~EngineProcess();
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  // Calls `check` several times a second during requests. If it throws, the engine is killed at
  // once, without a checkpoint, and the request throws the same.
  void watch(std::function<void()> check);
  // Sends the request (the only one of this engine) and passes every event to `on_event`, up to and
  // including `done`, whose object it returns once the engine has ended. A signal to stop
  // (core/lib/base/signals.h) is passed on once, as SIGTERM; a second SIGINT or SIGTERM kills the
  // engine. Throws the engine's own error with its kind and hint, or an explanation of how the
  // engine ended.
  Json request(const Json& request, const OnEvent& on_event);
  // Sends a request with `turns`: passes every event up to `turn`, which it returns with the engine
  // waiting for the next request. The program handles signals itself again until then.
  Json turn(const Json& request, const OnEvent& on_event);
  // To be called from within `on_event`: does the work that an event asks for in a thread of its
  // own, while events and signals are handled, and sends the result. Exceptions of the work are
  // thrown by `request`. After a signal to stop, the engine goes on without the answer.
  void answer(AnswerThread::Work work);
  // To be called from within `on_event`: passes on the engine's reply to a question of that work.
  void hear(const Json& reply);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace forge
