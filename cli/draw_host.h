#pragma once
// Has a server draw the engine's completions: the program has the network. Nothing else of the engine's needs one.
//
//   DrawHost host(plan);
//   engine.answer([&](const AnswerPort& port) { return host.answer(event, port); });   // of an event `draw`
#include "cli/answer_thread.h"
#include "core/net/completion_server.h"
#include "core/plan/plan.h"

namespace forge {

class DrawHost {
 public:
  explicit DrawHost(const Plan& plan);

  // {"items": [{"ids", "logps", "stopped"}]}, in the order of the event's. Throws Error(environment), ScoringStopped.
  Json answer(const Json& event, const AnswerPort& engine);

 private:
  const Plan& plan_;
  CompletionServer server_;
};

}  // namespace forge
