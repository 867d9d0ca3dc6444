#include "core/job/rules.h"

#include <algorithm>

#include "core/job/names.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

class PolicyRules : RuleFaults {
 public:
  using RuleFaults::RuleFaults;

  void check() {
    loss();
    divergence();
    if (const auto* ppo = job_.objective.find<PpoConfig>()) value(*ppo);
    if (const auto* grpo = job_.objective.find<GrpoConfig>()) advantage(*grpo);
    rollout();
    server();
    tools();
    if (starts_from_data(job_.adapter))
      fault("adapter.init", "eva needs whole texts, and the training data of " + name_of(job_.objective.type()) + " are prompts",
            "write init: default, or start from an adapter (init_from)");
    dynamic_sampling();
    beside();
  }

 private:
  void loss() {
    const PolicyTerm term = job_.objective.as<GrpoConfig>().policy;
    const std::string policy = "objective.policy is " + name_of(term);
    if (term != PolicyTerm::clip) {
      no_effect("objective.clip_low", policy);
      no_effect("objective.dual_clip", policy);
      if (term != PolicyTerm::cispo) no_effect("objective.clip_high", policy);
    }
    if (term == PolicyTerm::reinforce) no_effect("objective.ratio", policy + ", which has no ratio");
    if (term == PolicyTerm::cispo && policy_.clip_high < 1 && given("objective.clip_high"))
      fault("objective.clip_high",
            "cispo's weight would be cut off at 1 + " + format_number(policy_.clip_high) + ", expected a width of at least 1",
            "this is a width: TRL's epsilon_high 5 is clip_high: 4");
    if (policy_.dual_clip && *policy_.dual_clip <= 1 + policy_.clip_high)
      fault("objective.dual_clip", format_number(*policy_.dual_clip) + " is not above 1 + clip_high");
    if (policy_.updates_per_rollout > job_.rollout.prompts_per_step)
      fault("objective.updates_per_rollout",
            format_count(policy_.updates_per_rollout) + " steps out of " + format_count(job_.rollout.prompts_per_step) +
                " prompts (rollout.prompts_per_step), expected at most one for each");
  }

  void divergence() {
    const KlConfig& kl = policy_.kl;
    if (kl.weight == 0) {
      if (!kl.measure) no_effect("objective.kl.estimator", "objective.kl.weight is 0");
      no_effect("objective.kl.in", "objective.kl.weight is 0");
    } else {
      no_effect("objective.kl.measure", "a divergence with a weight is always measured");
    }
    if ((kl.weight > 0 || kl.measure) && changes_base(job_.adapter)) {
      fault(kl.weight > 0 ? "objective.kl.weight" : "objective.kl.measure",
            name_of(job_.adapter.init) + " takes its factors out of the base, which is then no longer there", "write adapter.init: default");
    } else if (kl.weight > 0 && kl.estimator == KlEstimator::k1 && kl.in == KlPlace::loss) {
      fault("objective.kl.estimator", "k1 in the loss has a gradient of 0 on average", "use k3, or in: reward");
    }
  }

  void advantage(const GrpoConfig& o) {
    if (o.baseline != Baseline::none && job_.rollout.samples_per_prompt < 2)
      fault("rollout.samples_per_prompt",
            "1 completion has no group to be compared with (objective.advantage.baseline " + name_of(o.baseline) + ")",
            "write 2 or more");
    if (o.baseline == Baseline::none && o.advantage_scale == AdvantageScale::group)
      fault("objective.advantage.scale", "a group's deviation says nothing about rewards that are not compared within it",
            "use batch or none");
  }

  void value(const PpoConfig& o) {
    if (o.advantage_scale == AdvantageScale::group)
      fault("objective.advantage.scale", "completions are not compared within a group when there is a value network", "use batch or none");
    if (o.lambda_length) no_effect("objective.lambda_policy", "objective.lambda_length is set");
    if (job_.train.max_steps && o.value.pretrain_steps >= *job_.train.max_steps)
      fault("objective.value.pretrain_steps",
            format_count(o.value.pretrain_steps) + " steps leave none for the policy (train.max_steps " +
                format_count(*job_.train.max_steps) + ")",
            "lower it");
    if (job_.optimizer.type == OptimizerType::schedule_free)
      fault("optimizer.type", "schedule_free averages the weights, and the value network keeps no average", "use adamw");
    if (changes_base(job_.adapter))
      fault("adapter.init", name_of(job_.adapter.init) + " takes its factors out of the base, which the value network shares", "write adapter.init: default");
  }

  void rollout() {
    const RolloutConfig& rollout = job_.rollout;
    if (rollout.slots && *rollout.slots < rollout.samples_per_prompt)
      fault("rollout.slots", format_count(*rollout.slots) + " cannot hold a group of " + format_count(rollout.samples_per_prompt) +
                                 " completions (rollout.samples_per_prompt)");
    if (rollout.max_new_tokens >= job_.data.max_length)
      fault("rollout.max_new_tokens",
            format_count(rollout.max_new_tokens) + " leaves no room for a prompt in data.max_length " +
                format_count(job_.data.max_length),
            "raise data.max_length");
    for (const std::string& text : rollout.stop)
      if (text.empty()) fault("rollout.stop", "an empty text would end every completion at once");
  }

