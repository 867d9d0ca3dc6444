#include "engine/requests.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "core/config/names.h"
#include "core/config/secrets.h"
#include "core/model/generate.h"
#include "core/tensor/device.h"
#include "core/train/measure.h"
#include "core/train/trainer.h"
#include "providers/engine_providers.h"

namespace forge {
namespace {

constexpr int kProtocol = 1;

void hello(const EventSink& emit, const std::string& device) {
  emit({{"event", "hello"},
        {"protocol", kProtocol},
        {"torch", TORCH_VERSION},
        {"device", device},
        {"threads", at::get_num_threads()},
        {"pid", getpid()}});
}

// Optional fields may be absent or null.
template <class T>
T field(const Json& request, const char* key, T otherwise) {
  auto found = request.find(key);
  return found == request.end() || found->is_null() ? otherwise : found->get<T>();
}

void train_request(const Json& request, const EventSink& emit, StopFlag& stop) {
  TrainRequest train_request{.plan = plan_from_json(request.at("plan")),
                             .job_text = request.at("job_text"),
                             .run_folder = request.at("run_folder"),
                             .resume = field(request, "resume", false),
                             .spent_seconds = field(request, "spent_seconds", 0.0)};
  if (request.contains("lock")) train_request.lock = request["lock"].get<int>();
  if (request.contains("secrets")) train_request.secrets = secrets_from_json(request["secrets"]);
  if (request.contains("amendments"))
    for (const Json& amendment : request["amendments"])
      train_request.amendments.push_back(amendment_from_json(amendment));
  set_threads(*train_request.plan.job.train.threads);
  hello(emit, train_request.plan.device_name());
  train(train_request, emit, stop);
}

void measure_request(const Json& request, const EventSink& emit, StopFlag& stop) {
  MeasureRequest measure_request{.plan = plan_from_json(request.at("plan"))};
  measure_request.steps = field(request, "steps", measure_request.steps);
  measure_request.most_seconds = field(request, "seconds", measure_request.most_seconds);
  set_threads(*measure_request.plan.job.train.threads);
  hello(emit, measure_request.plan.device_name());
  measure(measure_request, emit, stop);
}

// One of the names of an enum's values; `otherwise` where the request does not say.
template <class Enum>
Enum named(const Json& request, const char* key, Enum otherwise) {
  auto name = field<std::string>(request, key, name_of(otherwise));
  std::optional<Enum> value = enum_of<Enum>(name);
  if (!value)
    throw Error(ErrorKind::internal, std::string(key) + ": the engine does not know \"" + name + "\"");
  return *value;
}

// What eval and generate share.
LoadedModel open_for(const Json& request, const EventSink& emit) {
  set_threads(field<int64_t>(request, "threads", at::get_num_threads()));
  std::string device = field<std::string>(request, "device", "cpu");
  hello(emit, device);
  ModelConfig model;
  model.path = request.at("model");
  model.quantization = named(request, "quantization", Quantization::none);
  model.double_quantization = field(request, "double_quantization", false);
  return open_model_with_adapter(model, field<std::string>(request, "adapter", ""),
                                 named(request, "precision", Precision::fp32), open_device(device));
}

void eval_request(const Json& request, const EventSink& emit, StopFlag& stop) {
  LoadedModel loaded = open_for(request, emit);
  Job job;
  job.adapter = loaded.adapter;
  auto provider = make_step_provider("reference", loaded.model, *loaded.trainables,
                                     step_options(loaded.model.spec, job, loaded.sites, Checkpointing::none));
  Network network(loaded.model, *loaded.trainables, *provider, job);
  DataSet data = DataSet::open(request.at("tokens"));
  const EvalStats stats =
      evaluate(network, loaded.model, data, field<int64_t>(request, "batch_tokens", 2048), stop);
  for (int64_t i = 0; i < data.size(); ++i) {
    const ExampleLoss& example = stats.examples[static_cast<size_t>(i)];
    emit({{"event", "example"},
          {"index", i},
          {"tokens", data.length(i)},
          {"supervised_tokens", example.supervised_tokens},
          {"loss", example.loss}});
  }
  emit({{"event", "done"},
        {"eval_loss", stats.loss},
        {"tokens", stats.tokens},
        {"supervised_tokens", stats.supervised_tokens},
        {"seconds", stats.seconds}});
}

void generate_request(const Json& request, const EventSink& emit, StopFlag&) {
  LoadedModel loaded = open_for(request, emit);
  SamplingConfig config{.max_new_tokens = field<int64_t>(request, "max_new_tokens", 256),
                        .temperature = field(request, "temperature", 0.0),
                        .top_k = field<int64_t>(request, "top_k", 0),
                        .top_p = field(request, "top_p", 1.0),
                        .min_p = field(request, "min_p", 0.0),
                        .seed = field<int64_t>(request, "seed", 42),
                        .stop_ids = field<std::vector<int32_t>>(request, "stop_ids", {})};
  int64_t total = 0;
  for (size_t i = 0; i < request.at("prompts").size(); ++i) {
    auto start = std::chrono::steady_clock::now();
    auto prompt = request["prompts"][i].get<std::vector<int32_t>>();
    for (int32_t id : prompt)
      if (id < 0 || id >= loaded.model.spec.vocab_size)
        throw Error(ErrorKind::environment, "the prompt holds token " + std::to_string(id) +
                                                ", the model knows " +
                                                std::to_string(loaded.model.spec.vocab_size));
    GenerationEnd end = generate(loaded.model, prompt, config, static_cast<int64_t>(i), [&](int32_t id) {
      emit({{"event", "token"}, {"prompt", i}, {"id", id}});
      return true;
    });
    total += end.tokens;
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    emit({{"event", "text_end"},
          {"prompt", i},
          {"reason", end.stopped ? "stop" : "length"},
          {"tokens", end.tokens},
          {"seconds", seconds}});
  }
  emit({{"event", "done"}, {"tokens", total}});
}

void info_request(const Json&, const EventSink& emit, StopFlag&) {
  hello(emit, "cpu");
  if (cuda::available()) cuda::check_collectives();
  emit({{"event", "done"},
        {"torch", TORCH_VERSION},
        {"threads", at::get_num_threads()},
        {"cuda", cuda::describe()},
        {"cuda_devices", cuda::device_count()}});
}

struct Row {
  const char* command;
  void (*run)(const Json&, const EventSink&, StopFlag&);
};
constexpr std::array kRequests{Row{"train", &train_request}, Row{"measure", &measure_request},
                               Row{"eval", &eval_request}, Row{"generate", &generate_request},
                               Row{"info", &info_request}};

}  // namespace

void answer(const Json& request, const EventSink& emit, StopFlag& stop) {
  std::string command = request.value("command", "");
  for (const Row& row : kRequests)
    if (command == row.command) return row.run(request, emit, stop);
  throw Error(ErrorKind::internal, "the engine does not know the request \"" + command + "\"");
}

}  // namespace forge
