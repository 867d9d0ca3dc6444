#include "core/train/state.h"

#include "core/io/members.h"

namespace forge {
namespace {

constexpr auto kPointMembers = [](auto& point, auto&& member) {
  member("step", point.step, "optimizer steps done before the evaluation");
  member("loss", point.loss, "mean over its supervised tokens");
};

constexpr auto kWindowMembers = [](auto& window, auto&& member) {
  member("steps", window.steps, "since the last line of metrics");
  member("skipped", window.skipped, "of them without a change of weights");
  member("loss", window.loss, "sum over the others");
  member("examples", window.examples, "of all of them");
  member("tokens", window.tokens, "of all of them");
  member("supervised_tokens", window.supervised_tokens, "of all of them");
  member("seconds", window.seconds, "of all of them");
  member("data_seconds", window.data_seconds, "part of it spent waiting for data");
};

constexpr auto kStateMembers = [](auto& state, auto&& member) {
  member("step", state.step, "completed optimizer steps");
  member("updates", state.updates, "steps that changed weights");
  member("tokens", state.tokens, "trained on, repetitions counted");
  member("supervised_tokens", state.supervised_tokens, "whose prediction was trained");
  member("examples", state.examples, "trained on, repetitions counted");
  member("consecutive_skips", state.consecutive_skips, "steps just left out for a loss that was not finite");
  member("loss_scale", state.loss_scale, "of fp16");
  member("steps_since_overflow", state.steps_since_overflow, "of the loss scale");
  member("best", state.best, "best evaluations, ascending loss");
  member("last_eval_step", state.last_eval_step, "-1: none yet");
  member("evals_without_improvement", state.evals_without_improvement, "for early stopping");
  member("stopped_early", state.stopped_early, "early stopping ended the run");
  member("metrics_bytes", state.metrics_bytes, "length of metrics.jsonl that belongs to this state");
  member("train_seconds", state.train_seconds, "over all sessions of the run");
  member("window", state.window, "steps that no line of metrics tells of yet");
};

}  // namespace

void to_json(Json& json, const EvalPoint& point) { json = write_members(point, kPointMembers); }
void from_json(const Json& json, EvalPoint& point) { read_members(json, point, kPointMembers); }

void to_json(Json& json, const StepWindow& window) { json = write_members(window, kWindowMembers); }
void from_json(const Json& json, StepWindow& window) { read_members(json, window, kWindowMembers); }

void to_json(Json& json, const TrainState& state) { json = write_members(state, kStateMembers); }
void from_json(const Json& json, TrainState& state) { read_members(json, state, kStateMembers); }

}  // namespace forge
