#include "core/train/state.h"

namespace forge {

Json to_json(const TrainState& state) {
  Json best = Json::array();
  for (const EvalPoint& point : state.best) best.push_back({{"step", point.step}, {"loss", point.loss}});
  return {{"step", state.step},
          {"updates", state.updates},
          {"tokens", state.tokens},
          {"supervised_tokens", state.supervised_tokens},
          {"examples", state.examples},
          {"consecutive_skips", state.consecutive_skips},
          {"loss_scale", state.loss_scale},
          {"steps_since_overflow", state.steps_since_overflow},
          {"best", best},
          {"last_eval_step", state.last_eval_step},
          {"evals_without_improvement", state.evals_without_improvement},
          {"stopped_early", state.stopped_early},
          {"metrics_bytes", state.metrics_bytes},
          {"train_seconds", state.train_seconds}};
}

TrainState train_state_from_json(const Json& json) {
  TrainState state;
  state.step = json.at("step");
  state.updates = json.at("updates");
  state.tokens = json.at("tokens");
  state.supervised_tokens = json.at("supervised_tokens");
  state.examples = json.at("examples");
  state.consecutive_skips = json.at("consecutive_skips");
  state.loss_scale = json.at("loss_scale");
  state.steps_since_overflow = json.at("steps_since_overflow");
  for (const Json& point : json.at("best")) state.best.push_back({point.at("step"), point.at("loss")});
  state.last_eval_step = json.at("last_eval_step");
  state.evals_without_improvement = json.at("evals_without_improvement");
  state.stopped_early = json.at("stopped_early");
  state.metrics_bytes = json.at("metrics_bytes");
  state.train_seconds = json.at("train_seconds");
  return state;
}

}  // namespace forge
