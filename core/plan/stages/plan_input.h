#pragma once
// Everything that a plan is made from.
#include <optional>

#include "core/plan/machine/profile.h"
#include "core/plan/machine/rates.h"
#include "core/plan/stages/provider.h"
#include "core/plan/stages/setup.h"

namespace forge {

struct PlanInput : Setup {  // its job is load_job's, Autos open
  std::string device_warning, idle_cards;  // DeviceChoice's words: warnings of the plan
  std::string tokenizer_note;              // Tokenizer::class_note(), a warning too
  Profile profile;
  std::vector<Provider> providers;  // in the order in which `auto` tries them
  ConfigNotes model_notes;
  std::optional<Rates> rates;  // this machine's, once measured
  std::vector<int32_t> stop_ids;                     // of the model: what ends a completion
  std::vector<std::vector<int32_t>> stop_sequences;  // tokens of each text of rollout.stop
  // Tokens and supervised tokens of each example; empty while only estimating (lengths alone may be
  // a sample's).
  std::vector<int64_t> train_lengths, train_supervised, eval_lengths, eval_supervised;

  const Rates* known_rates() const { return rates ? &*rates : nullptr; }
};

}  // namespace forge
