#include "engine/requests.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>
#include <unistd.h>

#include "core/job/job_json.h"
#include "core/job/names.h"
#include "core/job/secrets.h"
#include "core/lib/base/text.h"
#include "core/lib/tensor/device.h"
#include "core/lib/text/grammar/token_rule.h"
#include "core/model/compare.h"
#include "core/model/generate.h"
#include "core/run/model_text.h"
#include "core/run/request_fields.h"
#include "core/train/other_networks.h"
#include "core/train/measure.h"
#include "core/train/rates.h"
#include "core/train/reference.h"
#include "core/train/trainer.h"
#include "engine/self_check.h"
#include "providers/engine_providers.h"

namespace forge {
namespace {

constexpr int64_t kEvalBatchTokens = 2048;

void hello(const EventSink& emit, const std::string& device) {
  emit({{"event", "hello"},
        {"protocol", kProtocol},
        {"torch", TORCH_VERSION},
        {"device", device},
        {"threads", at::get_num_threads()},
        {"pid", getpid()}});
}

// Returns a field that may be absent or null.
template <class T>
T field(const Json& request, const char* key, T otherwise) {
  auto found = request.find(key);
  return found == request.end() || found->is_null() ? otherwise : found->get<T>();
}

void require_request(const Json& request) {
  if (const std::vector<std::string> faults = request_faults(request); !faults.empty())
    throw Error(ErrorKind::internal, "the request is not one of docs/engine-protocol.md: " + join(faults, "; "));
}

void train_request(const Json& request, const EventSink& emit, const Ask& ask, StopFlag& stop) {
  TrainRequest train_request{.plan = plan_from_json(request.at("plan")),
                             .job_text = request.at("job_text"),
                             .run_folder = request.at("run_folder"),
                             .resume = field(request, "resume", false),
                             .spent_seconds = field(request, "spent_seconds", 0.0)};
  train_request.ask = ask;
  if (request.contains("lock")) train_request.lock = request["lock"].get<int>();
  if (request.contains("secrets")) train_request.secrets = secrets_from_json(request["secrets"]);
  if (request.contains("amendments"))
    for (const Json& amendment : request["amendments"])
      train_request.amendments.push_back(amendment_from_json(amendment));
  set_threads(*train_request.plan.job.train.threads);
  hello(emit, train_request.plan.device_name());
  train(train_request, emit, stop);
}

void measure_request(const Json& request, const EventSink& emit, const Ask&, StopFlag& stop) {
  MeasureRequest measure_request{.plan = plan_from_json(request.at("plan"))};
  measure_request.steps = field(request, "steps", measure_request.steps);
  measure_request.trace = field<std::string>(request, "trace", "");
  measure_request.ops = field(request, "ops", false);
  measure_request.most_seconds = field(request, "seconds", measure_request.most_seconds);
  set_threads(*measure_request.plan.job.train.threads);
  hello(emit, measure_request.plan.device_name());
  measure(measure_request, emit, stop);
}

void rates_request(const Json& request, const EventSink& emit, const Ask&, StopFlag& stop) {
  std::vector<Precision> precisions;
  for (const Json& name : request.at("precisions"))
    precisions.push_back(*enum_of<Precision>(name.get<std::string>()));
  const double seconds = field(request, "seconds", 120.0);
  set_threads(request.at("threads").get<int64_t>());
  hello(emit, "cpu");
  measure_rates(precisions, seconds, emit, stop);
}

// Returns an enum value by name; `otherwise` if the request does not state one.
template <class Enum>
Enum named(const Json& request, const char* key, Enum otherwise) {
  auto name = field<std::string>(request, key, name_of(otherwise));
  std::optional<Enum> value = enum_of<Enum>(name);
  if (!value)
    throw Error(ErrorKind::internal, std::string(key) + ": the engine does not know \"" + name + "\"");
  return *value;
}

// Sends hello and returns the device that the request is for.
c10::Device begin(const Json& request, const EventSink& emit) {
  set_threads(field<int64_t>(request, "threads", at::get_num_threads()));
  std::string device = field<std::string>(request, "device", "cpu");
  hello(emit, device);
  return open_device(device);
}

// Opens the model described by a request or by a part of it.
LoadedModel open_described(const Json& described, Precision precision, c10::Device device, const char* model_key = "model",
                           const char* adapter_key = "adapter", bool decodes = false) {
  ModelConfig model;
  model.path = described.at(model_key);
  if (const auto family = field<std::string>(described, "family", ""); !family.empty()) model.family = family;
  model.quantization = named(described, "quantization", Quantization::none);
  model.double_quantization = field(described, "double_quantization", false);
  return open_model_with_adapter(model, field<std::string>(described, adapter_key, ""), precision, device, decodes);
}

LoadedModel open_for(const Json& request, const EventSink& emit, bool decodes = false) {
  const c10::Device device = begin(request, emit);
  return open_described(request, named(request, "precision", Precision::fp32), device, "model", "adapter",
                        decodes && device.is_cpu() && request.at("provider") == "fused");
}

void eval_request(const Json& request, const EventSink& emit, const Ask&, StopFlag& stop) {
  LoadedNetwork loaded{open_for(request, emit), request.at("provider"),
                       request.contains("job") ? job_from_json(request["job"], "job") : Job()};
  Network& network = loaded.network();
  const Model& model = loaded.model();
  const Job& job = loaded.job();
  DataSet data = DataSet::open(request.at("tokens"));
  std::unique_ptr<Reference> reference;
  if (objective_of(job.objective.type()).has_reference)
    reference =
        loaded_reference(open_described(request, named(request, "precision", Precision::fp32), model.device,
                                        "reference_model", "reference_adapter"),
                         request.at("provider"));
  const MismatchedBatches batches{model, data, kEvalBatchTokens, job.data.max_length};
  const double divergence =
      divergence_of(network, reference.get(), job.objective, batches, numbers_below(data.size()), stop);
  const EvalStats stats =
      evaluate(World(), network, model, data, kEvalBatchTokens, stop, job.objective, reference.get(), divergence);
  for (int64_t i = 0; i < data.size(); ++i) {
    const ExampleLoss& example = stats.examples[static_cast<size_t>(i)];
    Json event{{"event", "example"},
               {"index", i},
               {"tokens", data.length(i)},
               {"supervised_tokens", example.supervised_tokens},
               {"loss", example.loss}};
    if (model.spec.score_head) event["score"] = -example.loss;
    emit(event);
  }
  emit({{"event", "done"},
        {"eval_loss", stats.loss},
        {"metrics", means_of(stats.metrics)},
        {"tokens", stats.tokens},
        {"supervised_tokens", stats.supervised_tokens},
        {"seconds", stats.seconds}});
}

void check_ids(const std::vector<int32_t>& prompt, int64_t vocab_size) {
  if (prompt.empty()) throw Error(ErrorKind::environment, "a prompt has no tokens");
  for (int32_t id : prompt)
    if (id < 0 || id >= vocab_size)
      throw Error(ErrorKind::environment, "the prompt holds token " + std::to_string(id) + ", the model has only tokens below " +
                                              std::to_string(vocab_size));
}

using Prompts = std::vector<std::vector<int32_t>>;

// Returns the logits of the prompts. Frees the whole model, so that the second one can use its
// memory.
at::Tensor logits_of(const Json& described, const std::string& provider, Precision precision, c10::Device device,
                     const Prompts& prompts) {
  LoadedModel loaded = open_described(described, precision, device);
  for (const std::vector<int32_t>& prompt : prompts) check_ids(prompt, loaded.model.spec.vocab_size);
  const Job job = job_of(loaded);
  const auto decoder = make_decoder(provider, loaded.model, *loaded.trainables,
                                    step_options(loaded.model.spec, job, loaded.sites, Checkpointing::none));
  return logits_along(*decoder, prompts);
}

void judge_request(const Json& request, const EventSink& emit, const Ask&, StopFlag& stop) {
  LoadedModel loaded = open_for(request, emit);
  const auto texts = request.at("texts").get<Prompts>();
  for (const std::vector<int32_t>& ids : texts) check_ids(ids, loaded.model.spec.vocab_size);
  LoadedNetwork judge(std::move(loaded), request.at("provider"));
  emit({{"event", "done"},
        {"scores", text_scores(judge.network(), judge.model(), texts, kEvalBatchTokens, stop)}});
}

void compare_request(const Json& request, const EventSink& emit, const Ask&, StopFlag&) {
  const c10::Device device = begin(request, emit);
  const auto precision = named(request, "precision", Precision::fp32);
  const auto prompts = request.at("prompts").get<Prompts>();
  const std::string provider = request.at("provider");
  const at::Tensor first = logits_of(request, provider, precision, device, prompts);
  const at::Tensor second = logits_of(request.at("other"), provider, precision, device, prompts);
  if (first.sizes() != second.sizes())
    throw Error(ErrorKind::environment, "the two models have vocabularies of " + std::to_string(first.size(1)) + " and " +
                                            std::to_string(second.size(1)) + " rows");
  const LogitDifference difference = logit_difference(first, second);
  emit({{"event", "done"},
        {"positions", difference.positions},
        {"largest_difference", difference.largest},
        {"largest_logit", difference.scale},
        {"divergence", difference.divergence},
        {"same_likeliest", difference.same_likeliest}});
}

void logits_request(const Json& request, const EventSink& emit, const Ask&, StopFlag&) {
  const c10::Device device = begin(request, emit);
  const auto stride = std::max<int64_t>(1, request.at("stride").get<int64_t>());
  const at::Tensor all = logits_of(request, request.at("provider"), named(request, "precision", Precision::fp32), device,
                                   request.at("prompts").get<Prompts>());
  const at::Tensor some = all.slice(1, 0, all.size(1), stride).to(at::kCPU, at::kFloat).contiguous();
  Json rows = Json::array();
  for (int64_t row = 0; row < some.size(0); ++row) {
    const float* first = some.const_data_ptr<float>() + row * some.size(1);
    rows.push_back(std::vector<float>(first, first + some.size(1)));
  }
  emit({{"event", "done"}, {"logits", std::move(rows)}});
}

// The rule of a request's grammar, and the state of each text under it, by the text's number.
struct Constraint {
  TokenRule rule;
  std::vector<ConstrainedText> texts;
};

std::optional<Constraint> constraint_of(const Json& request, const SamplingConfig& config, size_t prompts) {
  if (!request.contains("grammar")) return std::nullopt;
  Constraint constraint{{open_model_text(request.at("text")).tokenizer, grammar_from_json(request["grammar"]), config.stop_ids}, {}};
  if (constraint.rule.shortest() > config.max_new_tokens)
    throw Error(ErrorKind::usage, "the shortest text that is allowed needs up to " + std::to_string(constraint.rule.shortest()) +
                                      " tokens, more than --max-new-tokens " + std::to_string(config.max_new_tokens));
  constraint.texts.assign(prompts, constraint.rule.begin());
  return constraint;
}

SamplingConfig sampling_of(const Json& request) {
  return {.max_new_tokens = field<int64_t>(request, "max_new_tokens", 256),
          .temperature = field(request, "temperature", 0.0),
          .top_k = field<int64_t>(request, "top_k", 0),
          .top_p = field(request, "top_p", 1.0),
          .min_p = field(request, "min_p", 0.0),
          .repetition_penalty = field(request, "repetition_penalty", 1.0),
          .seed = field<int64_t>(request, "seed", 42),
          .stop_ids = field<std::vector<int32_t>>(request, "stop_ids", {}),
          .lookup_tokens = field<int64_t>(request, "lookup_tokens", 0)};
}

// Generates after a request's prompts; `kept` is generate()'s argument.
GenerationStats write_texts(const Json& request, const Model& model, Decoder& decoder, KeptTokens* kept, const EventSink& emit) {
  const SamplingConfig config = sampling_of(request);
  const auto prompts = request.at("prompts").get<Prompts>();
  for (const std::vector<int32_t>& prompt : prompts) check_ids(prompt, model.spec.vocab_size);
  if (config.lookup_tokens > 0 && !decoder.forgets())
    throw Error(ErrorKind::usage, "--lookup: a wrong guess cannot be taken back from the states of this model's delta rule").hint("leave out --lookup");
  std::optional<Constraint> constraint = constraint_of(request, config, prompts.size());
  const auto is_whole = [&](int64_t prompt) { return constraint && constraint->rule.must_end(constraint->texts[static_cast<size_t>(prompt)]); };
  // One line holds the tokens of a step: a reader that wakes for each of them takes a processor
  // from the next step.
  std::vector<int64_t> of;
  std::vector<int32_t> ids;
  const auto emit_tokens = [&] {
    if (!ids.empty()) emit({{"event", "tokens"}, {"prompts", of}, {"ids", ids}});
    of.clear(), ids.clear();
  };
  GenerationEvents events{
      .token =
          [&](int64_t prompt, int32_t id, float) {
            if (constraint) constraint->rule.take(constraint->texts[static_cast<size_t>(prompt)], id);
            of.push_back(prompt), ids.push_back(id);
            return !is_whole(prompt);
          },
      .end =
          [&](int64_t prompt, const GenerationEnd& end) {
            emit_tokens();
            if (end.reason == TextEnd::not_finite)
              throw Error(ErrorKind::diverged, "prompt " + std::to_string(prompt + 1) + ", token " +
                                                   std::to_string(end.tokens + 1) + ": no logit is a number")
                  .hint("the model's weights are damaged, or its training diverged");
            emit({{"event", "text_end"},
                  {"prompt", prompt},
                  {"reason", end.reason == TextEnd::stop || is_whole(prompt) ? "stop" : "length"},
                  {"tokens", end.tokens},
                  {"seconds", end.seconds}});
          },
      .step = emit_tokens};
  if (constraint)
    events.restrict = [&](int64_t prompt, int64_t left, std::span<float> logits) {
      constraint->rule.restrict(constraint->texts[static_cast<size_t>(prompt)], left, logits);
    };
  return generate(decoder, prompts, config, {}, events, kept);
}

// True if a text's keys can be kept. Angles that depend on a text's length change all of its keys
// when it grows, so no cache can keep them.
bool keeps_keys(const ModelSpec& spec) { return spec.rope.type != RopeType::dynamic && spec.rope.type != RopeType::longrope; }

// Writes a text for each request that the program sends; ends when the program exits.
void take_turns(Json request, const Model& model, Decoder& decoder, const EventSink& emit, const Ask& ask) {
  KeptTokens kept;
  while (true) {
    if (!keeps_keys(model.spec)) kept.ids.clear();
    const GenerationStats stats = write_texts(request, model, decoder, &kept, emit);
    Json next;
    try {
      next = ask({{"event", "turn"}, {"tokens", stats.tokens}, {"prompt_tokens", stats.prompt_tokens}});
    } catch (const StepInterrupted&) {
      return;
    }
    require_request(next);
    for (const char* same : {"command", "model", "adapter", "turns"})
      FORGE_CHECK(field(next, same, Json()) == field(request, same, Json()), "the next request has another " << same);
    request = std::move(next);
  }
}

void generate_request(const Json& request, const EventSink& emit, const Ask& ask, StopFlag&) {
  LoadedModel loaded = open_for(request, emit, /*decodes=*/true);
  if (loaded.model.spec.score_head)
    throw Error(ErrorKind::environment, request.at("model").get<std::string>() + ": gives scores and writes no text")
        .hint("forge score FILE --model … scores texts with it");
  const Job job = job_of(loaded);
  const auto decoder = make_decoder(request.at("provider"), loaded.model, *loaded.trainables,
                                    step_options(loaded.model.spec, job, loaded.sites, Checkpointing::none));
  if (field(request, "turns", false)) return take_turns(request, loaded.model, *decoder, emit, ask);
  const GenerationStats stats = write_texts(request, loaded.model, *decoder, nullptr, emit);
  emit({{"event", "done"},
        {"tokens", stats.tokens},
        {"guessed", stats.guessed},
        {"guessed_right", stats.guessed_right},
        {"prompt_tokens", stats.prompt_tokens},
        {"prompt_seconds", stats.prompt_seconds},
        {"token_seconds", stats.token_seconds}});
}

void info_request(const Json&, const EventSink& emit, const Ask&, StopFlag&) {
  hello(emit, "cpu");
  std::vector<std::string> devices;
  for (int index = 0; index < cuda::device_count(); ++index)
    devices.push_back("cuda:" + std::to_string(index));
  if (devices.empty()) devices.push_back("cpu");
  Json checks = Json::array();
  for (const std::string& device : devices)
    checks.push_back({{"device", device}, {"found", outcome_of([&] { check_device(device); })}});
  emit({{"event", "done"},
        {"checks", checks},
        {"collectives", cuda::available() ? outcome_of(cuda::check_collectives) : ""},
        {"torch", TORCH_VERSION},
        {"threads", at::get_num_threads()},
        {"cuda", cuda::describe()},
        {"cuda_devices", cuda::device_count()}});
}

struct Row {
  const char* command;
  void (*run)(const Json&, const EventSink&, const Ask&, StopFlag&);
};
constexpr Row kRequests[] = {{"train", &train_request},     {"measure", &measure_request},
                             {"rates", &rates_request},     {"eval", &eval_request},
                             {"generate", &generate_request}, {"judge", &judge_request},
                             {"compare", &compare_request}, {"logits", &logits_request}, {"info", &info_request}};

}  // namespace

void answer(const Json& request, const EventSink& emit, const Ask& ask, StopFlag& stop) {
  require_request(request);
  const std::string command = request["command"];
  for (const Row& row : kRequests)
    if (command == row.command) return row.run(request, emit, ask, stop);
  throw Error(ErrorKind::internal, "nothing answers the request " + command);
}

}  // namespace forge
