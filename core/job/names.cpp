#include "core/job/names.h"

namespace forge {

using Names = std::vector<std::string>;

// Each list is in the order of its enum in job.h.
const Names& names(Quantization) {
  static const Names all{"none", "nf4", "fp4", "int8", "fp8"};
  return all;
}
const Names& names(AdapterType) {
  static const Names all{"none", "lora"};
  return all;
}
const Names& names(LoraInit) {
  static const Names all{"default", "gaussian", "pissa", "olora", "loftq", "eva"};
  return all;
}
const Names& names(LoraBias) {
  static const Names all{"none", "lora_only", "all"};
  return all;
}
const Names& names(ObjectiveType) {
  static const Names all{"sft", "pretrain", "dpo", "simpo", "orpo", "cpo", "kto", "reward", "grpo", "ppo"};
  return all;
}
const Names& names(DpoLoss) {
  static const Names all{"sigmoid",  "robust",   "hinge",    "ipo",      "sigmoid_norm",
                         "exo_pair", "nca_pair", "apo_zero", "apo_down", "sppo_hard"};
  return all;
}
const Names& names(NllMean) {
  static const Names all{"pair", "token"};
  return all;
}
const Names& names(NllOn) {
  static const Names all{"completion", "all"};
  return all;
}
const Names& names(PolicyTerm) {
  static const Names all{"clip", "cispo", "sapo", "reinforce"};
  return all;
}
const Names& names(PolicyRatio) {
  static const Names all{"token", "sequence", "sum", "group"};
  return all;
}
const Names& names(MeanOf) {
  static const Names all{"token", "sequence", "constant"};
  return all;
}
const Names& names(Baseline) {
  static const Names all{"group", "others", "none"};
  return all;
}
const Names& names(AdvantageScale) {
  static const Names all{"group", "batch", "none"};
  return all;
}
const Names& names(KlEstimator) {
  static const Names all{"k1", "k2", "k3"};
  return all;
}
const Names& names(KlPlace) {
  static const Names all{"loss", "reward"};
  return all;
}
const Names& names(RolloutProvider) {
  static const Names all{"here", "http"};
  return all;
}
const Names& names(ReferenceModel) {
  static const Names all{"base", "start"};
  return all;
}
const Names& names(TrainOn) {
  static const Names all{"assistant", "last_assistant", "each_assistant", "completion", "all"};
  return all;
}
const Names& names(RowFormat) {
  static const Names all{"auto",  "messages", "sharegpt",   "alpaca", "prompt_completion",
                         "text",  "tokens",   "preference", "kto",    "reward",
                         "prompt"};
  return all;
}
const Names& names(SampleBy) {
  static const Names all{"document", "paragraph", "line"};
  return all;
}
const Names& names(Overlong) {
  static const Names all{"truncate", "drop", "split", "error"};
  return all;
}
const Names& names(TruncationSide) {
  static const Names all{"right", "left"};
  return all;
}
const Names& names(BadRow) {
  static const Names all{"error", "skip"};
  return all;
}
const Names& names(Checkpointing) {
  static const Names all{"none", "selective", "full", "chosen"};
  return all;
}
const Names& names(Precision) {
  static const Names all{"fp32", "bf16", "fp16"};
  return all;
}
const Names& names(Residual) {
  static const Names all{"compute", "fp32"};
  return all;
}
const Names& names(ModelInit) {
  static const Names all{"file", "random"};
  return all;
}
const Names& names(BaseDropout) {
  static const Names all{"none", "config"};
  return all;
}
const Names& names(PromptAs) {
  static const Names all{"text", "user"};
  return all;
}
const Names& names(OptimizerType) {
  static const Names all{"adamw", "adamw_8bit", "lion", "sgd", "adafactor", "muon", "schedule_free"};
  return all;
}
const Names& names(Offload) {
  static const Names all{"none", "host"};
  return all;
}
const Names& names(ScheduleType) {
  static const Names all{"constant", "linear", "cosine", "wsd", "cosine_with_restarts", "polynomial", "inverse_sqrt"};
  return all;
}
const Names& names(DecayShape) {
  static const Names all{"linear", "cosine", "sqrt"};
  return all;
}
const Names& names(OnNan) {
  static const Names all{"stop", "skip"};
  return all;
}
const Names& names(OriginKind) {
  static const Names all{"default", "given", "profile", "derived"};
  return all;
}
const Names& names(RewardType) {
  static const Names all{"exact",       "contains", "regex",  "numeric",    "math",     "choice",
                         "json_schema", "tags",     "length", "repetition", "overlong", "command",
                         "http",        "model"};
  return all;
}
const Names& names(RegexMatch) {
  static const Names all{"full", "search"};
  return all;
}
const Names& names(JsonWhere) {
  static const Names all{"whole", "fenced", "last"};
  return all;
}
const Names& names(LengthUnit) {
  static const Names all{"tokens", "words", "characters"};
  return all;
}
const Names& names(OnRewardError) {
  static const Names all{"stop", "unscored"};
  return all;
}

}  // namespace forge
