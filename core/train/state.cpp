#include "core/train/state.h"

#include "core/lib/io/members.h"

namespace forge {
namespace {

constexpr auto kPointMembers = [](auto& point, auto&& member) {
  member("step", point.step, "optimizer steps done before the evaluation", at_least(0));
  member("loss", point.loss, "mean over its supervised tokens");
};

constexpr auto kWindowMembers = [](auto& window, auto&& member) {
  member("steps", window.steps, "since the last line of metrics", at_least(0));
  member("skipped", window.skipped, "of them without a change of weights", at_least(0));
  member("loss", window.loss, "sum over the others");
  member("examples", window.examples, "of all of them", at_least(0));
  member("tokens", window.tokens, "of all of them", at_least(0));
  member("supervised_tokens", window.supervised_tokens, "of all of them", at_least(0));
  member("seconds", window.seconds, "of all of them", at_least(0));
  member("data_seconds", window.data_seconds, "part of it spent waiting for data", at_least(0));
  member.later("sums", window.sums, "of the objective's metrics over the others");
  member.later("counts", window.counts, "what each of them is divided by");
  member.later("ratio_most", window.ratio_most, "the largest ratio of a token's new and old probability; 0: no policy was trained", at_least(0));
  member.later("reference_gap_step0", window.reference_gap_step0, "how far answers are from the reference in the first step; below 0: not of these steps");
};

constexpr auto kStateMembers = [](auto& state, auto&& member) {
  member("step", state.step, "completed optimizer steps", at_least(0));
  member("updates", state.updates, "steps that changed weights", at_least(0));
  member.later("value_updates", state.value_updates, "of the value network", at_least(0));
  member("tokens", state.tokens, "trained on, repetitions counted", at_least(0));
  member("supervised_tokens", state.supervised_tokens, "whose prediction was trained", at_least(0));
  member("examples", state.examples, "trained on, repetitions counted", at_least(0));
  member("consecutive_skips", state.consecutive_skips, "steps just left out for a loss that was not finite", at_least(0));
  member("loss_scale", state.loss_scale, "of fp16", at_least(1e-30));
  member("steps_since_overflow", state.steps_since_overflow, "of the loss scale", at_least(0));
  member("best", state.best, "best evaluations, ascending loss");
  member("last_eval_step", state.last_eval_step, "-1: none yet", at_least(-1));
  member("evals_without_improvement", state.evals_without_improvement, "for early stopping", at_least(0));
  member("stopped_early", state.stopped_early, "early stopping ended the run");
  member("metrics_bytes", state.metrics_bytes, "length of metrics.jsonl that belongs to this state", at_least(0));
  member.later("drawn", state.drawn, "batches of prompts that completions were drawn for", at_least(0));
  member.later("run_seconds", state.run_seconds, "of all parts of the run: loading, steps, evaluation, saving", at_least(0));
  member.later("average_rate", state.average_rate, "largest learning rate so far, of an optimizer that averages weights", at_least(0));
  member.later("average_weights", state.average_weights, "what the average is divided by", at_least(0));
  member("window", state.window, "steps that no line of metrics tells of yet");
};

}  // namespace

static void to_json(Json& json, const EvalPoint& point) { json = write_members(point, kPointMembers); }
static void from_json(const Json& json, EvalPoint& point) { read_members(json, point, kPointMembers); }

static void to_json(Json& json, const StepWindow& window) { json = write_members(window, kWindowMembers); }
static void from_json(const Json& json, StepWindow& window) { read_members(json, window, kWindowMembers); }

void to_json(Json& json, const TrainState& state) { json = write_members(state, kStateMembers); }
void from_json(const Json& json, TrainState& state) {
  read_members(json, state, kStateMembers);
  const auto require_done = [&](int64_t step, const char* name) {
    if (step > state.step)
      throw MemberFault(std::string(name) + ": expected at most the " + std::to_string(state.step) +
                        " steps done, found " + std::to_string(step));
  };
  require_done(state.updates, "updates");
  require_done(state.value_updates, "value_updates");
  require_done(state.consecutive_skips, "consecutive_skips");
  require_done(state.last_eval_step, "last_eval_step");
  require_done(state.window.steps, "window.steps");
  require_done(state.window.skipped, "window.skipped");
  for (const EvalPoint& point : state.best) require_done(point.step, "best");
}

}  // namespace forge
