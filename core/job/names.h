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

namespace forge {

const std::vector<std::string>& names(Quantization);
const std::vector<std::string>& names(AdapterType);
const std::vector<std::string>& names(LoraInit);
const std::vector<std::string>& names(LoraBias);
const std::vector<std::string>& names(ObjectiveType);
const std::vector<std::string>& names(DpoLoss);
const std::vector<std::string>& names(NllMean);
const std::vector<std::string>& names(NllOn);
const std::vector<std::string>& names(PolicyTerm);
const std::vector<std::string>& names(PolicyRatio);
const std::vector<std::string>& names(MeanOf);
const std::vector<std::string>& names(Baseline);
const std::vector<std::string>& names(AdvantageScale);
const std::vector<std::string>& names(KlEstimator);
const std::vector<std::string>& names(KlPlace);
const std::vector<std::string>& names(RolloutProvider);
const std::vector<std::string>& names(ReferenceModel);
const std::vector<std::string>& names(TrainOn);
const std::vector<std::string>& names(RowFormat);
const std::vector<std::string>& names(SampleBy);
const std::vector<std::string>& names(Overlong);
const std::vector<std::string>& names(TruncationSide);
const std::vector<std::string>& names(BadRow);
const std::vector<std::string>& names(Checkpointing);
const std::vector<std::string>& names(Precision);
const std::vector<std::string>& names(Residual);
const std::vector<std::string>& names(OptimizerType);
const std::vector<std::string>& names(Offload);
const std::vector<std::string>& names(ScheduleType);
const std::vector<std::string>& names(DecayShape);
const std::vector<std::string>& names(ModelInit);
const std::vector<std::string>& names(BaseDropout);
const std::vector<std::string>& names(PromptAs);
const std::vector<std::string>& names(OnNan);
const std::vector<std::string>& names(OriginKind);
const std::vector<std::string>& names(RewardType);
const std::vector<std::string>& names(RegexMatch);
const std::vector<std::string>& names(JsonWhere);
const std::vector<std::string>& names(LengthUnit);
const std::vector<std::string>& names(OnRewardError);

template <class Enum>
concept JobEnum = requires(Enum e) {
  names(e);
};

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