  void server() {
    const ServerConfig& server = job_.rollout.server;
    if (job_.rollout.provider != RolloutProvider::http) {
      for (const char* key : {"url", "headers", "timeout", "concurrency", "adapter_folder", "max_gap", "max_staleness"})
        no_effect(std::string("rollout.server.") + key, "rollout.provider is here", "write provider: http");
      no_effect("rollout.correction", "rollout.provider is here, so the weights being trained are those that draw");
      return;
    }
    if (!server.url)
      fault("rollout.server.url", "missing: provider http needs it", "write url: http://localhost:8000/v1");
    else if (!starts_with(*server.url, "http://") && !starts_with(*server.url, "https://"))
      fault("rollout.server.url", "\"" + *server.url + "\" is not a URL", "write http:// or https:// in front");
    if (const std::string wrong = header_fault(server.headers); !wrong.empty()) fault("rollout.server.headers", wrong);
    if (server.adapter_folder && !starts_with(*server.adapter_folder, "/"))
      fault("rollout.server.adapter_folder", "\"" + *server.adapter_folder + "\" is not an absolute path",
            "write the path of the run's rollouts/adapters on the server's machine");
    if (server.max_staleness > 0 && job_.rollout.dynamic_sampling.reward)
      fault("rollout.server.max_staleness",
            "rollouts are drawn before their scores are known, and rollout.dynamic_sampling draws more depending on scores", "remove one of the two");
    if (server.max_staleness > 0 && !job_.rollout.tools.command.empty())
      fault("rollout.server.max_staleness", "rollouts drawn ahead have one turn, and rollout.tools answers calls between turns",
            "remove one of the two");
    no_effect("rollout.slots", "the server decides how many completions it generates at once", "set rollout.server.concurrency");
    no_effect("rollout.lookup_tokens", "the server generates", "turn on speculative decoding in the server");
    const AdapterConfig& adapter = job_.adapter;
    if (adapter.type == AdapterType::none)
      fault("adapter.type", "none trains the weights themselves, and a server takes adapters only", "write adapter: lora");
    else if (adapter.use_dora)
      fault("adapter.use_dora", "servers cannot load DoRA adapters", "remove it");
    else if (!adapter.modules_to_save.empty())
      fault("adapter.modules_to_save", "servers cannot load whole modules from an adapter", "remove it");
    else if (!adapter.trainable_token_indices.empty())
      fault("adapter.trainable_token_indices", "servers cannot load token rows from an adapter", "remove it");
    else if (changes_base(adapter))
      fault("adapter.init", name_of(adapter.init) + " takes its factors out of the base, and the server has the whole base", "write adapter.init: default");
  }

  void tools() {
    if (!job_.rollout.tools.command.empty()) return;
    for (const char* key : {"max_turns", "on_error", "workers", "timeout", "memory_limit", "environment", "directory"})
      no_effect(std::string("rollout.tools.") + key, "rollout.tools.command is not set", "name a program");
  }

  void dynamic_sampling() {
    const DynamicSamplingConfig& dynamic = job_.rollout.dynamic_sampling;
    const std::string section = "rollout.dynamic_sampling.";
    if (!dynamic.reward) {
      for (const char* key : {"keep", "max_rounds"})
        no_effect(section + key, "rollout.dynamic_sampling.reward is not set", "name a reward");
      return;
    }
    if (dynamic.keep[0] >= dynamic.keep[1])
      fault(section + "keep", format_number(dynamic.keep[0]) + " is not below " + format_number(dynamic.keep[1]));
    std::vector<std::string> known;
    for (const RewardConfig& reward : job_.rewards) known.push_back(reward.name);
    if (std::find(known.begin(), known.end(), *dynamic.reward) == known.end())
      fault(section + "reward", "\"" + *dynamic.reward + "\" is not the name of a reward" + did_you_mean(*dynamic.reward, known),
            "the names are " + join(known, ", "));
  }

  void beside() {
    if (job_.rewards.empty())
      fault("rewards", "missing: drawn completions need to be scored", "write rewards: [{type: exact}]");
    for (const char* key : {"train.global_batch_size", "train.global_batch_tokens"})
      no_effect(key, "rollout.prompts_per_step and objective.updates_per_rollout decide what a step is");
    if (job_.train.max_tokens)
      fault("train.max_tokens", "the number of tokens in a rollout is known only once it is drawn", "set train.max_steps or train.epochs");
    no_effect("eval.samples", "the report shows completions of rollouts instead");
    if (job_.data.eval.empty() && job_.data.eval_fraction == 0)
      no_effect("eval.prompts", "there is no evaluation data", "set data.eval or data.eval_fraction");
    no_effect("data.max_completion_length", "rollout.max_new_tokens limits completions");
    if (job_.data.overlong == Overlong::truncate || job_.data.overlong == Overlong::split)
      fault("data.overlong", name_of(job_.data.overlong) + " would leave half a question", "use drop or error");
    if (job_.adapter.dropout > 0)
      fault("adapter.dropout", "the policy being trained would not be the one that drew", "write dropout: 0");
    if (job_.train.neftune_alpha > 0)
      fault("train.neftune_alpha", "the policy being trained would not be the one that drew", "write 0");
    each_source([&](const DataSource& source, const std::string& key) {
      if (source.format != RowFormat::automatic && source.format != RowFormat::prompt)
        fault(key + "format",
              name_of(source.format) + " rows contain an answer, and " + name_of(job_.objective.type()) + " draws its own",
              "write format: prompt; other columns stay with the row for rewards");
    });
  }

  const PolicyConfig& policy_ = job_.objective.as<PolicyConfig>();
};

}  // namespace

void check_policy(const Job& job, const Parsed& parsed, const Position& file, Diagnostics& faults) {
  PolicyRules(job, parsed, file, faults).check();
}

}  // namespace forge
