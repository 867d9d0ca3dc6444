#pragma once
// Completions out of prompts: drawn with the weights at hand, or by a server that is given them, turn after turn where tools
// answer.
//
//   Drawing drawing(session, ports, stop);
//   drawing.draw(data, {.step = state.step, .split = "train"}, recorded, completions, cost);
//
// A draw is a function of the seed, the batch of prompts, the prompt's place in it, the sample and the turn: of nothing that
// memory, slots or neighbours decide. What was drawn is what is trained: ids are never made of text again.
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/rollout/recorded.h"
#include "core/train/session.h"
#include "core/train/state.h"

namespace forge {

struct StopFlag;

// What is drawn for.
struct DrawPurpose {
  int64_t step = 0;      // optimizer steps that were done
  int64_t rollout = 0;
  std::string split;     // train, eval
  bool greedy = false;
  // Of a server that draws ahead: the adapter to draw with (publish), and those that other rollouts wait for.
  std::string adapter{};
  std::vector<std::string> waiting{};
};

class Drawing {
 public:
  // An event that asks the program → its answer.
  using Ask = std::function<Json(const Json& event)>;
  Drawing(Session& session, std::string run_folder, Ask ask, StopFlag& stop);

  // Fills the completions, which say their prompt, draw, place and sample and stand by prompt. Throws Error(diverged) where no
  // logit is a number, what the program throws, StepInterrupted.
  void draw(const DataSet& data, const DrawPurpose& purpose, const RecordedRollout& recorded, std::vector<Completion>& completions,
            DrawCost& cost);
  // Has the program begin to draw what a later draw() of the same purpose asks for.
  void begin(const DataSet& data, const DrawPurpose& purpose, const RecordedRollout& recorded, std::vector<Completion> completions);
  // Writes the adapter as it is now where the server finds it, and removes others but those `needed` and the newest of the rest.
  // → its name, which no other weights ever have
  std::string publish(int64_t step, const std::set<std::string>& needed) const;
  // Where it lies. Throws Error(environment) when it is gone or another one.
  std::string folder_of(const std::string& adapter) const;
  // Whether what it draws would not come the same again: it is recorded before it is used.
  bool is_recorded() const { return served_ || has_tools_; }

 private:
  struct Turn;
  std::vector<Turn> first_turns(const DataSet& data, const DrawPurpose& purpose, std::vector<Completion>& completions) const;
  void draw_here(std::vector<Turn>& turns, const DrawPurpose& purpose, int64_t samples, DrawCost& cost);
  // Its answer, if it was drawn ahead, says how long that took.
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
