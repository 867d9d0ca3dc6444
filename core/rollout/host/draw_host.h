#pragma once
// Has a server draw the engine's completions: the program has the network. Nothing else of the engine's needs one.
//
//   DrawHost host(plan);
//   engine.answer([&](const AnswerPort& port) { return host.answer(event, port); });   // of an event `draw` or `draw_ahead`
//
// What is drawn ahead is drawn in a thread of its own, one rollout after the other in the order of the events, and waits there for the
// event `draw` that asks for it.
#include "core/net/completion_server.h"
#include "core/plan/plan.h"
#include "core/rollout/host/answer_thread.h"
#include "core/rollout/host/draw_queue.h"

namespace forge {

class DrawHost {
 public:
  explicit DrawHost(const Plan& plan);

  // To draw: {"items": [{"ids", "logps", "stopped"}]}, in the order of the event's, with the seconds that it took where it was drawn
  // ahead. To draw_ahead: {} at once. Throws Error(environment), ScoringStopped.
  Json answer(const Json& event, const AnswerPort& engine);

 private:
  Json drawn(const Json& event, const std::function<bool()>& stopped) const;

  const Plan& plan_;
  CompletionServer server_;
  DrawQueue queue_;  // draws by the server
};

}  // namespace forge
