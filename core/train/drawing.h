#pragma once
// Draws completions of prompts: with the weights at hand, or by a server that is given them, turn
// after turn where tools answer.
//
//   Drawing drawing(session, ports, stop);
//   drawing.draw(data, {.step = state.step, .split = "train"}, recorded, completions, cost);
//
// A draw depends on the seed, the batch of prompts, the prompt's place in it, the sample and the
// turn. It does not depend on memory, slots or neighbours. The drawn ids themselves are trained on:
// ids are never made from text again. The text that a template writes between two turns is rendered
// around a placeholder, so that the model's own words are never rendered.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/learn/rollout/recorded.h"
#include "core/train/session.h"

namespace forge {

// Purpose of a draw: the step, rollout and split that it belongs to.
struct DrawPurpose {
  int64_t step = 0;      // optimizer steps that were done
  int64_t rollout = 0;
  std::string split;     // train, eval
  bool greedy = false;
  // For a server that draws ahead: the adapter to draw with (publish), and the adapters that other
  // rollouts wait for.
  std::string adapter{};
  std::vector<std::string> waiting{};
};

class Drawing {
 public:
  // Sends the program an event and returns its answer.
  using Ask = std::function<Json(const Json& event)>;
  Drawing(Session& session, std::string run_folder, Ask ask, StopFlag& stop);

  // Fills the completions. They state their prompt, draw, place and sample and are ordered by
  // prompt. Throws Error(diverged) if no logit is a number, what the program throws, and
  // StepInterrupted.
  void draw(const DataSet& data, const DrawPurpose& purpose, const RecordedRollout& recorded, std::vector<Completion>& completions,
            DrawCost& cost);
  // Has the program begin to draw what a later draw() of the same purpose asks for.
  void begin(const DataSet& data, const DrawPurpose& purpose, const RecordedRollout& recorded, std::vector<Completion> completions);
  // Writes the adapter as it is now where the server finds it. Removes the others, except those
  // `needed` and the newest of the rest. Returns the adapter's name, which no other weights ever
  // have.
  std::string publish(int64_t step, const std::set<std::string>& needed) const;
  // Returns the adapter's folder. Throws Error(environment) if the adapter is gone or is another
  // one.
  std::string folder_of(const std::string& adapter) const;
  // True if the same completions cannot be drawn again: they are recorded before they are used.
  bool is_recorded() const { return served_ || has_tools_; }

 private:
  struct Turn;
  std::vector<Turn> first_turns(const DataSet& data, std::vector<Completion>& completions) const;
  void draw_here(std::vector<Turn>& turns, const DrawPurpose& purpose, int64_t samples, DrawCost& cost);
  // Returns the program's answer. If the completions were drawn ahead, it states how long that
  // took.
  Json draw_served(std::vector<Turn>& turns, const DrawPurpose& purpose);
  Json request_of(const char* event, const std::vector<Turn>& turns, const DrawPurpose& purpose) const;
  std::vector<Turn> called(std::vector<Turn> turns, const DrawPurpose& purpose, const RecordedRollout& recorded);
  static void take_recorded(const RecordedRollout& recorded, const std::string& adapter, std::vector<Turn>& turns);

  Session& session_;
  const RolloutConfig& config_;
  const std::string run_folder_;
  const Ask ask_;
  StopFlag& stop_;
  const bool served_, has_tools_;
};

}  // namespace forge
