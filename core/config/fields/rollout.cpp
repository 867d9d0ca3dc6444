// Keys of the sections rewards, reward_mix and rollout.
#include "core/config/field_builder.h"
#include "core/config/fields.h"

namespace forge {
namespace {

std::vector<Field> server_fields() {
  return {
      key("url", &ServerConfig::url, "Address of the API, up to and with /v1: http:// or https://.").when_unset("needed").role(KeyRole::settings),
      key("headers", &ServerConfig::headers, "Headers of every request by name; secrets as ${env:NAME}.")
          .when_unset("none")
          .role(KeyRole::settings),
      key("timeout", &ServerConfig::timeout, "Time limit for one completion.")
          .kind(FieldKind::seconds)
          .above(0)
          .unit("seconds")
          .role(KeyRole::settings),
      key("concurrency", &ServerConfig::concurrency, "Requests on their way at the same time.").range(1, 1024).role(KeyRole::settings),
      key("adapter_folder", &ServerConfig::adapter_folder,
          "Where the server sees the run's folder rollouts/adapters, as an absolute path on its machine.")
          .when_unset("at the same place")
          .role(KeyRole::settings),
      key("max_gap", &ServerConfig::max_gap,
          "Largest mean difference a token between the server's log-probabilities and the trainer's; a rollout beyond it stops "
          "the run.")
          .above(0)
          .unit("nats")
          .role(KeyRole::settings),
      key("max_staleness", &ServerConfig::max_staleness,
          "Number of rollouts that the server draws ahead, in the background: a rollout is drawn with the weights as they were so many "
          "rollouts before it is trained on. 0 draws each when its turn comes.")
          .range(0, 64)
          .unit("rollouts"),
  };
}

std::vector<Field> tools_fields() {
  return {
      key("command", &ToolsConfig::command,
          "A program and its arguments that answers calls, speaking JSON lines. A single text is split at spaces; no shell is "
          "involved.")
          .when_unset("completions have one turn"),
      key("max_turns", &ToolsConfig::max_turns, "Most turns of the model in one completion.").range(2, 1024).unit("turns"),
      key("on_error", &ToolsConfig::on_error,
          "What a call without an answer means (time-out, crash, an error it states): the run stops, or the completion is left out "
          "as unscored."),
      key("workers", &ToolsConfig::workers, "Number of processes the calls are spread over.").range(1, 256),
      key("timeout", &ToolsConfig::timeout, "Time limit for one call.").kind(FieldKind::seconds).above(0).unit("seconds"),
      key("memory_limit", &ToolsConfig::memory_limit, "Address space limit of each process: bytes, or a size such as 2GiB.")
          .kind(FieldKind::bytes)
          .at_least(1 << 20)
          .unit("bytes")
          .when_unset("no limit"),
      key("environment", &ToolsConfig::environment,
          "Names of environment variables to pass on, in addition to the ones every process gets.")
          .when_unset("none"),
      key("directory", &ToolsConfig::directory, "Working directory of the process.").path().when_unset("the folder of the job file"),
  };
}

}  // namespace

std::vector<Field> reward_fields() {
  return {
      key("name", &RewardConfig::name, "Name of the reward in tables, metrics and requires.")
          .when_unset("the type"),
      key("type", &RewardConfig::type,
          "How completions are scored. exact, contains and regex compare text; numeric and math compare "
          "values; choice compares option letters; json_schema and tags check a format; length, "
          "repetition and overlong measure the text; command runs a program of yours, http asks a server, and model a "
          "reward model on disk.")
          .required(),
      key("weight", &RewardConfig::weight,
          "Factor of the score in the total. With 0 the reward is measured but not trained on.")
          .range(-1e6, 1e6),
      key("requires", &RewardConfig::needs,
          "Name of another reward: this one counts only where the other is above 0, and is 0 elsewhere."),
      key("on_error", &RewardConfig::on_error,
          "What to do when there is no score because a process failed or a row has no usable reference "
          "answer: stop, or leave the completion unscored. A missing score is never counted as 0."),
      key("max_unscored", &RewardConfig::max_unscored,
          "Largest share of a batch that may stay unscored; the run stops above it.")
          .range(0, 1),
      key("answer", &RewardConfig::answer,
          "Column of the row that holds the reference answer, or a dotted path to it (exact, regex, numeric, math, "
          "choice).")
          .when_unset("answer; with regex, groups are not compared"),
      key("extract", &RewardConfig::extract,
          "Where the answer is in the completion (exact, numeric, math, choice): whole, last (the last "
          "number, formula or letter), boxed (the last \\boxed{…}), \"after TEXT\" (after the last TEXT), "
          "\"tag NAME\" (inside the last <NAME>) or \"regex PATTERN\" (the first group of the last match). "
          "auto is whole for exact, and boxed, else last, for the others.")
          .words({"auto", "whole", "last", "boxed"}),
      key("strip", &RewardConfig::strip, "Ignore leading and trailing whitespace of both texts (exact)."),
      key("casefold", &RewardConfig::casefold, "Ignore case (exact, contains)."),
      key("tolerance", &RewardConfig::tolerance,
          "Relative difference that still counts as equal (numeric, math). With 0, numeric compares exactly.")
          .at_least(0)
          .below(1),
      key("partial", &RewardConfig::partial,
          "Score of an answer that has the right form but is wrong (numeric, math, choice, json_schema).")
          .range(0, 1),
      key("choices", &RewardConfig::choices, "The letters or words to choose from (choice)."),
      key("all", &RewardConfig::all,
          "Texts that should occur; the score is the share of them that do (contains).")
          .when_unset("none"),
      key("none", &RewardConfig::none, "Texts that should not occur (contains).").when_unset("none"),
      key("pattern", &RewardConfig::pattern,
          "A regular expression in PCRE2 syntax (regex). With answer, the score is the share of its "
          "groups that equal the reference answer."),
      key("match", &RewardConfig::match,
          "Whether the pattern must match the whole completion or may match anywhere in it (regex)."),
      key("schema", &RewardConfig::schema, "File with a JSON Schema (json_schema).").path(),
      key("where", &RewardConfig::where,
          "Where the JSON is: the whole completion, the last fenced code block, or the last object or "
          "array in the text (json_schema)."),
      key("tags", &RewardConfig::tags,
          "Names of tags that should each occur once, in this order, with nothing outside them (tags).")
          .when_unset("none"),
      key("strict", &RewardConfig::strict, "Score 1 or 0 instead of the share of conditions that hold (tags)."),
      key("unit", &RewardConfig::unit, "What length counts."),
      key("min", &RewardConfig::min, "Shortest length with score 1 (length).").at_least(0),
      key("max", &RewardConfig::max,
          "Longest length with score 1 (length); the limit of completion tokens (overlong).")
          .at_least(1),
      key("target", &RewardConfig::target, "Column of the row that holds the wanted length (length)."),
      key("slack", &RewardConfig::slack,
          "How far outside min, max or target the score has fallen linearly to 0 (length).")
          .at_least(0),
      key("ngram", &RewardConfig::ngram, "Number of words whose repetition is counted (repetition).")
          .range(1, 100)
          .unit("words"),
      key("buffer", &RewardConfig::buffer,
          "Number of tokens before max over which the penalty grows linearly (overlong), as in DAPO.")
          .at_least(0)
          .unit("tokens"),
      key("penalty", &RewardConfig::penalty,
          "Largest penalty: scores lie between 0 and minus this (repetition, overlong).")
          .above(0),
      key("command", &RewardConfig::command,
          "A program and its arguments (command). A single text is split at spaces; no shell is involved. "
          "The program speaks JSON lines: see docs/rewards.md.")
          .when_unset("none"),
      key("workers", &RewardConfig::workers, "Number of processes the completions are spread over (command).")
          .range(1, 256),
      key("timeout", &RewardConfig::timeout, "Time limit for one completion (command).")
          .kind(FieldKind::seconds)
          .above(0)
          .unit("seconds"),
      key("memory_limit", &RewardConfig::memory_limit,
          "Address space limit of each process: bytes, or a size such as 2GiB (command).")
          .kind(FieldKind::bytes)
          .at_least(1 << 20)
          .unit("bytes")
          .when_unset("no limit"),
      key("environment", &RewardConfig::environment,
          "Names of environment variables to pass on, in addition to the ones every process gets "
          "(command).")
          .when_unset("none"),
      key("directory", &RewardConfig::directory, "Working directory of the process (command).")
          .path()
          .when_unset("the folder of the job file"),
      key("url", &RewardConfig::url, "Address that each completion is sent to, http:// or https:// (http).").when_unset("needed"),
      key("field", &RewardConfig::field, "Where the score stands in the server's answer, a dotted path (http)."),
      key("headers", &RewardConfig::headers, "Headers of the request by name; secrets as ${env:NAME} (http).").when_unset("none"),
      key("concurrency", &RewardConfig::concurrency, "Requests on their way at the same time (http).").range(1, 256),
      key("path", &RewardConfig::path,
          "The reward model: a folder of transformers' AutoModelForSequenceClassification or of objective: reward (model).")
          .path()
          .when_unset("needed"),
  };
}

std::vector<Field> reward_mix_fields() {
  return {
      key("normalize_each", &RewardMixConfig::normalize_each,
          "Standardize each reward within its group (mean 0, standard deviation 1) before weighting."),
      key("clip", &RewardMixConfig::clip, "Clip the total to between minus this and this.")
          .above(0)
          .when_unset("not limited"),
  };
}

std::vector<Field> rollout_fields() {
  std::vector<Field> dynamic{
      key("reward", &DynamicSamplingConfig::reward,
          "Name of the reward that decides which groups are kept; new prompts are drawn to replace the "
          "others.")
          .when_unset("every group is kept"),
      key("keep", &DynamicSamplingConfig::keep,
          "A group is kept if its mean score lies strictly between these two values.").length(2),
      key("max_rounds", &DynamicSamplingConfig::max_rounds,
          "Maximum number of sampling rounds for one rollout.").range(1, 1024),
  };
  return {
      key("provider", &RolloutConfig::provider,
          "Who generates the completions: the engine itself (here), with the weights being trained, or a server that is "
          "given each new adapter (http)."),
      key("prompts_per_step", &RolloutConfig::prompts_per_step, "Number of prompts per rollout.").range(1, 1 << 20).unit("prompts"),
      key("samples_per_prompt", &RolloutConfig::samples_per_prompt,
          "Number of completions per prompt: the size of a group.").range(1, 4096),
      key("max_new_tokens", &RolloutConfig::max_new_tokens, "Maximum length of a completion.").range(1, 1 << 20).unit("tokens"),
      // There is no top_p or the like: with it the policy that draws is not the one whose ratio is
      // taken.
      key("temperature", &RolloutConfig::temperature,
          "Sampling temperature. Training computes log-probabilities at the same temperature.")
          .above(0)
          .range(0, 100),
      key("stop", &RolloutConfig::stop,
          "Texts that end a completion, in addition to the model's end tokens. Each is matched as the "
          "tokens it is encoded to.")
          .when_unset("none"),
      key("slots", &RolloutConfig::slots,
          "Number of completions generated at the same time, in whole groups. auto uses as many as fit "
          "into memory.")
          .automatic()
          .range(1, 1 << 20)
          .unit("completions")
          .role(KeyRole::execution),
      key("lookup_tokens", &RolloutConfig::lookup_tokens,
          "Most tokens that are guessed at once from what a prompt and its completion hold already (prompt lookup), and computed "
          "together in slots that ended completions left free. Only what would have been drawn is kept. 0 guesses nothing.")
          .range(0, 64)
          .unit("tokens")
          .role(KeyRole::execution),
      key("correction", &RolloutConfig::correction,
          "Largest importance weight of a token: its probability under the weights that are about to be trained over that under those that "
          "drew it, as the server said it, cut off here (truncated importance sampling).")
          .range(1, 1e6)
          .when_unset("2 with server.max_staleness; otherwise every token weighs 1"),
      section("dynamic_sampling", &RolloutConfig::dynamic_sampling,
              "Keep sampling until a rollout has enough groups that are neither all right nor all wrong "
              "(DAPO).", std::move(dynamic)),
      section("server", &RolloutConfig::server,
              "The server of provider http: see docs/rollout-server.md for what it must be.", server_fields()),
      section("tools", &RolloutConfig::tools,
              "A process that answers the model's calls, so that a completion goes on for several turns: see docs/tools.md.",
              tools_fields()),
  };
}

}  // namespace forge
