#pragma once
// The job file as values: one struct per section of job.yaml, with the defaults a user gets. It
// shows everything that a job can say. The field tables in fields/ have each key's sentence, range
// and choices (docs/job.md and schemas/job.schema.json are written from them).
//
// `std::optional` means "not set", and prints as null. `Auto<T>` means "decided by the plan" and
// prints as auto: after make_plan every Auto in Plan::job holds a value, with its reason in
// Plan::origins.
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/job/in_order.h"
#include "core/job/objective_config.h"
#include "core/job/reward_config.h"

namespace forge {

enum class Quantization { none, nf4, fp4, int8, fp8 };
enum class ModelInit { file, random };
enum class BaseDropout { none, config };
enum class PromptAs { text, user };
enum class AdapterType { none, lora };  // `qlora` is rewritten at parse to lora + nf4 with double quantisation
enum class LoraInit { standard, gaussian, pissa, olora, loftq, eva };  // written default | gaussian | …
enum class LoraBias { none, lora_only, all };
enum class RolloutProvider { here, http };
// A value whose type is decided by the file: false, 3, 0.5, "deep".
using Scalar = std::variant<bool, int64_t, double, std::string>;

enum class RowFormat {
  automatic, messages, sharegpt, alpaca, prompt_completion, text, tokens,
  preference, kto, reward, prompt,  // core/learn/objective says which objective trains on which
};
enum class SampleBy { document, paragraph, line };
enum class Overlong { truncate, drop, split, error };
enum class TruncationSide { right, left };
enum class BadRow { error, skip };
enum class Checkpointing { none, selective, full, chosen };
enum class Precision { fp32, bf16, fp16 };
enum class Residual { compute, fp32 };
enum class OptimizerType { adamw, adamw_8bit, lion, sgd, adafactor, muon, schedule_free };
enum class Offload { none, host };
enum class ScheduleType { constant, linear, cosine, wsd, cosine_with_restarts, polynomial, inverse_sqrt };
enum class DecayShape { linear, cosine, sqrt };
enum class OnNan { stop, skip };
struct ModelConfig {
  std::string path;  // Hugging Face folder or .gguf file; absolute after load_job
  ModelInit init = ModelInit::file;
  // With init random: settings in place of config.json's.
  std::map<std::string, Scalar> architecture;
  BaseDropout dropout = BaseDropout::none;             // inside the base model
  Quantization quantization = Quantization::none;
  bool double_quantization = false;
  double fp8_tolerance = 0.005;  // with fp8: a share of the base's loss
  std::optional<std::string> family;  // a file that describes the model's class; absolute after load_job
  std::optional<std::string> repo, revision;  // on the hub; `path` is then in its cache
  std::vector<std::string> add_tokens;               // texts that become one token each
  // A token of add_tokens → a text whose tokens' mean its row starts from.
  std::map<std::string, std::string> add_tokens_from;
};

// Settings of init: eva, with the names of PEFT's EvaConfig.
struct EvaConfig {
  double tau = 0.99;
  bool use_label_mask = true;
  bool whiten = false;
};

struct AdapterConfig {
  AdapterType type = AdapterType::none;
  int64_t rank = 16;
  double alpha = 32;
  double dropout = 0;
  // "all-linear", names (suffixes of module paths), or one regex that must match the whole path, as
  // in PEFT.
  std::vector<std::string> target_modules{"all-linear"};
  bool target_is_regex = false;  // the file gave one string that is not all-linear
  // Parameters that PEFT does not treat as linear layers: a layer's experts in one tensor
  // ("mlp.experts.down_proj").
  std::vector<std::string> target_parameters;
  std::vector<std::string> exclude_modules;
  bool exclude_is_regex = false;  // the file gave one string that is a regex
  std::vector<std::string> modules_to_save;
  // Rows that are trained: a module → ids of tokens. "" is the input embedding, which the file
  // gives as a plain list.
  std::map<std::string, std::vector<int64_t>> trainable_token_indices;
  LoraBias bias = LoraBias::none;
  bool use_rslora = false;
  bool use_dora = false;
  LoraInit init = LoraInit::standard;
  EvaConfig eva;
  double lora_plus_ratio = 1;  // learning rate of B over that of A
  InOrder<int64_t> rank_pattern;  // the first pattern that matches a module counts
  InOrder<double> alpha_pattern;
  std::vector<int64_t> layers_to_transform;  // empty: all layers
  std::optional<std::string> init_from;      // a PEFT adapter folder
};
// True if the adapter starts as a part of the base weights, which is subtracted from them (pissa,
// olora): W ← W − scale · B A.
inline bool changes_base(const AdapterConfig& adapter) {
  return (adapter.init == LoraInit::pissa || adapter.init == LoraInit::olora) && !adapter.init_from;
}

// True if the adapter starts from the inputs of its layers on the training data (eva).
inline bool starts_from_data(const AdapterConfig& adapter) { return adapter.init == LoraInit::eva && !adapter.init_from; }

struct DataSource {
  std::string path;  // a file, a folder or a pattern; absolute after load_job
  RowFormat format = RowFormat::automatic;
  std::optional<int64_t> limit;  // use only this many rows, over all files of the source
  int64_t skip = 0;              // skip this many rows first
  double weight = 1;             // times each row is used; fractions by the row's hash and the seed
  std::map<std::string, std::string> columns;     // forge's name of a field → its place in the row
  std::map<std::string, std::string> roles;       // name of a speaker in the data → role
  std::optional<std::string> prompt, completion;  // own templates: "Q: {question}"
  std::vector<std::string> ignore;                // keys of rows and turns to ignore deliberately
  SampleBy sample_by = SampleBy::document;        // text files
  std::optional<std::string> repo, revision;      // on the hub; `path` is then in its cache
};

struct DataConfig {
  std::vector<DataSource> train;
  std::vector<DataSource> eval;
  double eval_fraction = 0;
  std::string template_name = "auto";                // key `template`: auto, a .jinja file or a bundled name
  std::map<std::string, Scalar> template_variables;  // by the template's names: enable_thinking
  PromptAs prompt_as = PromptAs::text;               // for rows whose prompt is a text
  int64_t max_length = 1024;                         // tokens
  Overlong overlong = Overlong::truncate;
  TruncationSide truncation_side = TruncationSide::right;
  std::optional<int64_t> max_prompt_length;      // tokens before the first trained one
  std::optional<int64_t> max_completion_length;  // tokens from the first trained one on
  bool packing = true;
  std::optional<std::string> separator;  // stands between documents in rows of text
  bool join_documents = false;
  bool group_by_length = false;
  bool shuffle = true;
  BadRow on_bad_row = BadRow::error;
};

struct TrainConfig {
  std::optional<double> epochs;  // 1 unless another limit is set
  std::optional<int64_t> max_steps;
  std::optional<int64_t> max_tokens;
  std::optional<double> max_time;   // seconds
  Auto<int64_t> global_batch_size;  // examples of one optimizer step; auto: 32
  std::optional<int64_t> global_batch_tokens;
  Auto<int64_t> micro_batch_size;    // examples
  Auto<int64_t> micro_batch_tokens;  // with packing
  Auto<Checkpointing> activation_checkpointing;
  // With host, a GPU's run keeps layers' inputs for the backward in host memory.
  Auto<Offload> activation_offloading;
  Auto<Precision> precision;
  Auto<Residual> residual;
  bool master_weights = true;
  double max_grad_norm = 1.0;  // 0: no clipping
  double neftune_alpha = 0;
  OnNan on_nan = OnNan::stop;
  bool deterministic = false;
  Auto<int64_t> threads;
};

struct OptimizerConfig {
  OptimizerType type = OptimizerType::adamw;
  double learning_rate = 2e-4;
  Auto<std::vector<double>> betas;  // auto: default_betas()
  double eps = 1e-8;
  double weight_decay = 0.0;
  Auto<double> momentum;  // sgd, muon; auto: default_momentum()
  Auto<Offload> offload;  // host: a GPU's run keeps the state in host memory
};

struct ScheduleConfig {
  ScheduleType type = ScheduleType::cosine;
  std::optional<int64_t> warmup_steps;
  double warmup_ratio = 0.0;
  double min_lr_ratio = 0.0;
  double decay_ratio = 0.1;  // wsd: the share of steps that decays
  DecayShape decay = DecayShape::linear;  // wsd
  int64_t cycles = 1;        // cosine_with_restarts
  double power = 1;          // polynomial
};
// Returns the optimizer steps of the warmup of a run of `steps`, as transformers counts them: step
// 0 has rate 0, and the returned step has the full rate.
inline int64_t warmup_steps(const ScheduleConfig& schedule, int64_t steps) {
  return schedule.warmup_steps.value_or(static_cast<int64_t>(std::ceil(schedule.warmup_ratio * static_cast<double>(steps))));
}

struct CheckpointConfig {
  std::optional<int64_t> every_steps;  // null: only at the end of the run
  int64_t keep_last = 2;
  int64_t keep_best = 1;
};

struct EarlyStoppingConfig {
  int64_t patience = 0;  // evaluations without improvement; 0: never stop early
  double min_delta = 0;
};

struct EvalConfig {
  std::optional<int64_t> every_steps;  // null: at the end only
  bool at_start = false;
  int64_t samples = 2;  // prompts answered before and after training, for the report
  int64_t prompts = 64;  // evaluation prompts answered greedily and scored, for grpo
  EarlyStoppingConfig early_stopping;
};

struct LogConfig {
  int64_t every_steps = 1;
  bool tensorboard = true;
};

struct HardwareConfig {
  std::string profile = "auto";
  std::string device = "auto";          // auto | cpu | cuda | cuda:N
  std::optional<int64_t> memory_limit;  // bytes that the run may use; null: what the machine has
};

struct RewardMixConfig {
  bool normalize_each = false;
  std::optional<double> clip;
};

struct DynamicSamplingConfig {
  std::optional<std::string> reward;  // its name; not set: every group is kept
  std::vector<double> keep{0, 1};     // a group's mean score lies strictly between
  int64_t max_rounds = 4;
};

// A server that draws completions through OpenAI's completions endpoint with vLLM's additions;
// docs/rollout-server.md.
struct ServerConfig {
  std::optional<std::string> url;  // up to and with /v1
  std::map<std::string, std::string> headers;
  double timeout = 600;      // seconds a completion
  int64_t concurrency = 32;  // requests at once
  // The server's path of the run's rollouts/adapters; not set: the same path.
  std::optional<std::string> adapter_folder;
  double max_gap = 0.1;  // mean difference of log-probabilities a token, against the trainer's
  // Rollouts by which the drawing weights may be older than the trained ones.
  int64_t max_staleness = 0;
};

// A process that answers a completion's calls, after which the model continues; docs/tools.md.
struct ToolsConfig {
  std::vector<std::string> command;
  int64_t max_turns = 4;  // turns of the model in one completion
  OnRewardError on_error = OnRewardError::stop;
  int64_t workers = 1;
  double timeout = 60;  // seconds a call
  std::optional<int64_t> memory_limit;
  std::vector<std::string> environment;  // names of variables that the process gets
  std::optional<std::string> directory;  // absolute after load_job
};

// Settings of drawing completions that are scored.
struct RolloutConfig {
  RolloutProvider provider = RolloutProvider::here;
  int64_t prompts_per_step = 8;  // prompts of one rollout
  int64_t samples_per_prompt = 8;
  int64_t max_new_tokens = 512;
  double temperature = 1;
  std::vector<std::string> stop;
  Auto<int64_t> slots;  // completions generated at once
  // Most tokens of a completion that are guessed at once; 0: no guessing.
  int64_t lookup_tokens = 0;
  std::optional<double> correction;  // largest importance weight of a token; not set: correction_limit()
  DynamicSamplingConfig dynamic_sampling;
  ServerConfig server;
  ToolsConfig tools;
};

// Returns rollout.correction, or its default if it is not set: the largest weight of a token that
// was drawn by other weights. Without a value, tokens have no weights.
inline std::optional<double> correction_limit(const RolloutConfig& rollout) {
  constexpr double kStaleLimit = 2;  // verl's value
  if (rollout.correction || rollout.server.max_staleness == 0) return rollout.correction;
  return kStaleLimit;
}

struct Job {
  int64_t version = 1;
  std::string name;  // default: the file's stem
  int64_t seed = 42;
  std::string output_dir = "runs";  // absolute after load_job
  ModelConfig model;
  AdapterConfig adapter;
  ObjectiveConfig objective;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  CheckpointConfig checkpoint;
  EvalConfig eval;
  LogConfig log;
  HardwareConfig hardware;
  std::vector<RewardConfig> rewards;
  RewardMixConfig reward_mix;
  RolloutConfig rollout;
  std::string provider = "auto";
  std::vector<std::string> allow;  // checks to turn off: foreign_template
};

}  // namespace forge
