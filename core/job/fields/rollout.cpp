// Keys of the sections rewards, reward_mix and rollout.
#include "core/job/field_builder.h"
#include "core/job/fields.h"

namespace forge {
namespace {

// Returns the entry of a key of the types that have the part.
template <class Part, class Member>
Entry own(std::string name, Member Part::*member, std::string doc) {
  return of_part<RewardConfig, Part>(key(std::move(name), member, std::move(doc)));
}

std::vector<Field> server_fields() {
  return {
      key("url", &ServerConfig::url,
          "Base URL of the API, up to and including /v1: http:// or https://.")
          .when_unset("required by provider: http"),
      key("headers", &ServerConfig::headers,
          "Headers of every request, by name. Write secrets as ${env:NAME}.")
          .when_unset("none"),
      key("timeout", &ServerConfig::timeout, "Time limit for one completion.")
          .seconds(),
      key("concurrency", &ServerConfig::concurrency, "Maximum number of concurrent requests.")
          .range(1, 1024),
      key("adapter_folder", &ServerConfig::adapter_folder,
          "Absolute path at which the server sees the run's folder rollouts/adapters.")
          .when_unset("the same path as here"),
      key("max_gap", &ServerConfig::max_gap,
          "Largest mean difference per token between the server's log-probabilities and the "
          "trainer's. A rollout with a larger one stops the run.")
          .above(0, "nats"),
      key("max_staleness", &ServerConfig::max_staleness,
          "Number of rollouts that the server generates ahead, in the background. A rollout is "
          "then drawn with weights that are this many rollouts old. With 0, each rollout is drawn "
          "just before it is trained on.")
          .range(0, 64, "rollouts")
          .role(KeyRole::identity),
  };
}

std::vector<Field> tools_fields() {
  return {
      key("command", &ToolsConfig::command,
          "Program and arguments that answer the model's tool calls, speaking JSON lines. A single "
          "text is split at spaces; no shell is involved.")
          .when_unset("completions have one turn"),
      key("max_turns", &ToolsConfig::max_turns,
          "Maximum number of the model's turns in one completion.")
          .range(2, 1024, "turns"),
      key("on_error", &ToolsConfig::on_error,
          "Treatment of a call without an answer (a timeout, a crash or a reported error): stop "
          "the run, or leave the completion unscored."),
      key("workers", &ToolsConfig::workers,
          "Number of processes that the calls are distributed over.")
          .range(1, 256),
      key("timeout", &ToolsConfig::timeout, "Time limit for one call.").seconds(),
      key("memory_limit", &ToolsConfig::memory_limit, "Address space limit of each process: bytes, or a size such as 2GiB.")
          .bytes(1 << 20)
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
      type_key<RewardConfig>(
          "Kind of the reward. exact, contains and regex compare text; numeric and math compare "
          "values; choice compares option letters; json_schema and tags check a format; length, "
          "repetition and overlong measure the text; command runs a program, http asks a server, "
          "and model runs a reward model from disk.")
          .required(),
      key("weight", &RewardConfig::weight,
          "Factor of the score in the total. With 0, the reward is measured but not trained on.")
          .range(-1e6, 1e6),
      key("requires", &RewardConfig::needs,
          "Name of an earlier reward. This one counts only where that one is above 0, and is 0 "
          "elsewhere."),
      key("on_error", &RewardConfig::on_error,
          "Treatment of a completion without a score, because a process failed or its row has no "
          "usable reference answer: stop the run, or leave the completion unscored. A missing "
          "score is never counted as 0."),
      key("max_unscored", &RewardConfig::max_unscored,
          "Largest share of a batch that may stay unscored. The run stops above it.")
          .range(0, 1),
      own("answer", &WithAnswer::answer,
          "column of the row that holds the reference answer, or a dotted path to it.")
          .when_unset("answer; with regex, groups are not compared"),
      own("extract", &Extracting::extract,
          "position of the answer in the completion: whole, last "
          "(the last number, formula or letter), boxed (the last \\boxed{…}), \"after TEXT\" "
          "(after the last TEXT), \"tag NAME\" (inside the last <NAME>) or \"regex PATTERN\" (the "
          "first group of the last match). auto is whole for exact, and boxed, otherwise last, for "
          "the others.")
          .words({"auto", "whole", "last", "boxed"}),
      own("strip", &ExactReward::strip,
          "ignore leading and trailing whitespace in both texts."),
      own("casefold", &Casefolding::casefold, "ignore case."),
      own("tolerance", &ValueReward::tolerance,
          "relative difference that still counts as equal. With 0, numeric compares exactly.")
          .at_least(0)
          .below(1),
      own("partial", &PartlyScored::partial,
          "score of an answer that has the right form but is wrong.")
          .range(0, 1),
      own("choices", &ChoiceReward::choices, "letters or words to choose from."),
      own("all", &ContainsReward::all,
          "texts that should occur. The score is the share of them that does.")
          .when_unset("none"),
      own("none", &ContainsReward::none, "texts that should not occur.").when_unset("none"),
      own("pattern", &RegexReward::pattern,
          "regular expression in PCRE2 syntax. With answer, the score is the share of its "
          "groups that equal the reference answer."),
      own("match", &RegexReward::match,
          "part of the completion that the pattern must match: the whole (full), or any part "
          "(search)."),
      own("schema", &JsonSchemaReward::schema, "file with a JSON Schema.").path(),
      own("where", &JsonSchemaReward::where,
          "position of the JSON: the whole completion (whole), the last fenced code block "
          "(fenced), or the last object or array in the text (last)."),
      own("tags", &TagsReward::tags,
          "names of tags that should each occur once, in this order, with nothing outside them.")
          .when_unset("none"),
      own("strict", &TagsReward::strict, "score 1 or 0 instead of the share of conditions that hold."),
      own("unit", &LengthReward::unit, "unit of min, max, target and slack."),
      own("min", &LengthReward::min, "shortest length with score 1.").at_least(0),
      own("max", &WithMost::max,
          "longest length with score 1 (length), or the limit of completion tokens (overlong).")
          .at_least(1),
      own("target", &LengthReward::target, "column of the row that holds the wanted length."),
      own("slack", &LengthReward::slack,
          "distance from min, max or target at which the score, which falls linearly, reaches 0.")
          .at_least(0),
      own("ngram", &RepetitionReward::ngram,
          "length of the word sequences whose repetition is counted.")
          .range(1, 100, "words"),
      own("buffer", &OverlongReward::buffer,
          "number of tokens before max over which the penalty grows linearly, as in DAPO.")
          .at_least(0, "tokens"),
      own("penalty", &Penalising::penalty,
          "largest penalty: scores lie between 0 and minus this.")
          .above(0),
      own("command", &CommandReward::command,
          "program and arguments. A single text is split at spaces; no shell is "
          "involved. The program speaks JSON lines: see docs/rewards.md.")
          .when_unset("none"),
      own("workers", &CommandReward::workers,
          "number of processes that the completions are distributed over.")
          .range(1, 256),
      own("timeout", &WithTimeout::timeout, "time limit for one completion.")
          .seconds(),
      own("memory_limit", &CommandReward::memory_limit,
          "address space limit of each process: bytes, or a size such as 2GiB.")
          .bytes(1 << 20)
          .when_unset("no limit"),
      own("environment", &CommandReward::environment,
          "names of environment variables to pass on, in addition to the ones every process gets.")
          .when_unset("none"),
      own("directory", &CommandReward::directory, "working directory of the process.")
          .path()
          .when_unset("the folder of the job file"),
      own("url", &HttpReward::url,
          "URL that each completion is sent to, http:// or https://.")
          .when_unset("required by type: http"),
      own("field", &HttpReward::field, "dotted path of the score in the server's answer."),
      own("headers", &HttpReward::headers,
          "headers of every request, by name. Write secrets as ${env:NAME}.")
          .when_unset("none"),
      own("concurrency", &HttpReward::concurrency,
          "maximum number of concurrent requests.").range(1, 256),
      own("path", &ModelReward::path,
          "reward model folder: transformers' AutoModelForSequenceClassification, or the result of "
          "objective: reward.")
          .path()
          .when_unset("required by type: model"),
  };
}

std::vector<Field> reward_mix_fields() {
  return {
      key("normalize_each", &RewardMixConfig::normalize_each,
          "Standardize each reward within its group (mean 0, standard deviation 1) before weighting."),
      key("clip", &RewardMixConfig::clip,
          "Clip the total to the range from minus this value to this value.")
          .above(0)
          .when_unset("no limit"),
  };
}

std::vector<Field> rollout_fields() {
  std::vector<Field> dynamic{
      key("reward", &DynamicSamplingConfig::reward,
          "Name of the reward that decides which groups to keep. New prompts are drawn to replace "
          "the other groups.")
          .when_unset("every group is kept"),
      key("keep", &DynamicSamplingConfig::keep,
          "Range of a kept group's mean score, both ends excluded.").length(2),
      key("max_rounds", &DynamicSamplingConfig::max_rounds,
          "Maximum number of sampling rounds for one rollout.").range(1, 1024),
  };
  return {
      key("provider", &RolloutConfig::provider,
          "Source of the completions: the engine itself, with the weights being trained (here), or "
          "a server that receives each new adapter (http)."),
      key("prompts_per_step", &RolloutConfig::prompts_per_step, "Number of prompts per rollout.").range(1, 1 << 20, "prompts"),
      key("samples_per_prompt", &RolloutConfig::samples_per_prompt,
          "Number of completions per prompt, which is the size of a group.").range(1, 4096),
      key("max_new_tokens", &RolloutConfig::max_new_tokens, "Maximum length of a completion.").range(1, 1 << 20, "tokens"),
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
          "Number of completions generated at the same time, in whole groups. auto uses as many as "
          "fit into memory.")
          .automatic()
          .range(1, 1 << 20, "completions")
          .role(KeyRole::execution),
      key("lookup_tokens", &RolloutConfig::lookup_tokens,
          "Maximum number of tokens guessed at once from the text of the prompt and its completion "
          "so far (prompt lookup). Guesses are computed in slots that finished completions have "
          "left free, and only those that would have been drawn are kept. 0 disables guessing.")
          .range(0, 64, "tokens")
          .role(KeyRole::execution),
      key("correction", &RolloutConfig::correction,
          "Largest importance weight of a token (truncated importance sampling): its probability "
          "under the weights about to be trained, divided by its probability under the weights "
          "that drew it, as reported by the server. Larger weights are set to this value.")
          .range(1, 1e6)
          .when_unset("2 with server.max_staleness; otherwise every token has weight 1"),
      section("dynamic_sampling", &RolloutConfig::dynamic_sampling,
              "Keep sampling until a rollout has enough groups that are neither all right nor all wrong "
              "(DAPO).", std::move(dynamic)),
      section("server", &RolloutConfig::server,
              "Server for provider: http. docs/rollout-server.md describes its requirements.",
              server_fields())
          .role(KeyRole::settings),
      section("tools", &RolloutConfig::tools,
              "Process that answers the model's tool calls, so that a completion has several "
              "turns: see docs/tools.md.",
              tools_fields()),
  };
}

}  // namespace forge
