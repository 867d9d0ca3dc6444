#include "core/train/session.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/model/adapter/adapter_file.h"
#include "core/model/adapter/whole_weight.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/file.h"
#include "core/model/families/drawn_weights.h"
#include "core/model/families/modules.h"
#include "core/model/families/stored_file.h"
#include "core/model/families/wrapper.h"
#include "core/lib/io/safetensors.h"
#include "core/learn/objective/objective.h"
#include "core/model/families/adapter_folder.h"
#include "core/plan/files/model_file.h"
#include "core/learn/rollout/policy_step.h"
#include "core/run/checkpoints.h"
#include "core/run/export_files.h"
#include "core/run/model_card.h"
#include "core/run/run_folder.h"
#include "core/run/staging.h"
#include "core/lib/tensor/device.h"
#include "core/model/dtype.h"
#include "core/train/reference.h"
#include "core/train/other_networks.h"
#include "providers/engine_providers.h"

namespace forge {
namespace {

// Loads the base with `storage`, to which the job's quantization is added.
Model load_base(const ModelConfig& config, int64_t seed, const ModelSpec& spec, Precision precision, c10::Device device,
                BaseStorage storage) {
  const auto file = open_base(config, seed, spec);
  storage.quantization = config.quantization;
  storage.double_quantization = config.double_quantization;
  return load_model(spec, *file, scalar_type(precision), device, storage);
}

void export_full_model(const Session& session, const std::string& folder) {
  c10::NoGradGuard no_grad;
  // The file has the type the run computed in; master weights are rounded once, here.
  c10::ScalarType type = session.model.type;
  const KeptTensors kept(session.plan.model, session.job.model.path);
  std::vector<at::Tensor> host;
  std::vector<SafetensorsEntry> entries;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    host.push_back(tensor.to(at::kCPU, type).contiguous());
    entries.push_back({{name, host.back().sizes().vec(), dtype_of(type)}, tensor_bytes(host.back())});
  };
  for (const Trainable& item : session.trainables->items()) {
    // On a CPU this is the leaf itself, and nothing is copied.
    const at::Tensor leaf = item.leaf.detach();
    const bool transposed = stored_transposed(session.plan.model, item.parameter);
    add(kept.stored_name(item.parameter.name), transposed ? leaf.mT() : leaf);
  }
  for (const KeptTensors::Tensor& tensor : kept.tensors()) entries.push_back({tensor.info, tensor.bytes});
  for (const auto& [name, constant] : constant_weights(session.model)) add(name, constant);
  for (const TensorInfo& zeros : zero_buffers(session.plan.model))
    add(zeros.name, at::zeros(zeros.shape, type));
  write_safetensors(folder + "/model.safetensors", entries, {{"format", "pt"}});
  write_model_config(session.job.model, session.plan.model, name_of(dtype_of(type)), folder);
}

}  // namespace

bool reads_base(const Job& job) {
  if (needs_base(job)) return true;
  const bool compares = objective_of(job.objective.type()).has_reference;
  return compares && job.objective.as<Referenced>().reference == ReferenceModel::base;
}

std::unique_ptr<TensorFile> open_base(const ModelConfig& config, int64_t seed, const ModelSpec& spec) {
  const bool drawn = config.init == ModelInit::random;
  auto file = drawn ? drawn_weights(spec, seed) : open_weights(spec, config.path);
  if (!drawn) check_model_file(spec, *file, config.path), refuse_another_head(spec, *file, config.path);
  return file;
}

void adopt_trained_weights(Model& model, TrainableSet& trainables, bool tied) {
  c10::NoGradGuard no_grad;
  bool embedding_trained = false;
  for (Trainable& item : trainables.items()) {
    std::string name = base_name(item.parameter);
    if (name.empty()) continue;
    at::Tensor* slot = find_weight(model, name);
    FORGE_CHECK(slot && slot->defined(), "no weight " << name);
    item.master.copy_(*slot);
    *slot = item.leaf;
    embedding_trained |= name == embedding_name(model.spec) && item.parameter.name == name;
  }
  // Full fine-tuning of a tied model trains one tensor that is used in two places.
  if (tied && embedding_trained) model.head = model.embedding;
  trainables.publish();
}

Session::Session(const Plan& plan) : plan(plan), job(plan.job), model_name(plan.job.model.path) {}
Session::~Session() = default;

