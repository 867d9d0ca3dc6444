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
  // Whether what it draws would not come the same again: it is recorded before it is used.
  bool is_recorded() const { return served_ || has_tools_; }

 private:
  struct Turn;
  std::vector<Turn> first_turns(const DataSet& data, const DrawPurpose& purpose, std::vector<Completion>& completions) const;
  void draw_here(std::vector<Turn>& turns, const DrawPurpose& purpose, int64_t samples, DrawCost& cost);
  void draw_served(std::vector<Turn>& turns, const DrawPurpose& purpose);
  std::vector<Turn> called(std::vector<Turn> turns, const DrawPurpose& purpose, const RecordedRollout& recorded);
  std::string publish(int64_t step) const;

  Session& session_;
  const RolloutConfig& config_;
  const std::string run_folder_;
  const Ask ask_;
  StopFlag& stop_;
  const bool served_, has_tools_;
};

}  // namespace forge
