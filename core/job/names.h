#pragma once
// The spelling of every choice, in one place: job files, plan.json, schema and messages all use it.
//
//   name_of(Precision::bf16)                 // "bf16"
//   enum_of<Precision>("bf16")               // Precision::bf16; nullopt for an unknown word
//   names(Precision())                       // {"fp32", "bf16", "fp16"}, in the order of the enum
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/job/job.h"
#include "core/job/origin.h"
#include "core/lib/base/text.h"

namespace forge {

// Return the words of an enum's values, in its order. Enums of other rooms have theirs beside them.
constexpr std::string_view spelling(Quantization) { return "none nf4 fp4 int8 fp8"; }
constexpr std::string_view spelling(AdapterType) { return "none lora"; }
constexpr std::string_view spelling(LoraInit) { return "default gaussian pissa olora loftq eva"; }
constexpr std::string_view spelling(LoraBias) { return "none lora_only all"; }
constexpr std::string_view spelling(ObjectiveType) {
  return "sft pretrain dpo simpo orpo cpo kto reward grpo ppo";
}
constexpr std::string_view spelling(DpoLoss) {
  return "sigmoid robust hinge ipo sigmoid_norm exo_pair nca_pair apo_zero apo_down sppo_hard";
}
constexpr std::string_view spelling(NllMean) { return "pair token"; }
constexpr std::string_view spelling(NllOn) { return "completion all"; }
constexpr std::string_view spelling(PolicyTerm) { return "clip cispo sapo reinforce"; }
constexpr std::string_view spelling(PolicyRatio) { return "token sequence sum group"; }
constexpr std::string_view spelling(MeanOf) { return "token sequence constant"; }
constexpr std::string_view spelling(Baseline) { return "group others none"; }
constexpr std::string_view spelling(AdvantageScale) { return "group batch none"; }
constexpr std::string_view spelling(KlEstimator) { return "k1 k2 k3"; }
constexpr std::string_view spelling(KlPlace) { return "loss reward"; }
constexpr std::string_view spelling(RolloutProvider) { return "here http"; }
constexpr std::string_view spelling(ReferenceModel) { return "base start"; }
constexpr std::string_view spelling(TrainOn) {
  return "assistant last_assistant each_assistant completion all";
}
constexpr std::string_view spelling(RowFormat) {
  return "auto messages sharegpt alpaca prompt_completion text tokens preference kto reward prompt";
}
constexpr std::string_view spelling(SampleBy) { return "document paragraph line"; }
constexpr std::string_view spelling(Overlong) { return "truncate drop split error"; }
constexpr std::string_view spelling(TruncationSide) { return "right left"; }
constexpr std::string_view spelling(BadRow) { return "error skip"; }
constexpr std::string_view spelling(Checkpointing) { return "none selective full chosen"; }
constexpr std::string_view spelling(Precision) { return "fp32 bf16 fp16"; }
constexpr std::string_view spelling(Residual) { return "compute fp32"; }
constexpr std::string_view spelling(ModelInit) { return "file random"; }
constexpr std::string_view spelling(BaseDropout) { return "none config"; }
constexpr std::string_view spelling(PromptAs) { return "text user"; }
constexpr std::string_view spelling(OptimizerType) {
  return "adamw adamw_8bit lion sgd adafactor muon schedule_free";
}
constexpr std::string_view spelling(Offload) { return "none host"; }
constexpr std::string_view spelling(ScheduleType) {
  return "constant linear cosine wsd cosine_with_restarts polynomial inverse_sqrt";
}
constexpr std::string_view spelling(DecayShape) { return "linear cosine sqrt"; }
constexpr std::string_view spelling(OnNan) { return "stop skip"; }
constexpr std::string_view spelling(OriginKind) { return "default given profile derived"; }
constexpr std::string_view spelling(RewardType) {
  return "exact contains regex numeric math choice json_schema tags length repetition overlong command "
         "http model";
}
constexpr std::string_view spelling(RegexMatch) { return "full search"; }
constexpr std::string_view spelling(JsonWhere) { return "whole fenced last"; }
constexpr std::string_view spelling(LengthUnit) { return "tokens words characters"; }
constexpr std::string_view spelling(OnRewardError) { return "stop unscored"; }

template <class Enum>
concept JobEnum = requires(Enum e) {
  spelling(e);
};

template <JobEnum Enum>
const std::vector<std::string>& names(Enum) {
  static const std::vector<std::string> all = split(spelling(Enum()), ' ');
  return all;
}

template <JobEnum Enum>
const std::string& name_of(Enum value) {
  return names(value)[static_cast<size_t>(value)];
}

template <JobEnum Enum>
std::optional<Enum> enum_of(std::string_view name) {
  const std::vector<std::string>& all = names(Enum());
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace forge