std::unique_ptr<Session> open_session(const Plan& plan, const SessionStart& begins, const EventSink& emit) {
  auto session = std::make_unique<Session>(plan);
  Session& s = *session;
  auto start = Clock::now();
  s.device = open_device(plan.device_name());
  limit_device_memory(s.device, plan.memory_limit());
  set_threads(*s.job.train.threads);
  at::globalContext().setDeterministicAlgorithms(s.job.train.deterministic, /*warn_only=*/false);
  emit({{"event", "loading"}, {"what", s.job.model.path}});
  const std::vector<Parameter> parameters =
      run_parameters(plan.model, s.job.adapter, s.job.model.quantization);
  if (s.job.adapter.type == AdapterType::lora) s.sites = adapter_sites(plan.model, s.job.adapter);
  const Precision precision = *s.job.train.precision;
  BaseStorage storage{.parameters = parameters, .written = s.job.adapter.type == AdapterType::lora && changes_base(s.job.adapter)};
  if (plan.storage != precision) storage.frozen = scalar_type(plan.storage);
  if (plan.step.folded_adapters) storage.folded = module_training(plan.model, s.job.adapter, s.sites);
  s.model = load_base(s.job.model, s.job.seed, plan.model, precision, s.device, std::move(storage));
  s.trainables =
      std::make_unique<TrainableSet>(trained_layout(parameters, s.job.optimizer), s.model.type, s.device, s.job.train.master_weights);
  if (begins.base || reads_base(s.job)) s.base = s.model;
  if (s.job.objective.find<PpoConfig>()) s.value = std::make_unique<ValueNetwork>(s, s.model);
  adopt_trained_weights(s.model, *s.trainables, plan.model.tie_word_embeddings);
  if (s.job.adapter.type == AdapterType::lora) {
    const std::vector<VocabularySite> vocabulary = vocabulary_sites(plan.model, s.job.adapter);
    attach_vocabulary(s.model, *s.trainables, vocabulary, plan.model.tie_word_embeddings);
    attach_adapter(s.model, *s.trainables, s.sites, s.job.adapter);
    if (s.job.adapter.init_from && begins.fresh) {
      check_start_adapter(s.job, plan.model);  // it may have changed since planning
      require_whole_weights(*s.job.adapter.init_from);
      load_adapter(*s.job.adapter.init_from, s.plan.model, *s.trainables);
    } else if (begins.fresh) {
      initialize_vocabulary(*s.trainables, vocabulary, s.job.seed);
      const bool loftq = s.job.adapter.init == LoraInit::loftq;
      const auto original = loftq ? open_weights(plan.model, s.job.model.path) : nullptr;
      s.residual = initialize_adapter(s.model, *s.trainables, s.sites, s.job.adapter, s.job.seed, original.get());
    }
    subtract_residual(s.model, s.sites, s.residual);
    s.trainables->publish();
  }
  s.optimizer = std::make_unique<Optimizer>(s.job.optimizer, s.job.adapter.lora_plus_ratio, *s.trainables);
  StepOptions options = step_options(plan.model, s.job, s.sites, plan.step);
  options.training = plan.training_batch;
  options.evaluation = plan.evaluation_batch;
  options.arena = s.arena;
  s.provider = make_step_provider(plan.provider_name(), s.model, *s.trainables, options);
  s.network = std::make_unique<Network>(s.model, *s.trainables, *s.provider, s.job);
  emit({{"event", "loaded"},
        {"what", s.job.model.path},
        {"bytes", device_memory(s.device).live_bytes},
        {"seconds", seconds_since(start)}});
  return session;
}

LoadedModel open_model_with_adapter(const ModelConfig& model, const std::string& adapter_folder,
                                    Precision precision, c10::Device device, bool decodes) {
  LoadedModel loaded{.quantization = model.quantization};
  ModelSpec spec = read_model_spec({.path = model.path, .family = model.family});
  AdapterConfig& adapter = loaded.adapter;
  std::vector<AdapterSite>& sites = loaded.sites;
  if (!adapter_folder.empty()) {
    const AdapterFile file = read_adapter_config(adapter_folder);
    adapter = file.config;
    spec = spec_for(file, spec);
    sites = sites_of(file, spec);
  }
  std::vector<Parameter> parameters = run_parameters(spec, adapter, model.quantization);
  if (adapter_folder.empty())
    for (Parameter& parameter : parameters) parameter.trainable = false;
  loaded.model = load_base(model, 0, spec, precision, device,
                           {.parameters = parameters, .stored_blocks = decodes && model.quantization == Quantization::none});
  const at::Tensor head = loaded.model.head;
  loaded.trainables = std::make_unique<TrainableSet>(trained_layout(parameters), loaded.model.type, device, true);
  if (adapter_folder.empty()) return loaded;
  adopt_trained_weights(loaded.model, *loaded.trainables, spec.tie_word_embeddings);
  attach_vocabulary(loaded.model, *loaded.trainables, vocabulary_sites(spec, adapter), spec.tie_word_embeddings);
  attach_adapter(loaded.model, *loaded.trainables, sites, adapter);
  load_adapter(adapter_folder, spec, *loaded.trainables);
  loaded.trainables->publish();
  if (!loaded.model.head.is_same(head)) loaded.model.head_blocks = {};  // another one was trained
  return loaded;
}

Job job_of(const LoadedModel& loaded, Job job) {
  job.adapter = loaded.adapter;
  job.model.quantization = loaded.quantization;
  job.train.residual = loaded.model.type == c10::ScalarType::Half ? Residual::fp32 : Residual::compute;
  return job;
}

std::string export_result(const Session& session, const std::string& run_folder) {
  bool full = session.job.adapter.type == AdapterType::none;
  std::string target = run_folder + (full ? "/model" : "/adapter");
  const std::string temporary = make_temporary_sibling(target);
  if (full)
    export_full_model(session, temporary);
  else
    save_adapter(temporary, *session.trainables, session.sites, session.job.adapter, session.model_name,
                 session.residual, session.plan.model);
  write_tokenizer_files(session.job.model.path, template_choice(session.job), temporary);
  if (file_exists(temporary + "/config.json")) write_generation_ends(temporary);
  write_model_card(session.plan, session.model_name, temporary);
  sync_directory(temporary);
  replace_directory(temporary, target);
  return target;
}

}  // namespace forge
