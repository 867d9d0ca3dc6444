#pragma once
// Makes rollouts: prompts → completions (drawing.h) → scores → the groups that are kept →
// log-probabilities, values and advantages. Scores come from the program, and are in the rollout's
// file before they are used: a run that was killed draws the same completions again and takes their
// scores from there.
//
// With rollout.server.max_staleness S a server draws ahead: it draws rollout k with the weights
// from before rollout k − S, whatever the timing. The weights are chosen when they exist, and a
// checkpoint keeps that choice. It does not keep what the server has answered since.
//
// A queue that is filled as fast as a server answers (TRL's, OpenRLHF's) trains on what the clock
// decided. With S fixed, the same job gives the same bytes.
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "core/data/batch/order.h"
#include "core/train/drawing.h"
#include "core/train/other_networks.h"
#include "core/train/rollout_passes.h"
#include "core/train/state.h"

namespace forge {

// A rollout that is drawn before its turn.
struct AheadRollout {
  int64_t rollout = 0;  // its number
  int64_t step = 0;     // of the weights that draw it
  std::string adapter;  // their name
  std::vector<Completion> wished{};
  bool begun = false;   // the program was told
};

// Connections of the loop to the run around it.
struct RolloutPorts {
  std::function<Json(const Json& event)> ask;  // sends an event `score`; returns `scores`
  std::function<void(Json event)> record;      // into metrics.jsonl
  std::function<void(const std::string& text)> warn;
  std::string run_folder;
};

class RolloutSource {
 public:
  // All are borrowed.
  RolloutSource(Session& session, const DataSet& train, RolloutPasses& passes, const RolloutPorts& ports, StopFlag& stop);

  // Draws a rollout, with as many rounds as dynamic sampling takes. TrainState::drawn says which
  // prompts are next.
  Rollout draw(const TrainState& state, int64_t number);
  // Begins to draw all rollouts from `first` on that may be drawn ahead. `number` is the rollout
  // that is trained now.
  void look_ahead(const TrainState& state, int64_t number, int64_t first);
  // Returns {rollout, step, adapter} of the rollouts that are still to be trained, for a
  // checkpoint. Empty: nothing is drawn ahead.
  Json ahead(const TrainState& state) const;
  // Takes over what ahead() returned. Throws MemberFault, and Error(environment) when an adapter is
  // gone.
  void restore_ahead(const Json& ahead);
  // Draws greedy completions of the first `prompts` rows, one each, and has them scored.
  std::vector<Completion> greedy(const DataSet& data, int64_t prompts, int64_t step, DrawCost& cost);

 private:
  void score(std::vector<Completion>& completions, const char* split, int64_t number, int64_t step);
  void require_served(Rollout& rollout, std::vector<Completion>& drawn);
  std::vector<std::string> waiting(int64_t from) const;
  std::string publish(int64_t step) const;
  DrawPurpose purpose_of(const AheadRollout& ahead) const;
  void write_rollout(int64_t number, const std::vector<Completion>& before, const std::vector<Completion>& drawn) const;
  std::vector<size_t> kept_groups(std::vector<Completion>& completions, int64_t room, Rollout& rollout) const;

  Session& session_;
  const ObjectiveConfig& objective_;
  const RolloutConfig& config_;
  const DataSet& train_;
  RolloutPasses& passes_;
  const RolloutPorts& ports_;
  StopFlag& stop_;
  Judges judges_;
  Drawing drawing_;
  std::deque<AheadRollout> ahead_;  // by number, without a gap
  Epochs prompts_{
      "prompts", [this](int64_t epoch) { return prompt_batches(train_.lengths(), session_.job, epoch); }};
};

}  // namespace forge
