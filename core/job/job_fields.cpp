// The table of job.yaml: its sections (fields.h) and the keys beside them.
#include "core/job/field_builder.h"
#include "core/job/fields.h"

namespace forge {
namespace {

std::vector<Field> make_job_fields() {
  return {
      key("version", &Job::version, "Version of the job format.").range(1, 1).role(KeyRole::free),
      key("name", &Job::name, "Name of the run and its folder.")
          .when_unset("the job file's name without its extension")
          .role(KeyRole::free),
      key("seed", &Job::seed, "Random seed.").range(0, 4294967295.0).role(KeyRole::identity),
      key("output_dir", &Job::output_dir, "Folder to write runs to.").path().role(KeyRole::free),
      section("model", &Job::model, "Base model.", model_fields())
          .shorthand("path")
          .required()
          .role(KeyRole::identity),
      section("adapter", &Job::adapter, "Trained parameters: all weights, or an adapter.",
              adapter_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("objective", &Job::objective, "Training objective.", objective_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("data", &Job::data, "Training and evaluation data.", data_fields())
          .required()
          .role(KeyRole::content),
      section("train", &Job::train, "Duration, batch size and precision.", train_fields())
          .role(KeyRole::identity),
      section("optimizer", &Job::optimizer, "Optimizer and learning rate.", optimizer_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("schedule", &Job::schedule, "Learning rate schedule.", schedule_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("checkpoint", &Job::checkpoint, "Frequency and number of checkpoints.",
              checkpoint_fields())
          .role(KeyRole::settings),
      section("eval", &Job::eval, "Evaluation during training.", eval_fields())
          .role(KeyRole::settings),
      section("log", &Job::log, "Logging of metrics.", log_fields()).role(KeyRole::settings),
      section("hardware", &Job::hardware, "Machine to train on.", hardware_fields())
          .role(KeyRole::execution),
      sections("rewards", &Job::rewards,
              "Rewards that score completions: a list of {type, weight, …}. The total is the "
              "weighted sum of the scores. forge score tries them on rows.",
               reward_fields())
          .shorthand("type")
          .role(KeyRole::identity),
      section("reward_mix", &Job::reward_mix, "Combination of the rewards.", reward_mix_fields())
          .role(KeyRole::identity),
      section("rollout", &Job::rollout, "Generation of completions.", rollout_fields())
          .role(KeyRole::identity),
      key("provider", &Job::provider,
          "Implementation of the layers: fused, reference, or auto, which takes the first that "
          "supports the job (see forge list providers).")
          .words({"auto"})
          .role(KeyRole::execution),
      key("allow", &Job::allow,
          "Checks to turn off. foreign_template allows a data.template whose control tokens are "
          "not tokens of the model.")
          .words({"foreign_template"})
          .role(KeyRole::free),
  };
}

void inherit_roles(std::vector<Field>& fields, KeyRole role) {
  for (Field& field : fields) {
    if (field.role == KeyRole::none) field.role = role;
    inherit_roles(field.fields, field.role);
  }
}

}  // namespace

const std::vector<Field>& job_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> made = make_job_fields();
    inherit_roles(made, KeyRole::none);
    return made;
  }();
  return fields;
}

}  // namespace forge
