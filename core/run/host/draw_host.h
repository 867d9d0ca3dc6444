#pragma once
// Makes a server draw the engine's completions. The program has the network; nothing else of the
// engine needs one.
//
//   DrawHost host(plan);
//   engine.answer([&](const AnswerPort& port) { return host.answer(event, port); });   // of an event `draw` or `draw_ahead`
//
// Completions of an event `draw_ahead` are drawn in a thread of their own, one rollout after the
// other in the order of the events. They wait there for the event `draw` that asks for them.
#include "core/lib/net/completion_server.h"
#include "core/plan/plan.h"
#include "core/run/host/answer_thread.h"
#include "core/run/host/draw_queue.h"

namespace forge {

class DrawHost {
 public:
  explicit DrawHost(const Plan& plan);

  // Answers `draw` with {"items": [{"ids", "logps", "stopped"}]}, in the order of the event's
  // items, and the seconds that it took if it was drawn ahead. Answers `draw_ahead` with {} at
  // once. Throws Error(environment), ScoringStopped.
  Json answer(const Json& event, const AnswerPort& engine);

 private:
  Json drawn(const Json& event, const std::function<bool()>& stopped) const;

  const Plan& plan_;
  CompletionServer server_;
  DrawQueue queue_;  // draws by the server
};

}  // namespace forge
